/* SPDX-License-Identifier: Apache-2.0 */
/* tutti run: ranks of any program, on this host or on several. */
#include "cli.h"
#include "launch.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] = "Usage: tutti run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
                           "       tutti run --hosts a:2,b:2 [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
                           "Starts N ranks of PROGRAM and ends when all have ended. When one fails, the\n"
                           "others are stopped.\n"
                           "\n"
                           "  -n, -np, --np N      number of ranks; with hosts, all their slots if it is not\n"
                           "                       given\n"
                           "  -H, --hosts LIST     hosts and the ranks that each has room for (slots):\n"
                           "                       a:2,b:2; one if there is no number\n"
                           "      --hostfile FILE  the same as lines: \"a slots=2\" or \"a:2\"; # begins a\n"
                           "                       comment\n"
                           "      --rsh COMMAND    what runs a command on a host: COMMAND HOST TUTTI run\n"
                           "                       --part; default: ssh, and nothing for localhost\n"
                           "      --tutti PATH     this program on the hosts; default: the path it has here\n"
                           "  -x NAME=VALUE        set a variable for the ranks (may be repeated); NAME\n"
                           "                       alone passes it on unchanged\n"
                           "      --timeout S      stop the job after S seconds (exit status 124)\n"
                           "      --bind WHERE     none (default), or core: rank r runs on the r-th allowed\n"
                           "                       processor, modulo their number\n"
                           "      --tag-output     print \"[rank] \" before each line of output (default)\n"
                           "      --no-tag         ranks write straight to this terminal or file\n"
                           "  -h, --help           this text\n"
                           "\n"
                           "Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE,\n"
                           "TUTTI_ID and TUTTI_NONCE in its environment, and for programs of\n"
                           "torch.distributed RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR\n"
                           "and MASTER_PORT. On several hosts the folder must be there on all, variables\n"
                           "that begin with TUTTI_ or NCCL_ go along, others by -x, and ranks have no\n"
                           "standard input; TUTTI_SOCKET_IFNAME says by which network they meet. A host\n"
                           "whose connection is lost ends its ranks. Rank 0 reads standard input on this\n"
                           "host alone. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on\n"
                           "to the ranks; the second SIGINT or SIGTERM kills them. Exit status: 0, or that\n"
                           "of the first rank that failed (128 + signal if killed).\n";

enum { MOST_RANKS = 4096, MOST_SETS = 256 };
enum {
    OPTION_TIMEOUT = 256,
    OPTION_BIND,
    OPTION_TAG,
    OPTION_NO_TAG,
    OPTION_HOSTFILE,
    OPTION_RSH,
    OPTION_TUTTI,
    OPTION_PART
};

/* ssh asks nothing, and notices a host that is gone. */
#define SSH "ssh -x -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15"

static const struct option options[] = {
    {"np", required_argument, NULL, 'n'},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"tag-output", no_argument, NULL, OPTION_TAG},
    {"no-tag", no_argument, NULL, OPTION_NO_TAG},
    {"hosts", required_argument, NULL, 'H'},
    {"hostfile", required_argument, NULL, OPTION_HOSTFILE},
    {"rsh", required_argument, NULL, OPTION_RSH},
    {"tutti", required_argument, NULL, OPTION_TUTTI},
    {"part", no_argument, NULL, OPTION_PART},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct request {
    struct launch job;
    struct cluster cluster;
    struct hosts hosts;
    char *sets[MOST_SETS], *made[MOST_SETS]; /* made: those that we have put together */
    const char *rsh;
    bool part;
};

static int set_variable(struct request *request, char *text)
{
    struct launch *job = &request->job;
    if (*text == '=' || !*text)
        return usage_error("run", "-x wants NAME=VALUE, got \"%s\"", text);
    if (!strchr(text, '=') && !getenv(text))
        return usage_error("run", "-x %s: the variable is not set here; give NAME=VALUE", text);
    if (job->sets == MOST_SETS)
        return usage_error("run", "more than %d -x options", MOST_SETS);
    if (!strchr(text, '=')) {
        if (asprintf(&request->made[job->sets], "%s=%s", text, getenv(text)) < 0)
            return failure("run", "no memory for -x %s", text);
        text = request->made[job->sets];
    }
    request->sets[job->sets++] = text;
    return EXIT_OK;
}

