/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-master, which `tutti master` runs: listens to the agents of a job and names who is to blame. */
#include "cli.h"
#include "door.h"

#include "master/master.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/standard.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS  "127.0.0.1:9798"
#define STUCK_NS (5 * NS_PER_S)

static const char help[] = "Usage: tutti master --token FILE [OPTION...]\n"
                           "Listens to the agents of a job (tutti agent), one on each host, looks at all\n"
                           "processes once a second, and names who is to blame when the job hangs or is\n"
                           "slow. One for each job. Runs until it is ended. With the token of the job, it\n"
                           "serves /page for browsers (any name, and the token as password), / as text,\n"
                           "/network (where the ranks' time went), /verdicts and /history as JSON, and\n"
                           "/metrics for Prometheus.\n"
                           "\n"
                           "  -t, --token FILE        the secret of the job: the first line, 16 to 256\n"
                           "                          characters\n"
                           "  -l, --listen ADDRESS    where (default " ADDRESS "; port 0: any free\n"
                           "                          one, which is printed)\n"
                           "      --certificate FILE  of this host (PEM), for HTTPS; needed where others may\n"
                           "                          listen, unless --plain\n"
                           "      --key FILE          its private key (PEM)\n"
                           "      --client-ca FILE    who comes must show a certificate that one of these\n"
                           "                          (PEM) has made, besides the token\n"
                           "      --plain             serve HTTP, too, where others may listen\n"
                           "      --stuck TIME        a rank that is in the same step for so long stands\n"
                           "                          still (default 5s)\n"
                           "      --history FILE      keep all verdicts in this file of SQLite, or, given\n"
                           "                          postgresql://USER@HOST/DATABASE, there\n"
                           "      --job NAME          how this job is called there, where several share a\n"
                           "                          database (default \"job\")\n"
                           "      --hook COMMAND      for a verdict, as sh -c does: TUTTI_VERDICT,\n"
                           "                          TUTTI_VERDICT_KIND, _CONFIDENCE, _HOST, _PID and _RANK\n"
                           "                          are set, and the verdict is on standard input as JSON\n"
                           "      --webhook URL       for a verdict: POST its JSON there\n"
                           "      --act               run hooks; without, only say what would be run\n"
                           "      --sure WORD         certain, likely (default) or possible: enough for a\n"
                           "                          hook\n"
                           "  -h, --help              this text\n";

enum {
    OPTION_CERTIFICATE = 256,
    OPTION_KEY,
    OPTION_CLIENT_CA,
    OPTION_PLAIN,
    OPTION_STUCK,
    OPTION_HISTORY,
    OPTION_JOB,
    OPTION_HOOK,
    OPTION_WEBHOOK,
    OPTION_ACT,
    OPTION_SURE
};

static const struct option options[] = {
    {"token", required_argument, NULL, 't'},
    {"listen", required_argument, NULL, 'l'},
    {"certificate", required_argument, NULL, OPTION_CERTIFICATE},
    {"key", required_argument, NULL, OPTION_KEY},
    {"client-ca", required_argument, NULL, OPTION_CLIENT_CA},
    {"plain", no_argument, NULL, OPTION_PLAIN},
    {"stuck", required_argument, NULL, OPTION_STUCK},
    {"history", required_argument, NULL, OPTION_HISTORY},
    {"job", required_argument, NULL, OPTION_JOB},
    {"hook", required_argument, NULL, OPTION_HOOK},
    {"webhook", required_argument, NULL, OPTION_WEBHOOK},
    {"act", no_argument, NULL, OPTION_ACT},
    {"sure", required_argument, NULL, OPTION_SURE},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct wishes {
    const char *token;
    struct door_wishes door;
};

static int take_stuck(const char *text, struct master_options *master)
{
    int64_t ms;
    if (!parse_ms(text, &ms) || ms < 0 || ms > 3600 * 1000)
        return usage_error("master", "--stuck wants a time up to an hour, such as 500ms or 30s, got \"%s\"", text);
    master->stuck = (uint64_t)ms * NS_PER_MS;
    return -1;
}

static int take_sure(const char *text, struct master_options *master)
{
    for (int sure = POSSIBLE; sure <= CERTAIN; sure++)
        if (strcmp(text, confidence_name((enum confidence)sure)) == 0) {
            master->sure = (enum confidence)sure;
            return -1;
        }
    return usage_error("master", "--sure wants certain, likely or possible, got \"%s\"", text);
}

/* An exit status, or -1: go on. */
static int take_option(int option, struct wishes *wishes, struct master_options *master)
{
    switch (option) {
    case 't':
        wishes->token = optarg;
        return -1;
    case 'l':
        wishes->door.address = optarg;
        return -1;
    case OPTION_CERTIFICATE:
        wishes->door.certificate = optarg;
        return -1;
    case OPTION_KEY:
        wishes->door.key = optarg;
        return -1;
    case OPTION_CLIENT_CA:
        wishes->door.client_ca = optarg;
        return -1;
    case OPTION_PLAIN:
        wishes->door.plain = true;
        return -1;
    case OPTION_STUCK:
        return take_stuck(optarg, master);
    case OPTION_HISTORY:
        master->history = optarg;
        return -1;
    case OPTION_JOB:
        master->job = optarg;
        return -1;
    case OPTION_HOOK:
        master->hook.command = optarg;
        return -1;
    case OPTION_WEBHOOK:
        master->hook.url = optarg;
        return -1;
    case OPTION_ACT:
        master->hook.act = true;
        return -1;
    case OPTION_SURE:
        return take_sure(optarg, master);
    case 'h':
        fputs(help, stdout);
        return EXIT_OK;
    default:
        return usage_error("master", "that option is not known, or lacks its value");
    }
}

static int parse(int argc, char **argv, struct wishes *wishes, struct master_options *master)
{
    int option, code = -1;
    static char name[] = "tutti master";
    argv[0] = name;
    while (code < 0 && (option = getopt_long(argc, argv, "t:l:h", options, NULL)) != -1)
        code = take_option(option, wishes, master);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("master", "takes no arguments, got %s", argv[optind]);
    if (!wishes->token)
        return usage_error("master", "--token is needed");
    if (!wishes->door.certificate != !wishes->door.key)
        return usage_error("master", "--certificate and --key go together");
    if (wishes->door.client_ca && !wishes->door.certificate)
        return usage_error("master", "--client-ca wants --certificate and --key, too");
    return -1;
}

int main(int argc, char **argv)
{
    struct wishes wishes = {.door = {.address = ADDRESS}};
    struct master_options master = {.stuck = STUCK_NS, .sure = LIKELY, .job = "job"};
    standard_hold();
    int code = parse(argc, argv, &wishes, &master);
    if (code >= 0)
        return code;
    if (token_load(wishes.token, &master.token) == TUTTI_SUCCESS && door_load(&wishes.door, &master.door))
        code = master_run(&master) ? EXIT_OK : EXIT_FAILED;
    else
        code = failure("master", "%s", error_last());
    door_free(&master.door);
    return code;
}
