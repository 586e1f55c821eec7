/* SPDX-License-Identifier: Apache-2.0 */
/* tutti topo: this host as a tree of text, as JSON, or as a picture. */
#include "topo.h"
#include "cli.h"
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <string.h>

struct wishes {
    bool json;
    const char *picture;
};

static const struct option_row rows[] = {
    {0, "json", NULL, "as JSON: nodes in order, each with the number of its parent", TO_FLAG(struct wishes, json)},
    {0, "svg", "FILE", "as a picture (- for standard output)", TO_TEXT(struct wishes, picture)},
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

static bool is_device(const struct topology *topology, int node)
{
    return topology->nodes[node].kind >= TOPOLOGY_NET;
}

/* The only child with processors, if it has all of ours; else -1. */
static int only_child(const struct topology *topology, int node)
{
    int child = -1;
    for (int i = node + 1; i < topology->count; i++) {
        if (topology->nodes[i].parent != node || is_device(topology, i))
            continue;
        if (child >= 0)
            return -1;
        child = i;
    }
    if (child < 0 ||
        memcmp(&topology->nodes[child].cpus, &topology->nodes[node].cpus, sizeof topology->nodes[node].cpus) != 0)
        return -1;
    return child;
}

int topo_chain_end(const struct topology *topology, int node)
{
    for (int next; node > 0 && (next = only_child(topology, node)) >= 0;)
        node = next;
    return node;
}

static bool in_chain(const struct topology *topology, int first, int last, int node)
{
    while (last > first && last != node)
        last = topology->nodes[last].parent;
    return last == node;
}

int topo_next_child(const struct topology *topology, int node, int previous)
{
    int end = topo_chain_end(topology, node);
    for (int i = previous < 0 ? node + 1 : previous + 1; i < topology->count; i++) {
        int parent = topology->nodes[i].parent;
        if (is_device(topology, i) ? in_chain(topology, node, end, parent) : parent == end)
            return i;
    }
    return -1;
}

static void append(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append(char *out, size_t size, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, size - used, format, args);
    va_end(args);
}

static void append_bytes(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    append(out, size, " %.*f %s", value < 10 && unit > 2 ? 1 : 0, value, units[unit]);
}

static void append_device(const struct topology_node *node, char *out, size_t size)
{
    append(out, size, "%s %s:", topology_kind_name(node->kind), node->name);
    if (node->mbits)
        append(out, size, " %g Gb/s,", (double)node->mbits / 1000);
    if (node->kind != TOPOLOGY_GPU)
        append(out, size, " %s%s", node->up ? "up" : "down", *node->detail ? "," : "");
    append(out, size, *node->detail ? " %s" : "%s", node->detail);
}

static void append_node(const struct topology_node *node, char *out, size_t size)
{
    append(out, size, "%s", topology_kind_name(node->kind));
    if (node->index >= 0)
        append(out, size, " %d", node->index);
    if (*node->name)
        append(out, size, " %s", node->name);
    if (node->bytes)
        append_bytes(out, size, node->bytes);
    if (*node->detail)
        append(out, size, ", %s", node->detail);
}

void topo_label(const struct topology *topology, int node, char *out, size_t size)
{
    int end = topo_chain_end(topology, node);
    *out = 0;
    if (is_device(topology, node)) {
        append_device(&topology->nodes[node], out, size);
        return;
    }
    for (int i = node; i <= end; i++)
        if (in_chain(topology, node, end, i)) {
            append_node(&topology->nodes[i], out, size);
            append(out, size, "%s", i < end ? ", " : "");
        }
}

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
    struct wishes wishes = {0};
    int code = options_parse(&options_of_topo, argc, argv, &wishes);
    if (code >= 0)
        return code;
    if (optind < argc)
        return usage_error("topo", "takes no arguments, got %s", argv[optind]);
    return show(wishes.json, wishes.picture);
}
