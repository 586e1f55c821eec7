/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-pathagent, which `tutti pathagent` runs: asks the path master for the processes of this host. */
#include "cli/cli.h"
#include "cli/options.h"

#include "pathagent/pathagent.h"

#include "base/error.h"
#include "base/standard.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOCKET "/run/tutti/paths"
#define SWEEP  600 /* packets a second */
#define PORT   4791

struct pathagent_wishes {
    const char *token;
    char link[PATHAGENT_LINK]; /* "": none */
    unsigned percent;
    bool look;
    int watch, sweep, port;
    struct pathagent_options agent;
};

static int take_marks(void *request, const char *text)
{
    struct pathagent_wishes *wishes = request;
    char *end;
    for (int side = 0; side < 2; side++, text = end + 1) {
        unsigned long mark = strtoul(text, &end, 0);
        if (*text < '0' || *text > '9' || end == text || *end != (side ? 0 : ',') || !mark || mark > UINT32_MAX)
            return OPTION_REFUSED;
        wishes->agent.prober.marks[side] = (uint32_t)mark;
    }
    return wishes->agent.prober.marks[0] != wishes->agent.prober.marks[1] ? OPTION_TAKEN : OPTION_REFUSED;
}

static int take_link(void *request, const char *text)
{
    struct pathagent_wishes *wishes = request;
    char *end;
    const char *equals = strchr(text, '=');
    long percent = equals ? strtol(equals + 1, &end, 10) : -1;
    if (percent < 0 || percent > 100 || end == equals + 1 || *end || equals - text >= PATHAGENT_LINK)
        return OPTION_REFUSED;
    snprintf(wishes->link, sizeof wishes->link, "%.*s", (int)(equals - text), text);
    wishes->percent = (unsigned)percent;
    return OPTION_TAKEN;
}

#define W struct pathagent_wishes
static const struct option_row rows[] = {
    {'m', "master", "URL", "https://HOST:PORT of the path master; of several that share etcd: URL,URL",
     TO_TEXT(W, agent.sender.url)},
    {'t', "token", "FILE", "the tenant's secret: the first line, 16 to 256 characters", TO_TEXT(W, token)},
    {'s', "socket", "PATH", "where processes ask; their TUTTI_PATH_AGENT (default " SOCKET ")",
     TO_TEXT(W, agent.socket)},
    {0, "ca", "FILE", "trust this certificate (PEM) instead of those that the system trusts",
     TO_TEXT(W, agent.sender.ca)},
    {0, "certificate", "FILE", "certificate of this host (PEM): shown to a master that asks for one",
     TO_TEXT(W, agent.sender.certificate)},
    {0, "key", "FILE", "private key of that certificate (PEM)", TO_TEXT(W, agent.sender.key)},
    {0, "link", "UPLINK=PERCENT",
     "say, as an operator, what an uplink has of its rate, such as rack1.u3=0 while it is down; and end",
     TO_CALL(take_link, "NAME=0 to NAME=100")},
    {0, "look", NULL, "say, as an operator, that probes are to look for faults now; and end", TO_FLAG(W, look)},
    {0, "probe", "N",
     "probe paths for the master, mostly by N packets a second of this host, and answer probes of others. Needs "
     "CAP_NET_RAW, and a token of a tenant that is a prober",
     TO_INT(W, watch, 1, 100000)},
    {0, "probe-sweep", "N", "packets a second while the master looks for faults (default 600)",
     TO_INT(W, sweep, 1, 100000)},
    {0, "probe-port", "PORT", "UDP port that probes go to (default 4791, as RDMA does)", TO_INT(W, port, 1, 65535)},
    {0, "probe-netns", "FILE", "the network namespace that has the NICs, such as /run/netns/rdma (default: this one)",
     TO_TEXT(W, agent.prober.space)},
    {0, "probe-marks", "LEFT,RIGHT",
     "probe bonded NICs, too: packets for the left and for the right port have these marks (fwmark), by which the "
     "operator's rules choose the port",
     TO_CALL(take_marks, "two numbers from 1 that differ, such as 1,2")},
    {0, "plain", NULL, "HTTP also where others may listen; on the same host it is taken anyhow",
     TO_FLAG(W, agent.sender.plain)},
};
#undef W

static const struct options options_of_pathagent = {
    .command = "pathagent",
    .usage = "--master URL --token FILE [OPTION...]",
    .before = "Asks the path master of a fabric (tutti pathmaster) for source ports of the RDMA lanes of this host's "
              "processes. They ask at a Unix socket (TUTTI_PATH_AGENT). Their lanes end with them. Where no master "
              "answers, processes are told so at once, and their lanes open by TUTTI_PATHS. One agent runs on each "
              "host, until it is ended.",
    .after = "Exit status: 0 ended by a signal, 1 it cannot begin, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int parse(int argc, char **argv, struct pathagent_wishes *wishes)
{
    int code = options_parse(&options_of_pathagent, argc, argv, wishes);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("pathagent", "takes no arguments, got %s", argv[optind]);
    if (!wishes->agent.sender.url || !wishes->token)
        return usage_error("pathagent", "--master and --token are needed");
    const struct prober_options *prober = &wishes->agent.prober;
    if (wishes->watch < 0 && (prober->space || prober->marks[0] || wishes->sweep != SWEEP || wishes->port != PORT))
        return usage_error("pathagent", "--probe-sweep, --probe-port, --probe-netns and --probe-marks need --probe");
    wishes->agent.probes = wishes->watch >= 0;
    wishes->agent.prober.watch = (uint32_t)wishes->watch;
    wishes->agent.prober.sweep = (uint32_t)wishes->sweep;
    wishes->agent.prober.port = (uint16_t)wishes->port;
    if (!wishes->agent.sender.certificate != !wishes->agent.sender.key)
        return usage_error("pathagent", "--certificate and --key go together");
    return -1;
}

int main(int argc, char **argv)
{
    struct token token = {0};
    struct pathagent_wishes wishes = {
        .watch = -1, .sweep = SWEEP, .port = PORT, .agent = {.sender = {.token = &token}, .socket = SOCKET}};
    standard_hold();
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    bool tells = *wishes.link || wishes.look;
    if (token_load(wishes.token, &token) == TUTTI_SUCCESS && !tells)
        return pathagent_run(&wishes.agent) ? EXIT_OK : EXIT_FAILED;
    if (tells && *token.text && pathagent_tell(&wishes.agent, *wishes.link ? wishes.link : NULL, wishes.percent))
        return EXIT_OK;
    return failure("pathagent", "%s", error_last());
}
