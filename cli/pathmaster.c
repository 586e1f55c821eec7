/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-pathmaster, which `tutti pathmaster` runs: shares out the paths of a fabric among the lanes of all jobs. */
#include "cli/cli.h"
#include "cli/door.h"
#include "cli/options.h"

#include "pathmaster/pathmaster.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/standard.h"

#include <getopt.h>

#define ADDRESS  "127.0.0.1:9799"
#define STATE    "tutti-paths.sqlite"
#define LEASE_NS (60 * NS_PER_S)
#define LEASE_MS 3000 /* the shortest */

struct pathmaster_wishes {
    struct door_wishes door;
    struct pathmaster_options master;
};

#define W struct pathmaster_wishes
static const struct option_row rows[] = {
    {'t', "tenants", "FILE",
     "those who may ask: lines NAME TOKEN, and perhaps the lanes that NAME may have at a time. The word operator: "
     "may tell how links are; prober: what its hosts' probes find counts",
     TO_TEXT(W, master.tenants)},
    {'s', "state", "FILE",
     "keep the paths given in this file of SQLite (default " STATE "), or in etcd, shared with other masters: "
     "etcd:http://HOST:PORT,http://HOST:PORT",
     TO_TEXT(W, master.state)},
    {'l', "listen", "ADDRESS", "where to listen (default " ADDRESS "; port 0: any free one, which is printed)",
     TO_TEXT(W, door.address)},
    {0, "certificate", "FILE",
     "certificate of this host (PEM), for HTTPS; needed where others may listen, unless --plain",
     TO_TEXT(W, door.certificate)},
    {0, "key", "FILE", "private key of that certificate (PEM)", TO_TEXT(W, door.key)},
    {0, "client-ca", "FILE", "clients must show a certificate that one of these (PEM) has made, besides the token",
     TO_TEXT(W, door.client_ca)},
    {0, "plain", NULL, "serve HTTP, too, where others may listen", TO_FLAG(W, door.plain)},
    {0, "lease", "TIME", "an agent that is silent for TIME has no paths any more (default 60s, at least 3s)",
     TO_TIME(W, master.lease, LEASE_MS)},
};
#undef W

static const struct options options_of_pathmaster = {
    .command = "pathmaster",
    .usage = "FABRIC --tenants FILE [OPTION...]",
    .before = "Gives the RDMA lanes of all jobs source ports, so that the uplinks of a fabric are loaded alike. FABRIC "
              "is the file of `tutti paths`, by whose access lists source ports lead to uplinks. Agents of hosts "
              "(tutti pathagent) ask for the processes there. What was given is in a file, from which a master that "
              "was killed goes on. Agents that probe find faulty links, which are left out. Readers need a tenant's "
              "token: / and /probes are text, /probes.json is JSON, /metrics is for Prometheus.",
    .after = "Exit status: 0 ended by a signal, 1 it cannot listen or go on, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static int parse(int argc, char **argv, struct pathmaster_wishes *wishes)
{
    int code = options_parse(&options_of_pathmaster, argc, argv, wishes);
    if (code >= 0)
        return code;
    if (optind != argc - 1)
        return usage_error("pathmaster", optind < argc ? "one FABRIC, please" : "which FABRIC?");
    if (!wishes->master.tenants)
        return usage_error("pathmaster", "--tenants is needed");
    wishes->master.fabric = argv[optind];
    return door_check("pathmaster", &wishes->door);
}

int main(int argc, char **argv)
{
    struct pathmaster_wishes wishes = {.door = {.address = ADDRESS}, .master = {.state = STATE, .lease = LEASE_NS}};
    standard_hold();
    int code = parse(argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (door_load(&wishes.door, &wishes.master.door))
        code = pathmaster_run(&wishes.master) ? EXIT_OK : EXIT_FAILED;
    else
        code = failure("pathmaster", "%s", error_last());
    door_free(&wishes.master.door);
    return code;
}
