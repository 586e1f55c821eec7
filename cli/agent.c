/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-agent, which `tutti agent` runs: tells the master of a job what the black boxes of this host hold. */
#include "cli.h"

#include "agent/agent.h"
#include "base/error.h"
#include "base/param.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: tutti agent --master URL --token FILE [OPTION...]\n"
    "Tells the master of a job (tutti master) once a second what has changed in the black boxes of this host, and at once when\n"
    "a process dies or loses a peer. One for each host. The processes are not asked and not disturbed. Where no master\n"
    "answers, the agent waits, longer each time, up to 30 seconds. It runs until it is ended.\n"
    "\n"
    "  -m, --master URL   https://HOST:PORT\n"
    "  -t, --token FILE   the secret of the job: the first line, 16 to 256 characters\n"
    "      --ca FILE      trust this certificate (PEM) instead of those that the system trusts\n"
    "      --plain        take http://, too, where others may listen; on the same host it is taken anyhow\n"
    "      --host NAME    how this host is called (default: as it calls itself); each agent of a job has its own\n"
    "      --dir DIR      look here instead of in TUTTI_TRACE_DIR\n"
    "  -1, --once         one report; exit status 1 if the master does not take it\n"
    "  -h, --help         this text\n";

enum { OPTION_CA = 256, OPTION_PLAIN, OPTION_HOST, OPTION_DIR };

static const struct option options[] = {
    {"master", required_argument, NULL, 'm'},        {"token", required_argument, NULL, 't'},
    {"ca", required_argument, NULL, OPTION_CA},      {"plain", no_argument, NULL, OPTION_PLAIN},
    {"host", required_argument, NULL, OPTION_HOST},  {"dir", required_argument, NULL, OPTION_DIR},
    {"once", no_argument, NULL, '1'},                {"help", no_argument, NULL, 'h'},
    {0},
};

/* An exit status, or -1: go on. */
static int take_option(int option, struct agent_options *agent, const char **token)
{
    switch (option) {
    case 'm':
        agent->sender.url = optarg;
        return -1;
    case 't':
        *token = optarg;
        return -1;
    case OPTION_CA:
        agent->sender.ca = optarg;
        return -1;
    case OPTION_PLAIN:
        agent->sender.plain = true;
        return -1;
    case OPTION_HOST:
        agent->host = optarg;
        return -1;
    case OPTION_DIR:
        agent->dir = optarg;
        return -1;
    case '1':
        agent->once = true;
        return -1;
    case 'h':
        fputs(help, stdout);
        return EXIT_OK;
    default:
        return usage_error("agent", "that option is not known, or lacks its value");
    }
}

static int parse(int argc, char **argv, struct agent_options *agent, const char **token)
{
    int option, code = -1;
    static char name[] = "tutti agent";
    argv[0] = name;
    while (code < 0 && (option = getopt_long(argc, argv, "m:t:1h", options, NULL)) != -1)
        code = take_option(option, agent, token);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("agent", "takes no arguments, got %s", argv[optind]);
    if (!agent->sender.url || !*token)
        return usage_error("agent", "--master and --token are needed");
    if (!report_host_fits(agent->host))
        return usage_error("agent", "--host %s: want letters, digits, and .-_: alone, 63 at most", agent->host);
    return -1;
}

int main(int argc, char **argv)
{
    char host[WIRE_BOX_NAME] = "";
    const char *path = NULL;
    struct token token;
    gethostname(host, sizeof host - 1);
    struct agent_options agent = {.sender = {.token = &token}, .dir = param_string(PARAM_TRACE_DIR), .host = host};
    int code = parse(argc, argv, &agent, &path);
    if (code >= 0)
        return code;
    if (token_load(path, &token) != TUTTI_SUCCESS)
        return failure("agent", "%s", error_last());
    return agent_run(&agent) ? EXIT_OK : EXIT_FAILED;
}
