/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-paths, which `tutti paths` runs: plans source ports, prints what switches need for them, checks counters. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/error.h"
#include "base/standard.h"
#include "paths/paths.h"
#include "wiring/config.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LANES 128

struct paths_wishes {
    const char *vendor, *node;
    int lanes, dscp, within;
};

#define W struct paths_wishes
static const struct option_row rows[] = {
    {0, "lanes", "N", "with plan and verify: of each NIC to each peer (default 4)", TO_INT(W, lanes, 1, MOST_LANES)},
    {0, "vendor", "NAME", "with acl: of the switches", .choices = "sonic cisco ruijie arista linux",
     TO_TEXT(W, vendor)},
    {0, "node", "NODE", "with acl: one leaf or spine alone, such as l0", TO_TEXT(W, node)},
    {0, "dscp", "N", "with acl: the DSCP that lanes carry (default: any)", TO_INT(W, dscp, 0, 63)},
    {0, "within", "PERCENT", "with verify: how far shares may be from the planned ones (default 2)",
     TO_INT(W, within, 0, 100)},
};
#undef W

static const struct options options_of_paths = {
    .command = "paths",
    .usage = "plan FILE [OPTION...]\nacl FILE --vendor NAME [OPTION...]\nverify FILE [OPTION...] <COUNTERS",
    .before =
        "Source ports of RDMA lanes that load all uplinks of leaves alike. FILE describes a Clos, as files of "
        "tutti-lab do. plan prints the ports and the uplinks that they lead to, acl what to enter on switches. "
        "verify compares with the plan what uplinks have sent: COUNTERS is what tutti-lab counters --json prints.",
    .after = "Exit status: 0 done, 1 too few lanes, shares that differ, or it failed, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

/* Reads standard input to its end, and ends it by a zero. NULL: no memory, or it cannot be read. */
static char *read_all(void)
{
    struct text in = {0};
    char buffer[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, buffer, sizeof buffer)) > 0)
        text_append(&in, buffer, (size_t)n);
    text_append(&in, "", 0);
    return n == 0 && text_ok(&in) == TUTTI_SUCCESS ? in.data : NULL;
}

static int verify(const struct paths_request *request, double within, struct text *out)
{
    char *json = read_all();
    bool agree = false;
    tutti_result_t result = json ? paths_verify(request, json, within, &agree, out)
                                 : error_note(TUTTI_SYSTEM_ERROR, "reading the counters from standard input failed");
    free(json);
    if (result != TUTTI_SUCCESS)
        return failure("paths", "%s", error_last());
    return agree ? EXIT_OK : EXIT_FAILED;
}

static int run(const char *what, const struct paths_wishes *w, const struct paths_request *request, struct text *out)
{
    if (strcmp(what, "plan") == 0)
        return paths_plan(request, out) ? EXIT_OK : EXIT_FAILED;
    if (strcmp(what, "verify") == 0)
        return verify(request, w->within / 100.0, out);
    if (paths_acl(request, w->vendor, w->node, out) == TUTTI_SUCCESS)
        return EXIT_OK;
    return usage_error("paths", "%s", error_last());
}

/* Returns -1: all that `what` needs is there. */
static int check(int argc, char **argv, const struct paths_wishes *w)
{
    const char *what = optind < argc ? argv[optind] : "";
    if (options_index("plan acl verify", what) < 0)
        return usage_error("paths", "plan, acl or verify?");
    if (optind != argc - 2)
        return usage_error("paths", optind == argc - 1 ? "which FILE?" : "one FILE, please");
    if (strcmp(what, "acl") == 0 && !w->vendor)
        return usage_error("paths", "whose access lists? --vendor says it");
    return -1;
}

static int paths_of(const char *what, const char *path, const struct paths_wishes *w)
{
    struct lab_topology topology;
    struct text out = {0};
    if (config_load(path, &topology) != TUTTI_SUCCESS)
        return failure("paths", "%s", error_last());
    const struct paths_request request = {.topology = &topology, .lanes = (unsigned)w->lanes, .dscp = w->dscp};
    int code = topology_uplinks(&topology.spec) == 0 ? failure("paths", "%s has no spines: there is one way only", path)
                                                     : run(what, w, &request, &out);
    if (text_ok(&out) != TUTTI_SUCCESS ||
        (out.data && text_write(&out, STDOUT_FILENO, "standard output") != TUTTI_SUCCESS))
        code = failure("paths", "%s", error_last());
    text_free(&out);
    topology_free(&topology);
    return code;
}

int main(int argc, char **argv)
{
    struct paths_wishes w = {.lanes = 4, .dscp = -1, .within = 2};
    standard_hold();
    int code = options_parse(&options_of_paths, argc, argv, &w);
    if (code < 0)
        code = check(argc, argv, &w);
    if (code < 0)
        code = paths_of(argv[optind], argv[optind + 1], &w);
    text_flush();
    const char *lost = text_lost();
    return lost && code == EXIT_OK ? failure("paths", "cannot write the output: %s", lost) : code;
}
