/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers what the readers find and makes one tree of it, by inclusion of processor sets. */
#include "topology/topology.h"

#include "base/error.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *topology_kind_name(enum topology_kind kind)
{
    static const char *const names[TOPOLOGY_KINDS] = {"Machine", "Package", "NUMA node", "L3",   "L2", "L1",
                                                      "Core",    "PU",      "Net",       "RDMA", "GPU"};
    return names[kind];
}

int topology_cpu_count(const struct topology_cpus *cpus)
{
    int count = 0;
    for (int i = 0; i < TOPOLOGY_CPUS / 64; i++)
        count += __builtin_popcountll(cpus->bits[i]);
    return count;
}

void topology_cpu_add(struct topology_cpus *cpus, int cpu)
{
    if (cpu >= 0 && cpu < TOPOLOGY_CPUS)
        cpus->bits[cpu / 64] |= 1ull << (cpu % 64);
}

static bool includes(const struct topology_cpus *outer, const struct topology_cpus *inner)
{
    for (int i = 0; i < TOPOLOGY_CPUS / 64; i++)
        if (inner->bits[i] & ~outer->bits[i])
            return false;
    return true;
}

static int first_cpu(const struct topology_cpus *cpus)
{
    for (int i = 0; i < TOPOLOGY_CPUS / 64; i++)
        if (cpus->bits[i])
            return i * 64 + __builtin_ctzll(cpus->bits[i]);
    return TOPOLOGY_CPUS;
}

struct topology_node *topology_add(struct topology *topology, enum topology_kind kind, int index)
{
    if (topology->count == topology->room) {
        int room = topology->room ? 2 * topology->room : 64;
        struct topology_node *nodes = realloc(topology->nodes, (size_t)room * sizeof *nodes);
        if (!nodes)
            return NULL;
        topology->nodes = nodes;
        topology->room = room;
    }
    struct topology_node *node = &topology->nodes[topology->count++];
    *node = (struct topology_node){.kind = kind, .parent = -1, .index = index};
    return node;
}

/* Outer before inner; devices last; equals in the order of their first processor. */
static int topology_compare(const void *a, const void *b)
{
    const struct topology_node *x = a, *y = b;
    bool device_x = x->kind >= TOPOLOGY_NET, device_y = y->kind >= TOPOLOGY_NET;
    if (device_x != device_y)
        return device_x - device_y;
    if (device_x)
        return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->name, y->name);
    if (x->kind == TOPOLOGY_MACHINE || y->kind == TOPOLOGY_MACHINE)
        return (y->kind == TOPOLOGY_MACHINE) - (x->kind == TOPOLOGY_MACHINE);
    int more = topology_cpu_count(&y->cpus) - topology_cpu_count(&x->cpus);
    if (more)
        return more;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : first_cpu(&x->cpus) - first_cpu(&y->cpus);
}

static int numa_node(const struct topology *topology, int number)
{
    for (int i = 0; number >= 0 && i < topology->count; i++)
        if (topology->nodes[i].kind == TOPOLOGY_NUMA && topology->nodes[i].index == number)
            return i;
    return 0;
}

/* The last earlier node that has all my processors: the smallest one. A NUMA node of memory alone is the machine's. */
static int parent_of(const struct topology *topology, int me)
{
    const struct topology_node *node = &topology->nodes[me];
    for (int i = me - 1; i > 0 && topology_cpu_count(&node->cpus) > 0; i--)
        if (includes(&topology->nodes[i].cpus, &node->cpus))
            return i;
    return 0;
}

static void make_tree(struct topology *topology)
{
    qsort(topology->nodes, (size_t)topology->count, sizeof *topology->nodes, topology_compare);
    for (int i = 1; i < topology->count; i++) {
        struct topology_node *node = &topology->nodes[i];
        node->parent = node->kind >= TOPOLOGY_NET ? numa_node(topology, node->parent) : parent_of(topology, i);
    }
}

static void read_model(const char *root, char *out, size_t size)
{
    char path[512], line[512], *colon;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && (colon = strchr(line, ':'))) {
            snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    if (file)
        fclose(file);
}

static tutti_result_t read_machine(struct topology *topology, const char *root)
{
    char line[128];
    uint64_t kib;
    struct topology_node *machine = topology_add(topology, TOPOLOGY_MACHINE, -1);
    if (!machine)
        return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
    if (*root || gethostname(machine->name, sizeof machine->name - 1) != 0)
        snprintf(machine->name, sizeof machine->name, "host");
    if (topology_read_line(root, "/proc/meminfo", line, sizeof line) && sscanf(line, "MemTotal: %" SCNu64, &kib) == 1)
        machine->bytes = kib * 1024;
    read_model(root, machine->detail, sizeof machine->detail);
    return TUTTI_SUCCESS;
}

static tutti_result_t topology_topology_load(struct topology *topology, const char *root)
{
    bool this_host = true;
    tutti_result_t result = read_machine(topology, root);
    if (result != TUTTI_SUCCESS)
        return result;
    topology->source = "hwloc";
    if (*root || topology_read_hwloc(topology, &this_host) != TUTTI_SUCCESS) {
        topology->source = "sysfs";
        topology->count = 1;
        result = topology_read_cpus(topology, root);
    }
    if (result == TUTTI_SUCCESS && this_host)
        result = topology_read_devices(topology, root);
    if (result == TUTTI_SUCCESS && this_host && !*root)
        result = topology_read_gpus(topology);
    return result;
}

tutti_result_t topology_load_from(const char *root, struct topology **out)
{
    struct topology *topology = calloc(1, sizeof *topology);
    if (!topology)
        return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
    tutti_result_t result = topology_topology_load(topology, root);
    if (result != TUTTI_SUCCESS) {
        topology_free(topology);
        return result;
    }
    make_tree(topology);
    *out = topology;
    return TUTTI_SUCCESS;
}

tutti_result_t topology_load(struct topology **out)
{
    return topology_load_from("", out);
}

void topology_free(struct topology *topology)
{
    if (!topology)
        return;
    free(topology->nodes);
    free(topology);
}
