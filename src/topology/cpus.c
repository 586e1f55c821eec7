/* SPDX-License-Identifier: Apache-2.0 */
/* Processors, caches and NUMA nodes from /sys/devices/system (Documentation/ABI/stable/sysfs-devices-system-cpu). */
#include "topology/topology.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_FOLDER  "/sys/devices/system/cpu"
#define NODE_FOLDER "/sys/devices/system/node"

bool topology_read_line(const char *root, const char *path, char *out, size_t size)
{
    char full[640];
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "re");
    if (!file)
        return false;
    bool good = fgets(out, (int)size, file) != NULL;
    fclose(file);
    if (good)
        out[strcspn(out, "\n")] = 0;
    return good;
}

int64_t topology_read_number(const char *root, const char *path, int64_t otherwise)
{
    char line[64], *end;
    if (!topology_read_line(root, path, line, sizeof line))
        return otherwise;
    long long value = strtoll(line, &end, 0);
    return end == line ? otherwise : value;
}

void topology_parse_cpus(const char *text, struct topology_cpus *out)
{
    int first, last, used;
    *out = (struct topology_cpus){0};
    while (sscanf(text, "%d%n", &first, &used) == 1) {
        text += used;
        last = first;
        if (sscanf(text, "-%d%n", &last, &used) == 1)
            text += used;
        for (int cpu = first < 0 ? 0 : first; cpu <= last && cpu < TOPOLOGY_CPUS; cpu++)
            topology_cpu_add(out, cpu);
        if (*text++ != ',')
            return;
    }
}

/* The node of this kind, number and processors, made when it is met first. */
static struct topology_node *cpus_meet(struct topology *topology, enum topology_kind kind, int index,
                                       const struct topology_cpus *cpus)
{
    for (int i = 0; i < topology->count; i++) {
        struct topology_node *node = &topology->nodes[i];
        if (node->kind == kind && node->index == index && memcmp(&node->cpus, cpus, sizeof *cpus) == 0)
            return node;
    }
    struct topology_node *node = topology_add(topology, kind, index);
    if (node)
        node->cpus = *cpus;
    return node;
}

static bool read_set(const char *root, const char *path, struct topology_cpus *out)
{
    char line[1024];
    if (!topology_read_line(root, path, line, sizeof line))
        return false;
    topology_parse_cpus(line, out);
    return topology_cpu_count(out) > 0;
}

static uint64_t cache_bytes(const char *text)
{
    char *unit;
    uint64_t bytes = strtoull(text, &unit, 10);
    return *unit == 'M' ? bytes << 20 : *unit == 'K' ? bytes << 10 : bytes;
}

/* Data and unified caches; instruction caches say nothing about moving data. */
static bool read_cache(struct topology *topology, const char *root, int cpu, int k)
{
    char path[128], line[64];
    struct topology_cpus cpus;
    int base = snprintf(path, sizeof path, CPU_FOLDER "/cpu%d/cache/index%d/", cpu, k);
    size_t rest = sizeof path - (size_t)base;
    snprintf(path + base, rest, "level");
    int64_t level = topology_read_number(root, path, 0);
    snprintf(path + base, rest, "type");
    if (level < 1 || level > 3 || !topology_read_line(root, path, line, sizeof line) ||
        strcmp(line, "Instruction") == 0)
        return true;
    snprintf(path + base, rest, "shared_cpu_list");
    if (!read_set(root, path, &cpus))
        return true;
    struct topology_node *cache = cpus_meet(topology, (enum topology_kind)(TOPOLOGY_L1 - (level - 1)), -1, &cpus);
    snprintf(path + base, rest, "size");
    if (cache && topology_read_line(root, path, line, sizeof line))
        cache->bytes = cache_bytes(line);
    return cache != NULL;
}

static bool read_group(struct topology *topology, const char *root, int cpu, enum topology_kind kind,
                       const char *number, const char *const lists[2])
{
    char path[128];
    struct topology_cpus cpus;
    snprintf(path, sizeof path, CPU_FOLDER "/cpu%d/topology/%s", cpu, number);
    int index = (int)topology_read_number(root, path, -1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, CPU_FOLDER "/cpu%d/topology/%s", cpu, lists[i]);
        if (read_set(root, path, &cpus))
            return cpus_meet(topology, kind, index, &cpus) != NULL;
    }
    return true;
}

static bool read_cpu(struct topology *topology, const char *root, int cpu)
{
    static const char *const package[] = {"package_cpus_list", "core_siblings_list"};
    static const char *const core[] = {"core_cpus_list", "thread_siblings_list"};
    bool good = read_group(topology, root, cpu, TOPOLOGY_PACKAGE, "physical_package_id", package) &&
                read_group(topology, root, cpu, TOPOLOGY_CORE, "core_id", core);
    for (int k = 0; good && k < 6; k++)
        good = read_cache(topology, root, cpu, k);
    struct topology_node *pu = good ? topology_add(topology, TOPOLOGY_PU, cpu) : NULL;
    if (pu)
        topology_cpu_add(&pu->cpus, cpu);
    return pu != NULL;
}

static bool read_numa(struct topology *topology, const char *root, int number)
{
    char path[128], line[128];
    uint64_t kib;
    snprintf(path, sizeof path, NODE_FOLDER "/node%d/meminfo", number);
    if (!topology_read_line(root, path, line, sizeof line))
        return true;
    struct topology_node *node = topology_add(topology, TOPOLOGY_NUMA, number);
    if (!node)
        return false;
    if (sscanf(line, "Node %*d MemTotal: %" SCNu64, &kib) == 1)
        node->bytes = kib * 1024;
    snprintf(path, sizeof path, NODE_FOLDER "/node%d/cpulist", number);
    read_set(root, path, &node->cpus);
    return true;
}

tutti_result_t topology_read_cpus(struct topology *topology, const char *root)
{
    struct topology_cpus online, nodes;
    bool good = true;
    if (!read_set(root, CPU_FOLDER "/online", &online))
        return error_set(TUTTI_SYSTEM_ERROR, "topology: cannot read %s" CPU_FOLDER "/online; is sysfs mounted?", root);
    topology->nodes[0].cpus = online;
    for (int cpu = 0; good && cpu < TOPOLOGY_CPUS; cpu++)
        if (online.bits[cpu / 64] >> (cpu % 64) & 1)
            good = read_cpu(topology, root, cpu);
    if (!read_set(root, NODE_FOLDER "/online", &nodes))
        topology_parse_cpus("", &nodes);
    for (int node = 0; good && node < TOPOLOGY_CPUS; node++)
        if (nodes.bits[node / 64] >> (node % 64) & 1)
            good = read_numa(topology, root, node);
    return good ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
}
