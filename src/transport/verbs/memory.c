/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that adapters read and write by themselves: known to each port that is used, or to those that take it. */
#include "transport/verbs/memory.h"
#include "base/error.h"
#include "base/known.h"
#include "base/log.h"
#include "base/near.h"
#include "base/param.h"
#include "transport/verbs/flush.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct verbs_memory {
    struct transport_memory base;
    struct list node;                    /* in verbs_transport.memories */
    struct ibv_mr *region[WIRE_DEVICES]; /* by device */
};

void verbs_deregister(struct transport *transport, struct transport_memory *base)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    struct verbs_memory *memory = (struct verbs_memory *)base;
    list_remove(&memory->node);
    for (int i = 0; i < WIRE_DEVICES; i++) {
        int error = memory->region[i] ? verbs->library->dereg_mr(memory->region[i]) : 0;
        if (error)
            log_warn("RDMA device %s: cannot take back registered memory: %s", verbs->device[i].name, strerror(error));
    }
    free(memory);
}

/* By descriptor, if there is one. Only a flush reads what lies in a GPU's memory: queue pairs of lanes may not. */
static struct ibv_mr *memory_region(const struct verbs_memory *memory, const struct verbs_device *device, int fd)
{
    const struct verbs_library *library = device->owner->library;
    const struct transport_memory *base = &memory->base;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if (fd < 0)
        return library->reg_mr(device->open.pd, base->address, base->length, access);
    return library->reg_dmabuf_mr(device->open.pd, 0, base->length, (uintptr_t)base->address, fd,
                                  access | IBV_ACCESS_REMOTE_READ);
}

/* TUTTI_NET_GDR_LEVEL: names first, then numbers; LOC is nobody's. A GPU whose place is not known is far away. */
static bool memory_may_reach(const struct verbs_device *device, struct place place)
{
    int told = (int)param_int(PARAM_NET_GDR_LEVEL), names = NEAR_SYSTEM + 1, most = told < names ? told : told - names;
    char gpu[NEAR_FOLDER], adapter[NEAR_FOLDER + 64];
    if (place_is_host(place) || most >= NEAR_SYSTEM)
        return true;
    near_adapter(device->name, adapter);
    enum near_level level = near_gpu(place.device - 1, gpu) ? near_level("", gpu, adapter) : NEAR_UNKNOWN;
    return level != NEAR_UNKNOWN && (int)level <= most;
}

static tutti_result_t memory_enter(struct verbs_memory *memory, struct verbs_device *device, int fd)
{
    struct transport_memory *base = &memory->base;
    unsigned i = device->index;
    if (!device->open.pd)
        return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s is lost", device->name);
    tutti_result_t result = base->unordered ? verbs_flush_open(device) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS)
        return result;
    base->opened |= (uint32_t)device->opened << 4 * i;
    memory->region[i] = memory_region(memory, device, fd);
    base->key[i] = memory->region[i] ? memory->region[i]->rkey : 0;
    if (base->key[i])
        return TUTTI_SUCCESS;
    bool for_good = errno == EFAULT || (fd >= 0 && errno != ENOMEM && errno != EIO && errno != EAGAIN);
    return error_note(for_good ? TUTTI_INVALID_ARGUMENT : TUTTI_SYSTEM_ERROR,
                      "RDMA device %s: cannot register %zu bytes%s: %s", device->name, base->length,
                      fd < 0 ? "" : " of a GPU's memory", strerror(errno));
}

tutti_result_t verbs_register(struct transport *transport, struct place place, size_t length,
                              struct transport_memory **out)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    struct verbs_memory *memory = calloc(1, sizeof *memory);
    bool on_device = !place_is_host(place), ordered = true;
    int fd = on_device && verbs->library->reg_dmabuf_mr ? known_descriptor(place.life, &ordered) : -1;
    tutti_result_t result = TUTTI_SYSTEM_ERROR;
    if (!memory)
        result = error_note(TUTTI_SYSTEM_ERROR, "no memory to register %zu bytes", length);
    else if (on_device && fd < 0)
        result = error_note(TUTTI_INVALID_ARGUMENT, "the memory of GPU %d has no descriptor for RDMA devices%s",
                            place.device - 1, verbs->library->reg_dmabuf_mr ? "" : ", or rdma-core is older than 34");
    if (!memory || (on_device && fd < 0)) {
        free(memory);
        return result;
    }
    memory->base = (struct transport_memory){
        .address = place.address, .length = length, .devices = verbs->devices, .unordered = !ordered};
    list_push(&verbs->memories, &memory->node);
    uint32_t some = 0;
    bool later = false; /* it may be registered another time */
    for (int i = 0; i < verbs->devices; i++) {
        result = memory_may_reach(&verbs->device[i], place)
                     ? memory_enter(memory, &verbs->device[i], fd)
                     : error_note(TUTTI_INVALID_ARGUMENT, "RDMA device %s is farther from GPU %d than %s=%s",
                                  verbs->device[i].name, place.device - 1, param_source(PARAM_NET_GDR_LEVEL),
                                  param_string(PARAM_NET_GDR_LEVEL));
        later |= result == TUTTI_SYSTEM_ERROR;
        some |= memory->base.key[i];
    }
    if (fd >= 0)
        close(fd);
    if (!some) {
        verbs_deregister(transport, &memory->base);
        return later ? TUTTI_SYSTEM_ERROR : result;
    }
    *out = &memory->base;
    return TUTTI_SUCCESS;
}

/* The caller waits for the adapter only where there is no room for the list, or where the adapter may still write. */
int verbs_take_regions(struct verbs_device *device, struct ibv_mr ***out)
{
    struct list *memories = &device->owner->memories;
    int most = 0, count = 0;
    list_each(node, memories) most++;
    *out = most ? calloc((size_t)most, sizeof **out) : NULL;
    list_each(node, memories)
    {
        struct verbs_memory *memory = list_entry(node, struct verbs_memory, node);
        struct ibv_mr *region = memory->region[device->index];
        memory->region[device->index] = NULL;
        memory->base.key[device->index] = 0;
        if (region && *out && !device->stuck)
            (*out)[count++] = region;
        else if (region)
            device->owner->library->dereg_mr(region);
    }
    return count;
}

bool verbs_flush_memory(struct verbs_device *device, const struct transport_memory *base, const void *at,
                        uint64_t token)
{
    const struct ibv_mr *region = ((const struct verbs_memory *)base)->region[device->index];
    return region && verbs_flush_read(device, (uintptr_t)at, region->rkey, token) == TUTTI_SUCCESS;
}

bool verbs_local_key(const struct transport_memory *base, const struct verbs_device *device, uint32_t *out)
{
    const struct ibv_mr *region = ((const struct verbs_memory *)base)->region[device->index];
    if (region)
        *out = region->lkey;
    return region;
}
