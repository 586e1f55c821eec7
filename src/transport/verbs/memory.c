/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that adapters read and write by themselves: known to each port that is used, or to those that take it. */
#include "transport/verbs/memory.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

tutti_result_t verbs_register(struct transport *transport, struct place place, size_t length,
                              struct transport_memory **out)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    struct verbs_memory *memory = calloc(1, sizeof *memory);
    void *address = place_reach(place);
    uint32_t some = 0;
    tutti_result_t result = TUTTI_SYSTEM_ERROR;
    if (!address) {
        free(memory);
        return error_note(TUTTI_INVALID_ARGUMENT, "the memory of a GPU (device %d) is not registered with RDMA devices",
                          place.device - 1);
    }
    if (!memory)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory to register %zu bytes", length);
    memory->base = (struct transport_memory){.address = address, .length = length, .devices = verbs->devices};
    list_push(&verbs->memories, &memory->node);
    for (int i = 0; i < verbs->devices; i++) {
        struct verbs_device *device = &verbs->device[i];
        if (!device->open.pd) {
            error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s is lost", device->name);
            continue;
        }
        memory->base.opened |= (uint32_t)device->opened << 4 * i;
        memory->region[i] =
            verbs->library->reg_mr(device->open.pd, address, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        memory->base.key[i] = memory->region[i] ? memory->region[i]->rkey : 0;
        some |= memory->base.key[i];
        if (!memory->region[i])
            result = error_note(errno == EFAULT ? TUTTI_INVALID_ARGUMENT : TUTTI_SYSTEM_ERROR,
                                "RDMA device %s: cannot register %zu bytes: %s", device->name, length, strerror(errno));
    }
    if (!some) {
        verbs_deregister(transport, &memory->base);
        return result;
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

bool verbs_local_key(const struct transport_memory *base, const struct verbs_device *device, uint32_t *out)
{
    const struct ibv_mr *region = ((const struct verbs_memory *)base)->region[device->index];
    if (region)
        *out = region->lkey;
    return region;
}
