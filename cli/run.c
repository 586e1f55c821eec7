/* SPDX-License-Identifier: Apache-2.0 */
/* tutti run: local ranks of any program. */
#include "cli.h"
#include "launch.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: tutti run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "Starts N ranks of PROGRAM on this host and ends when all have ended. When one fails, the others are stopped.\n"
    "\n"
    "  -n, --np N           number of ranks\n"
    "  -x NAME=VALUE        set a variable for the ranks (may be repeated); NAME alone passes it on unchanged\n"
    "      --timeout S      stop the job after S seconds (exit status 124)\n"
    "      --bind WHERE     none (default), or core: rank r runs on the r-th allowed processor, modulo their number\n"
    "      --tag-output     print \"[rank] \" before each line of output (default)\n"
    "      --no-tag         ranks write straight to this terminal or file\n"
    "  -h, --help           this text\n"
    "\n"
    "Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_ID and TUTTI_NONCE in its\n"
    "environment, and for programs of torch.distributed RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR "
    "and MASTER_PORT.\n"
    "Rank 0 reads standard input. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the ranks; "
    "the\n"
    "second SIGINT or SIGTERM kills them. Exit status: 0, or that of the first rank that failed (128 + signal if "
    "killed).\n";

enum { MOST_RANKS = 4096, MOST_SETS = 256 };
enum { OPTION_TIMEOUT = 256, OPTION_BIND, OPTION_TAG, OPTION_NO_TAG };

static const struct option options[] = {
    {"np", required_argument, NULL, 'n'},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"tag-output", no_argument, NULL, OPTION_TAG},
    {"no-tag", no_argument, NULL, OPTION_NO_TAG},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int set_variable(struct launch *job, char **sets, char *text)
{
    if (*text == '=' || !*text)
        return usage_error("run", "-x wants NAME=VALUE, got \"%s\"", text);
    if (!strchr(text, '='))
        return getenv(text) ? EXIT_OK
                            : usage_error("run", "-x %s: the variable is not set here; give NAME=VALUE", text);
    if (job->sets == MOST_SETS)
        return usage_error("run", "more than %d -x options", MOST_SETS);
    sets[job->sets++] = text;
    return EXIT_OK;
}

static int take_option(struct launch *job, char **sets, int option)
{
    switch (option) {
    case 'n':
        return text_int(optarg, 1, MOST_RANKS, &job->size)
                   ? EXIT_OK
                   : usage_error("run", "-n wants a number of ranks from 1 to %d, got \"%s\"", MOST_RANKS, optarg);
    case 'x':
        return set_variable(job, sets, optarg);
    case OPTION_TIMEOUT:
        return text_int(optarg, 1, 1000000, &job->timeout_s)
                   ? EXIT_OK
                   : usage_error("run", "--timeout wants seconds from 1 to 1000000, got \"%s\"", optarg);
    case OPTION_BIND:
        job->bind = strcmp(optarg, "core") == 0;
        return job->bind || strcmp(optarg, "none") == 0
                   ? EXIT_OK
                   : usage_error("run", "--bind wants none or core, got \"%s\"", optarg);
    case OPTION_TAG:
        job->tag = true;
        return EXIT_OK;
    case OPTION_NO_TAG:
        job->tag = false;
        return EXIT_OK;
    default:
        return usage_error("run", "that option is not known, or lacks its value");
    }
}

int cmd_run(int argc, char **argv)
{
    char *sets[MOST_SETS], name[] = "tutti run";
    struct launch job = {.command = "run", .tag = true, .set = sets};
    int option;
    argv[0] = name;
    optind = 1;
    while ((option = getopt_long(argc, argv, "+n:x:h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return EXIT_OK;
        }
        int code = take_option(&job, sets, option);
        if (code != EXIT_OK)
            return code;
    }
    if (!job.size)
        return usage_error("run", "how many ranks? Give -n N");
    if (optind == argc)
        return usage_error("run", "which program?");
    job.argv = argv + optind;
    return launch(&job);
}
