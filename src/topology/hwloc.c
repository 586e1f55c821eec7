/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processors, caches and NUMA nodes from hwloc
 * (https://www.open-mpi.org/projects/hwloc), which is loaded when it is asked, so
 * that programs start where it is missing.
 */
#include "topology/topology.h"

#include "base/error.h"
#include "base/load.h"

#include <hwloc.h>
#include <pthread.h>

#define HWLOC_LIBRARY "libhwloc.so.15"

static struct {
    __typeof__(&hwloc_topology_init) init;
    __typeof__(&hwloc_topology_load) load;
    __typeof__(&hwloc_topology_destroy) destroy;
    __typeof__(&hwloc_topology_is_thissystem) is_this_system;
    __typeof__(&hwloc_get_type_depth) type_depth;
    __typeof__(&hwloc_get_obj_by_depth) object;
    __typeof__(&hwloc_bitmap_next) next;
} api;

static bool loaded;

static void hwloc_load(void)
{
    static const struct load_symbol symbols[] = {
        {&api.init, "hwloc_topology_init"},        {&api.load, "hwloc_topology_load"},
        {&api.destroy, "hwloc_topology_destroy"},  {&api.is_this_system, "hwloc_topology_is_thissystem"},
        {&api.type_depth, "hwloc_get_type_depth"}, {&api.object, "hwloc_get_obj_by_depth"},
        {&api.next, "hwloc_bitmap_next"},
    };
    loaded = load_library(HWLOC_LIBRARY, symbols, sizeof symbols / sizeof *symbols);
}

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
    for (int cpu = -1; (cpu = api.next(set, cpu)) >= 0;)
        topology_cpu_add(out, cpu);
}

static bool is_cache(enum topology_kind kind)
{
    return kind == TOPOLOGY_L1 || kind == TOPOLOGY_L2 || kind == TOPOLOGY_L3;
}

static uint64_t hwloc_bytes_of(hwloc_obj_t object, enum topology_kind kind)
{
    if (object->type == HWLOC_OBJ_NUMANODE)
        return object->attr->numanode.local_memory;
    return is_cache(kind) ? object->attr->cache.size : 0;
}

static bool copy_objects(struct topology *topology, hwloc_topology_t source, hwloc_obj_type_t type,
                         enum topology_kind kind)
{
    int depth = api.type_depth(source, type); /* NUMA nodes have one of their own, too */
    hwloc_obj_t object;
    for (unsigned i = 0; (object = api.object(source, depth, i)); i++) {
        bool numbered = !is_cache(kind) && object->os_index != HWLOC_UNKNOWN_INDEX;
        struct topology_node *node = topology_add(topology, kind, numbered ? (int)object->os_index : -1);
        if (!node)
            return false;
        node->bytes = hwloc_bytes_of(object, kind);
        copy_set(object->cpuset, &node->cpus);
    }
    return true;
}

static tutti_result_t hwloc_copy_all(struct topology *topology, hwloc_topology_t source)
{
    copy_set(api.object(source, 0, 0)->cpuset, &topology->nodes[0].cpus);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!copy_objects(topology, source, types[i].type, types[i].kind))
            return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
    return TUTTI_SUCCESS;
}

tutti_result_t topology_read_hwloc(struct topology *topology, bool *this_host)
{
    hwloc_topology_t source;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hwloc_load);
    if (!loaded)
        return error_note(TUTTI_SYSTEM_ERROR, "topology: cannot load " HWLOC_LIBRARY);
    if (api.init(&source) != 0)
        return error_note(TUTTI_SYSTEM_ERROR, "topology: hwloc cannot start");
    tutti_result_t result = api.load(source) == 0 ? hwloc_copy_all(topology, source)
                                                  : error_note(TUTTI_SYSTEM_ERROR, "topology: hwloc finds nothing");
    *this_host = api.is_this_system(source);
    api.destroy(source);
    return result;
}
