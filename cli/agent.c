/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-agent, which `tutti agent` runs: reports the black boxes of this host to the master of a job. */
#include "cli/cli.h"
#include "cli/door.h"

#include "cli/options.h"

#include "agent/agent.h"

#include "base/error.h"
#include "base/param.h"
#include "base/standard.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct agent_wishes {
    const char *token;
    struct door_wishes door;
    struct agent_options agent;
};

#define W struct agent_wishes
static const struct option_row rows[] = {
    {'m', "master", "URL", "https://HOST:PORT of the master, or of an agent that passes on what it is told",
     TO_TEXT(W, agent.sender.url)},
    {'t', "token", "FILE", "the secret of the job: the first line, 16 to 256 characters", TO_TEXT(W, token)},
    {0, "ca", "FILE", "trust this certificate (PEM) instead of those that the system trusts",
     TO_TEXT(W, agent.sender.ca)},
    {'l', "listen", "ADDRESS",
     "other agents may report here, and this one passes on what they tell; port 0: any free "
     "one",
     TO_TEXT(W, door.address)},
    {0, "certificate", "FILE",
     "certificate of this host (PEM): shown to a master that asks for one, and to those that report "
     "here; with --listen needed where others may listen, unless --plain",
     TO_TEXT(W, door.certificate)},
    {0, "key", "FILE", "private key of that certificate (PEM)", TO_TEXT(W, door.key)},
    {0, "client-ca", "FILE", "those that report here must show a certificate that one of these (PEM) has made",
     TO_TEXT(W, door.client_ca)},
    {0, "plain", NULL, "HTTP also where others may listen; on the same host it is taken anyhow",
     TO_FLAG(W, door.plain)},
    {0, "host", "NAME", "how this host is called (default: as it calls itself); each agent of a job has its own",
     TO_TEXT(W, agent.host)},
    {0, "dir", "DIR", "read the black boxes in DIR instead of those in TUTTI_TRACE_DIR", TO_TEXT(W, agent.dir)},
    {0, "history", "FILE",
     "keep there, by day, what this host went through: lanes that went down, pauses, slow minutes; tutti diagnose "
     "--history FILE shows it",
     TO_TEXT(W, agent.history)},
    {'1', "once", NULL, "one report; exit status 1 if the master does not take it", TO_FLAG(W, agent.once)},
};
#undef W

static const struct options options_of_agent = {
    .command = "agent",
    .usage = "--master URL --token FILE [OPTION...]",
    .before = "Tells the master of a job (tutti master) once a second what has changed in the black boxes of this "
              "host. It tells at once when a process dies or loses a peer. One agent runs on each host. The processes "
              "are not asked "
              "and not disturbed. Where no master answers, the agent waits, longer each time, up to 30 seconds. It "
              "runs until it is ended.",
    .after = "Exit status: 0 reported, or ended by a signal, 1 it cannot go on, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int check(const struct agent_wishes *wishes)
{
    const struct agent_options *agent = &wishes->agent;
    if (!agent->sender.url || !wishes->token)
        return usage_error("agent", "--master and --token are needed");
    int code = door_check("agent", &wishes->door);
    if (code >= 0)
        return code;
    if (agent->once && wishes->door.address)
        return usage_error("agent", "--once and --listen do not go together");
    if (!report_host_fits(agent->host))
        return usage_error("agent", "--host %s: want letters, digits, and .-_: alone, 63 at most", agent->host);
    return -1;
}

static int parse(int argc, char **argv, struct agent_wishes *wishes)
{
    struct sender_options *sender = &wishes->agent.sender;
    int code = options_parse(&options_of_agent, argc, argv, wishes);
    if (code < 0 && optind < argc)
        return usage_error("agent", "takes no arguments, got %s", argv[optind]);
    sender->certificate = wishes->door.certificate;
    sender->key = wishes->door.key;
    sender->plain = wishes->door.plain;
    return code < 0 ? check(wishes) : code;
}

int main(int argc, char **argv)
{
    char host[WIRE_BOX_NAME] = "";
    struct serve_door door = {0};
    struct token token;
    standard_hold();
    gethostname(host, sizeof host - 1);
    struct agent_wishes wishes = {
        .agent = {.sender = {.token = &token}, .dir = param_string(PARAM_TRACE_DIR), .host = host}};
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    wishes.agent.door = wishes.door.address ? &door : NULL;
    if (token_load(wishes.token, &token) == TUTTI_SUCCESS && (!wishes.agent.door || door_load(&wishes.door, &door)))
        code = agent_run(&wishes.agent) ? EXIT_OK : EXIT_FAILED;
    else
        code = failure("agent", "%s", error_last());
    door_free(&door);
    return code;
}
