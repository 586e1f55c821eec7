/* SPDX-License-Identifier: Apache-2.0 */
/* tutti topo: this host as a tree of text, as JSON, or as a picture. */
#include "cli/topo.h"
#include "cli/cli.h"
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <string.h>

struct topo_wishes {
    bool json;
    const char *picture;
};

static const struct option_row rows[] = {
    {0, "json", NULL, "as JSON: nodes in order, each with the number of its parent", TO_FLAG(struct topo_wishes, json)},
    {0, "svg", "FILE", "as a picture (- for standard output)", TO_TEXT(struct topo_wishes, picture)},
};

static const struct options options_of_topo = {
    .command = "topo",
    .usage = "[--json | --svg FILE]",
    .before = "Shows packages, NUMA nodes, caches, cores, network interfaces, RDMA ports and GPUs of this host: as a "
              "tree, as JSON or as a picture.",
    .after = "Exit status: 0 shown, 1 the machine cannot be read or the output not be written, 2 wrong options.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
};

static void print_tree(const struct topology *topology, int node, int depth)
{
    char label[512];
    topo_label(topology, node, label, sizeof label);
    printf("%*s%s\n", 2 * depth, "", label);
    for (int child = -1; (child = topo_next_child(topology, node, child)) >= 0;)
        print_tree(topology, child, depth + 1);
}

static void print_string(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

static void print_json_node(const struct topology_node *node)
{
    printf("{\"kind\": \"%s\", \"parent\": %d, \"index\": %d, \"bytes\": %llu, \"mbits\": %lld, \"up\": %s, \"name\": ",
           topology_kind_name(node->kind), node->parent, node->index, (unsigned long long)node->bytes,
           (long long)node->mbits, node->up ? "true" : "false");
    print_string(node->name);
    printf(", \"detail\": ");
    print_string(node->detail);
    printf(", \"cpus\": [");
    for (int cpu = 0, some = 0; cpu < TOPOLOGY_CPUS; cpu++)
        if (node->cpus.bits[cpu / 64] >> (cpu % 64) & 1)
            printf("%s%d", some++ ? ", " : "", cpu);
    printf("]}");
}

static void print_json(const struct topology *topology)
{
    printf("{\"source\": \"%s\", \"nodes\": [", topology->source);
    for (int i = 0; i < topology->count; i++) {
        printf(i ? ",\n  " : "\n  ");
        print_json_node(&topology->nodes[i]);
    }
    printf("\n]}\n");
}

static int write_picture(const struct topology *topology, const char *path)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (!out)
        return failure("topo", "cannot write %s: %s", path, strerror(errno));
    topo_write_svg(topology, out);
    if ((out == stdout ? fflush(out) : fclose(out)) != 0)
        return failure("topo", "cannot write %s: %s", path, strerror(errno));
    return EXIT_OK;
}

static int show(bool json, const char *picture)
{
    struct topology *topology;
    int code = EXIT_OK;
    if (topology_load(&topology) != TUTTI_SUCCESS)
        return EXIT_FAILED;
    if (picture) {
        code = write_picture(topology, picture);
    } else if (json) {
        print_json(topology);
    } else {
        print_tree(topology, 0, 0);
        printf("Processors as %s tells.\n", topology->source);
    }
    topology_free(topology);
    return code;
}

int cmd_topo(int argc, char **argv)
{
    struct topo_wishes wishes = {0};
    int code = options_parse(&options_of_topo, argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("topo", "takes no arguments, got %s", argv[optind]);
    return show(wishes.json, wishes.picture);
}
