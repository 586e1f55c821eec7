/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a host as people see them: nodes that nest one in one are one. */
#include "cli/topo.h"

#include <stdarg.h>
#include <string.h>

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