static int take_hosts(struct request *request, bool file)
{
    char why[1024];
    if (request->hosts.count)
        return usage_error("run", "give hosts once, by --hosts or --hostfile");
    bool good = file ? hosts_file(&request->hosts, optarg, why, sizeof why)
                     : hosts_list(&request->hosts, optarg, why, sizeof why);
    return good ? EXIT_OK : usage_error("run", "%s", why);
}

static int take_option(struct request *request, int option)
{
    struct launch *job = &request->job;
    switch (option) {
    case 'n':
        return text_int(optarg, 1, MOST_RANKS, &job->size)
                   ? EXIT_OK
                   : usage_error("run", "-n wants a number of ranks from 1 to %d, got \"%s\"", MOST_RANKS, optarg);
    case 'x':
        return set_variable(request, optarg);
    case 'H':
    case OPTION_HOSTFILE:
        return take_hosts(request, option == OPTION_HOSTFILE);
    case OPTION_RSH:
        request->rsh = optarg;
        return EXIT_OK;
    case OPTION_TUTTI:
        request->cluster.program = optarg;
        return EXIT_OK;
    case OPTION_PART:
        request->part = true;
        return EXIT_OK;
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

/* The way goes through a shell of the host, or not: it must mean the same to both. */
static int check_program(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:@%,=-";
    if (*path && !path[strspn(path, plain)])
        return EXIT_OK;
    return usage_error("run", "\"%s\" has characters that a shell takes for others; give --tutti PATH", path);
}

static int run_cluster(struct request *request)
{
    char here[PATH_MAX] = "", words[] = SSH, *copy = strdup(request->rsh ? request->rsh : words), *reach[64],
         *rest = copy, *word;
    int count = 0, slots = 0;
    for (int i = 0; i < request->hosts.count; i++)
        slots += request->hosts.all[i].slots;
    while (copy && count < 63 && (word = strsep(&rest, " ")))
        if (*word)
            reach[count++] = word;
    reach[count] = NULL;
    if (!request->cluster.program && program_path(here, sizeof here))
        request->cluster.program = here;
    int code = check_program(request->cluster.program ? request->cluster.program : "");
    if (code == EXIT_OK && (!count || rest))
        code = usage_error("run", "--rsh wants a command of 1 to 63 words, got \"%s\"", request->rsh);
    if (code == EXIT_OK && !hosts_place(&request->hosts, request->job.size))
        code = usage_error("run", "%d ranks are more than the hosts have slots: %d", request->job.size, slots);
    request->cluster.reach = reach;
    request->cluster.ssh = !request->rsh;
    request->cluster.hosts = &request->hosts;
    request->job.cluster = &request->cluster;
    request->job.size = request->hosts.count;
    if (code == EXIT_OK)
        code = launch(&request->job);
    free(copy);
    return code;
}

static int run(struct request *request, int argc, char **argv)
{
    if (request->part)
        return cmd_run_part();
    if (!request->job.size && !request->hosts.count)
        return usage_error("run", "how many ranks? Give -n N");
    if (optind == argc)
        return usage_error("run", "which program?");
    if ((request->rsh || request->cluster.program) && !request->hosts.count)
        return usage_error("run", "--rsh and --tutti are for several hosts; give --hosts or --hostfile");
    request->job.argv = argv + optind;
    request->job.set = request->sets;
    return request->hosts.count ? run_cluster(request) : launch(&request->job);
}

int cmd_run(int argc, char **argv)
{
    char name[] = "tutti run";
    struct request request = {.job = {.command = "run", .tag = true}};
    int option, code = EXIT_OK;
    argv[0] = name;
    optind = 1;
    while (code == EXIT_OK && (option = getopt_long(argc, argv, "+n:x:H:h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            break;
        }
        if (option == 'n' && strcmp(optarg, "p") == 0 && optind < argc) /* -np, as mpirun has it */
            optarg = argv[optind++];
        code = take_option(&request, option);
    }
    if (code == EXIT_OK && option != 'h')
        code = run(&request, argc, argv);
    for (int i = 0; i < MOST_SETS; i++)
        free(request.made[i]);
    hosts_close(&request.hosts);
    return code;
}
