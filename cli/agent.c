/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-agent, which `tutti agent` runs: tells the master of a job what the black boxes of this host hold. */
#include "cli.h"
#include "door.h"

#include "agent/agent.h"
#include "base/error.h"
#include "base/param.h"
#include "base/standard.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] = "Usage: tutti agent --master URL --token FILE [OPTION...]\n"
                           "Tells the master of a job (tutti master) once a second what has changed in the\n"
                           "black boxes of this host, and at once when a process dies or loses a peer. One\n"
                           "for each host. The processes are not asked and not disturbed. Where no master\n"
                           "answers, the agent waits, longer each time, up to 30 seconds. It runs until it\n"
                           "is ended.\n"
                           "\n"
                           "  -m, --master URL        https://HOST:PORT of the master, or of an agent that\n"
                           "                          passes on what it is told\n"
                           "  -t, --token FILE        the secret of the job: the first line, 16 to 256\n"
                           "                          characters\n"
                           "      --ca FILE           trust this certificate (PEM) instead of those that the\n"
                           "                          system trusts\n"
                           "  -l, --listen ADDRESS    other agents may report here, and this one passes on\n"
                           "                          what they tell; port 0: any free one\n"
                           "      --certificate FILE  of this host (PEM): shown to a master that asks for\n"
                           "                          one, and to those that report here; with --listen\n"
                           "                          needed where others may listen, unless --plain\n"
                           "      --key FILE          its private key (PEM)\n"
                           "      --client-ca FILE    those that report here must show a certificate that\n"
                           "                          one of these (PEM) has made\n"
                           "      --plain             HTTP also where others may listen; on the same host it\n"
                           "                          is taken anyhow\n"
                           "      --host NAME         how this host is called (default: as it calls itself);\n"
                           "                          each agent of a job has its own\n"
                           "      --dir DIR           look here instead of in TUTTI_TRACE_DIR\n"
                           "  -1, --once              one report; exit status 1 if the master does not take\n"
                           "                          it\n"
                           "  -h, --help              this text\n";

enum { OPTION_CA = 256, OPTION_CERTIFICATE, OPTION_KEY, OPTION_CLIENT_CA, OPTION_PLAIN, OPTION_HOST, OPTION_DIR };

static const struct option options[] = {
    {"master", required_argument, NULL, 'm'},
    {"token", required_argument, NULL, 't'},
    {"ca", required_argument, NULL, OPTION_CA},
    {"listen", required_argument, NULL, 'l'},
    {"certificate", required_argument, NULL, OPTION_CERTIFICATE},
    {"key", required_argument, NULL, OPTION_KEY},
    {"client-ca", required_argument, NULL, OPTION_CLIENT_CA},
    {"plain", no_argument, NULL, OPTION_PLAIN},
    {"host", required_argument, NULL, OPTION_HOST},
    {"dir", required_argument, NULL, OPTION_DIR},
    {"once", no_argument, NULL, '1'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

struct wishes {
    const char *token;
    struct door_wishes door;
};

/* An exit status, or -1: go on. */
static int take_option(int option, struct wishes *wishes, struct agent_options *agent)
{
    switch (option) {
    case 'm':
        agent->sender.url = optarg;
        return -1;
    case 't':
        wishes->token = optarg;
        return -1;
    case 'l':
        wishes->door.address = optarg;
        return -1;
    case OPTION_CERTIFICATE:
        wishes->door.certificate = agent->sender.certificate = optarg;
        return -1;
    case OPTION_KEY:
        wishes->door.key = agent->sender.key = optarg;
        return -1;
    case OPTION_CA:
        agent->sender.ca = optarg;
        return -1;
    case OPTION_CLIENT_CA:
        wishes->door.client_ca = optarg;
        return -1;
    case OPTION_PLAIN:
        agent->sender.plain = wishes->door.plain = true;
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

static int parse(int argc, char **argv, struct wishes *wishes, struct agent_options *agent)
{
    int option, code = -1;
    static char name[] = "tutti agent";
    argv[0] = name;
    while (code < 0 && (option = getopt_long(argc, argv, "m:t:l:1h", options, NULL)) != -1)
        code = take_option(option, wishes, agent);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("agent", "takes no arguments, got %s", argv[optind]);
    if (!agent->sender.url || !wishes->token)
        return usage_error("agent", "--master and --token are needed");
    if (!wishes->door.certificate != !wishes->door.key)
        return usage_error("agent", "--certificate and --key go together");
    if (wishes->door.client_ca && !wishes->door.certificate)
        return usage_error("agent", "--client-ca wants --certificate and --key, too");
    if (agent->once && wishes->door.address)
        return usage_error("agent", "--once and --listen do not go together");
    if (!report_host_fits(agent->host))
        return usage_error("agent", "--host %s: want letters, digits, and .-_: alone, 63 at most", agent->host);
    return -1;
}

int main(int argc, char **argv)
{
    char host[WIRE_BOX_NAME] = "";
    struct wishes wishes = {0};
    struct serve_door door = {0};
    struct token token;
    standard_hold();
    gethostname(host, sizeof host - 1);
    struct agent_options agent = {.sender = {.token = &token}, .dir = param_string(PARAM_TRACE_DIR), .host = host};
    int code = parse(argc, argv, &wishes, &agent);
    if (code >= 0)
        return code;
    agent.door = wishes.door.address ? &door : NULL;
    if (token_load(wishes.token, &token) == TUTTI_SUCCESS && (!agent.door || door_load(&wishes.door, &door)))
        code = agent_run(&agent) ? EXIT_OK : EXIT_FAILED;
    else
        code = failure("agent", "%s", error_last());
    door_free(&door);
    return code;
}
