/* SPDX-License-Identifier: Apache-2.0 */
/* tutti run: ranks of any program, on this host or on several. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4096, MOST_SETS = 256 };
/* options with which ssh asks nothing, and notices a host that is gone */
#define SSH "ssh -x -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15"

struct run_request {
    struct launch job;
    struct cluster cluster;
    struct hosts hosts;
    char *sets[MOST_SETS], *made[MOST_SETS]; /* made: the texts that we have put together */
    const char *rsh, *tutti;
    int bind;
    bool part;
};

/* Names and values stay where they are on the command line. */
static int set_variable(void *wishes, const char *text)
{
    struct run_request *request = wishes;
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
    request->sets[job->sets++] = (char *)text;
    return OPTION_TAKEN;
}

static int take_hosts(struct run_request *request, const char *text, bool file)
{
    char why[1024];
    if (request->hosts.count)
        return usage_error("run", "give hosts once, by --hosts or --hostfile");
    bool good =
        file ? hosts_file(&request->hosts, text, why, sizeof why) : hosts_list(&request->hosts, text, why, sizeof why);
    return good ? OPTION_TAKEN : usage_error("run", "%s", why);
}

static int take_list(void *request, const char *text)
{
    return take_hosts(request, text, false);
}

static int take_file(void *request, const char *text)
{
    return take_hosts(request, text, true);
}

static int untag(void *request, const char *text)
{
    (void)text;
    ((struct run_request *)request)->job.tag = false;
    return OPTION_TAKEN;
}

#define R struct run_request
static const struct option_row rows[] = {
    {'n', "np", "N", "number of ranks; with hosts, all their slots if it is not given",
     TO_INT(R, job.size, 1, MOST_RANKS)},
    {'H', "hosts", "LIST", "hosts and the ranks that each has room for (slots): a:2,b:2; one if there is no number",
     TO_CALL(take_list, NULL)},
    {0, "hostfile", "FILE", "the same as lines: \"a slots=2\" or \"a:2\"; # begins a comment",
     TO_CALL(take_file, NULL)},
    {0, "rsh", "COMMAND",
     "what runs a command on a host: COMMAND HOST TUTTI run --part; default: ssh, and nothing for "
     "localhost",
     TO_TEXT(R, rsh)},
    {0, "tutti", "PATH", "this program on the hosts; default: the path it has here", TO_TEXT(R, tutti)},
    {'x', NULL, "NAME=VALUE", "set a variable for the ranks (may be repeated); NAME alone passes it on unchanged",
     TO_CALL(set_variable, NULL)},
    {0, "timeout", "S", "stop the job after S seconds (exit status 124)", TO_INT(R, job.timeout_s, 1, 1000000)},
    {0, "bind", "WHERE", "core: rank r runs on the r-th allowed processor, modulo their number (default none)",
     TO_WORD(R, bind, "none core")},
    {0, "tag-output", NULL, "print \"[rank] \" before each line of output (default)", TO_FLAG(R, job.tag)},
    {0, "no-tag", NULL, "ranks write straight to this terminal or file", TO_CALL(untag, NULL)},
    {0, "part", NULL, NULL, TO_FLAG(R, part)},
};
#undef R

static const struct options options_of_run = {
    .command = "run",
    .usage = "-n N [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
             "--hosts a:2,b:2 [OPTION...] [--] PROGRAM [ARGUMENT...]",
    .before = "Starts N ranks of PROGRAM and ends when all have ended. When one fails, the others are stopped.",
    .after =
        "Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_ID and TUTTI_NONCE in its "
        "environment. For programs of torch.distributed there are RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
        "MASTER_ADDR and MASTER_PORT.\n"
        "\n"
        "On this host alone rank 0 reads standard input. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are "
        "passed on to the ranks; the second SIGINT or SIGTERM kills them.\n"
        "\n"
        "On several hosts this folder must be there on all of them, and ranks have no standard input. Variables that "
        "begin with TUTTI_ or NCCL_ go along, others by -x. TUTTI_SOCKET_IFNAME says by which network ranks meet. A "
        "host whose connection is lost ends its ranks.\n"
        "\n"
        "Exit status: 0 all ranks ended well. Else that of the first rank that failed (128 + signal if one killed "
        "it). 1: ranks could not be started or watched. 2: wrong options. 124: the time was over. 126: PROGRAM may not "
        "be executed. 127: there is no PROGRAM. 255: ssh could not reach a host.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .stops = true,
};

/* Refuses a path that means different things with and without a shell of the host. */
static int check_program(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:@%,=-";
    if (*path && !path[strspn(path, plain)])
        return EXIT_OK;
    return usage_error("run", "\"%s\" has characters that a shell takes for others; give --tutti PATH", path);
}

static int run_cluster(struct run_request *request)
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

static int run(struct run_request *request, int argc, char **argv)
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
    struct run_request request = {.job = {.command = "run", .tag = true}};
    int code = options_parse(&options_of_run, argc, argv, &request);
    if (code == OPTION_TAKEN) {
        request.job.bind = request.bind;
        request.cluster.program = request.tutti;
        code = run(&request, argc, argv);
    }
    for (int i = 0; i < MOST_SETS; i++)
        free(request.made[i]);
    hosts_close(&request.hosts);
    return code;
}
