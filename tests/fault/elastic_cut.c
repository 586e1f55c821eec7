/* SPDX-License-Identifier: Apache-2.0 */
/* A network between members of one host that can be cut: an address for each, and rules that lose packets silently. */
#include "elastic_job.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define ADDRESS "10.78.0."

static bool run(const char *command)
{
    return system(command) == 0;
}

/* The table of local addresses is asked after the rules that lose packets. */
bool network_make(void)
{
    char command[300];
    bool made = unshare(CLONE_NEWNET) == 0 && run("ip link set lo up && ip rule add pref 100 lookup local && "
                                                  "ip rule delete pref 0");
    for (int i = 0; made && i < MEMBERS; i++) {
        snprintf(command, sizeof command,
                 "ip link add m%d type veth peer name p%d && ip address add " ADDRESS "%d/32 dev m%d && "
                 "ip link set m%d up && ip link set p%d up",
                 i, i, i + 1, i, i, i);
        made = run(command);
    }
    return made;
}

void network_take(int member)
{
    char name[16];
    snprintf(name, sizeof name, "=m%d", member);
    setenv("TUTTI_SOCKET_IFNAME", name, 1);
    setenv("TUTTI_PROBE_AFTER", "300ms", 1);
    setenv("TUTTI_PROBE_TIMEOUT", "300ms", 1);
}

/* A connection that asks for no address of its own begins at the one that it goes to. */
static void lose(int from, int to)
{
    char command[200];
    snprintf(command, sizeof command,
             "ip rule add pref 1 from " ADDRESS "%d to " ADDRESS "%d blackhole; "
             "ip rule add pref 1 from " ADDRESS "%d to " ADDRESS "%d blackhole",
             from + 1, to + 1, to + 1, to + 1);
    run(command);
}

void network_cut(int from, int to, bool both)
{
    lose(from, to);
    if (both)
        lose(to, from);
}

void network_heal(void)
{
    while (run("ip rule delete pref 1 2>/dev/null"))
        ;
}
