/* SPDX-License-Identifier: Apache-2.0 */
/* tutti-paths, which `tutti paths` runs: plans source ports, prints what switches need for them, checks counters. */
#include "paths/paths.h"

#include "base/error.h"
#include "base/parse.h"
#include "wiring/config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LANES 128

static int usage(FILE *to, const char *complaint)
{
    if (complaint)
        fprintf(to, "tutti paths: %s\n", complaint);
    fputs("usage: tutti paths plan FILE [--lanes N]\n"
          "       tutti paths acl FILE --vendor sonic|cisco|ruijie|arista|linux [--dscp N] [--node NODE]\n"
          "       tutti paths verify FILE [--lanes N] [--within PERCENT] <COUNTERS\n\n"
          "FILE describes a Clos as tutti-lab's files do. --lanes: of each NIC to each peer (4). --dscp: that lanes "
          "carry (any).\n"
          "--node: one leaf or spine alone.\n"
          "COUNTERS is what `tutti-lab counters --json` prints. --within: of the planned share (2).\n"
          "Exit status: 0, 1 (too few lanes; shares differ; failed), 2 wrong usage.\n",
          to);
    return to == stdout ? 0 : 2;
}

struct main_options {
    const char *vendor, *node;
    unsigned lanes;
    int dscp;
    double within;
    bool help;
};

static bool number(const char *text, long least, long most, long *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == 0 || *end || value < least || value > most) {
        fprintf(stderr, "tutti paths: %s: a number from %ld to %ld is wanted\n", text, least, most);
        return false;
    }
    *out = value;
    return true;
}

static bool parse(int argc, char **argv, struct main_options *options)
{
    static const struct option names[] = {{"lanes", required_argument, NULL, 'l'},
                                          {"dscp", required_argument, NULL, 'd'},
                                          {"vendor", required_argument, NULL, 'v'},
                                          {"within", required_argument, NULL, 'w'},
                                          {"node", required_argument, NULL, 'n'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int c;
    long value;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'h')
            options->help = true;
        else if (c == 'v')
            options->vendor = optarg;
        else if (c == 'n')
            options->node = optarg;
        else if (c == 'l' && number(optarg, 1, MOST_LANES, &value))
            options->lanes = (unsigned)value;
        else if (c == 'd' && number(optarg, 0, 63, &value))
            options->dscp = (int)value;
        else if (c == 'w' && number(optarg, 0, 100, &value))
            options->within = (double)value / 100;
        else
            return false;
    }
    return true;
}

/* All of standard input, ended by a zero. NULL: no memory, or it cannot be read. */
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
        fprintf(stderr, "tutti paths: %s\n", error_last());
    return result == TUTTI_SUCCESS && agree ? 0 : 1;
}

static int run(const char *what, const struct main_options *options, const struct paths_request *request,
               struct text *out)
{
    if (strcmp(what, "plan") == 0)
        return paths_plan(request, out) ? 0 : 1;
    if (strcmp(what, "verify") == 0)
        return verify(request, options->within, out);
    if (!options->vendor)
        return usage(stderr, "whose access lists? --vendor says it");
    if (paths_acl(request, options->vendor, options->node, out) == TUTTI_SUCCESS)
        return 0;
    fprintf(stderr, "tutti paths: %s\n", error_last());
    return 2;
}

int main(int argc, char **argv)
{
    struct main_options options = {.lanes = 4, .dscp = -1, .within = 0.02};
    struct lab_topology topology;
    struct text out = {0};
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "--help") == 0 || strcmp(what, "help") == 0)
        return usage(stdout, NULL);
    if (strcmp(what, "plan") != 0 && strcmp(what, "acl") != 0 && strcmp(what, "verify") != 0)
        return usage(stderr, "plan, acl or verify?");
    argv[1] = "tutti paths"; /* whom complaints about options name */
    if (!parse(argc - 1, argv + 1, &options))
        return usage(stderr, NULL);
    if (options.help)
        return usage(stdout, NULL);
    if (optind != argc - 2)
        return usage(stderr, optind == argc - 1 ? "which FILE?" : "one FILE, please");
    const char *path = argv[argc - 1];
    if (config_load(path, &topology) != TUTTI_SUCCESS) {
        fprintf(stderr, "tutti paths: %s\n", error_last());
        return 1;
    }
    struct paths_request request = {.topology = &topology, .lanes = options.lanes, .dscp = options.dscp};
    int code = 1;
    if (topology_uplinks(&topology.spec) == 0)
        fprintf(stderr, "tutti paths: %s has no spines: there is one way only\n", path);
    else
        code = run(what, &options, &request, &out);
    if (text_ok(&out) != TUTTI_SUCCESS ||
        (out.data && text_write(&out, STDOUT_FILENO, "standard output") != TUTTI_SUCCESS)) {
        fprintf(stderr, "tutti paths: %s\n", error_last());
        code = 1;
    }
    text_free(&out);
    topology_free(&topology);
    return code;
}
