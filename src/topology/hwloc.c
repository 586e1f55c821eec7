/* SPDX-License-Identifier: Apache-2.0 */
/* Processors, caches and NUMA nodes from hwloc (https://www.open-mpi.org/projects/hwloc). */
#include "topology/topology.h"

#include "base/error.h"

#include <hwloc.h>

static const struct {
    hwloc_obj_type_t type;
    enum topology_kind kind;
} types[] = {
    {HWLOC_OBJ_PACKAGE, TOPOLOGY_PACKAGE}, {HWLOC_OBJ_NUMANODE, TOPOLOGY_NUMA}, {HWLOC_OBJ_L3CACHE, TOPOLOGY_L3},
    {HWLOC_OBJ_L2CACHE, TOPOLOGY_L2},      {HWLOC_OBJ_L1CACHE, TOPOLOGY_L1},    {HWLOC_OBJ_CORE, TOPOLOGY_CORE},
    {HWLOC_OBJ_PU, TOPOLOGY_PU},
};

static void copy_set(hwloc_const_cpuset_t set, struct topology_cpus *out)
{
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
        topology_cpu_add(out, cpu);
}

static uint64_t bytes_of(hwloc_obj_t object)
{
    if (object->type == HWLOC_OBJ_NUMANODE)
        return object->attr->numanode.local_memory;
    return hwloc_obj_type_is_cache(object->type) ? object->attr->cache.size : 0;
}

static bool copy_objects(struct topology *topology, hwloc_topology_t source, hwloc_obj_type_t type,
                         enum topology_kind kind)
{
    for (hwloc_obj_t object = NULL; (object = hwloc_get_next_obj_by_type(source, type, object));) {
        bool numbered = !hwloc_obj_type_is_cache(type) && object->os_index != HWLOC_UNKNOWN_INDEX;
        struct topology_node *node = topology_add(topology, kind, numbered ? (int)object->os_index : -1);
        if (!node)
            return false;
        node->bytes = bytes_of(object);
        copy_set(object->cpuset, &node->cpus);
    }
    return true;
}

static tutti_result_t copy_all(struct topology *topology, hwloc_topology_t source)
{
    copy_set(hwloc_get_root_obj(source)->cpuset, &topology->nodes[0].cpus);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!copy_objects(topology, source, types[i].type, types[i].kind))
            return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
    return TUTTI_SUCCESS;
}

tutti_result_t topology_read_hwloc(struct topology *topology, bool *this_host)
{
    hwloc_topology_t source;
    if (hwloc_topology_init(&source) != 0)
        return error_note(TUTTI_SYSTEM_ERROR, "topology: hwloc cannot start");
    tutti_result_t result = hwloc_topology_load(source) == 0
                                ? copy_all(topology, source)
                                : error_note(TUTTI_SYSTEM_ERROR, "topology: hwloc finds nothing");
    *this_host = hwloc_topology_is_thissystem(source);
    hwloc_topology_destroy(source);
    return result;
}
