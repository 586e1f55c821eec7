/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's management library adds to the GPUs that sysfs knows: driver, NVLinks, which GPUs reach each other. */
#include "topology/topology.h"

#include "base/error.h"
#include "device/cuda/nvml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void append(struct topology_node *node, const char *format, ...)
{
    size_t used = strlen(node->detail);
    va_list args;
    va_start(args, format);
    vsnprintf(node->detail + used, sizeof node->detail - used, format, args);
    va_end(args);
}

static struct topology_node *gpus_find(struct topology *topology, const char *name)
{
    for (int i = 0; i < topology->count; i++)
        if (topology->nodes[i].kind == TOPOLOGY_GPU && strcmp(topology->nodes[i].name, name) == 0)
            return &topology->nodes[i];
    return NULL;
}

/* Some containers show the driver but not the device's folder. */
static struct topology_node *find_or_add(struct topology *topology, const struct nvml_gpu *gpu)
{
    struct topology_node *node = gpus_find(topology, gpu->bus_id);
    if (node || !(node = topology_add(topology, TOPOLOGY_GPU, -1)))
        return node;
    node->parent = -1;
    snprintf(node->name, sizeof node->name, "%s", gpu->bus_id);
    return node;
}

static void append_links(struct topology_node *node, const struct nvml_gpu *gpu)
{
    if (gpu->links)
        append(node, ", %d NVLinks%s", gpu->links, gpu->switches == gpu->links ? " to switches" : "");
    for (int i = 0; i < gpu->remotes; i++)
        append(node, "%s %d to %s", i ? "," : ":", gpu->remote[i].links, gpu->remote[i].bus_id);
}

static void append_peers(struct topology_node *node, int index, int count)
{
    int ways[3] = {0};
    for (int other = 0; other < count; other++) {
        enum nvml_peer way;
        if (other != index && nvml_peer(index, other, &way) == TUTTI_SUCCESS)
            ways[way]++;
    }
    if (ways[NVML_PEER_NVLINK])
        append(node, ", reaches %d GPUs by NVLink", ways[NVML_PEER_NVLINK]);
    if (ways[NVML_PEER_PCI])
        append(node, ", reaches %d GPUs by PCI", ways[NVML_PEER_PCI]);
}

/* No library, no driver, or one that fails: what sysfs says must do. */
tutti_result_t topology_read_gpus(struct topology *topology)
{
    char version[80];
    int count;
    if (nvml_count(&count) != TUTTI_SUCCESS || nvml_driver_version(version, sizeof version) != TUTTI_SUCCESS)
        return TUTTI_SUCCESS;
    for (int i = 0; i < count; i++) {
        struct nvml_gpu gpu;
        if (nvml_gpu(i, &gpu) != TUTTI_SUCCESS)
            continue;
        struct topology_node *node = find_or_add(topology, &gpu);
        if (!node)
            return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
        snprintf(node->detail, sizeof node->detail, "%.40s, driver %.20s", gpu.name, version);
        append_peers(node, i, count);
        append_links(node, &gpu);
    }
    return TUTTI_SUCCESS;
}
