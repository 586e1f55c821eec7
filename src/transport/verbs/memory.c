/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that adapters read and write by themselves: known to each port that is used. */
#include "transport/verbs/verbs.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct verbs_memory {
    struct transport_memory base;
    struct ibv_mr *region[WIRE_DEVICES]; /* by device */
};

void verbs_deregister(struct transport *transport, struct transport_memory *base)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    struct verbs_memory *memory = (struct verbs_memory *)base;
    for (int i = 0; i < WIRE_DEVICES; i++) {
        int error = memory->region[i] ? verbs->library->dereg_mr(memory->region[i]) : 0;
        if (error)
            log_warn("RDMA device %s: cannot take back registered memory: %s", verbs->device[i].name, strerror(error));
    }
    free(memory);
}

tutti_result_t verbs_register(struct transport *transport, void *address, size_t length, struct transport_memory **out)
{
    struct verbs_transport *verbs = (struct verbs_transport *)transport;
    struct verbs_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory to register %zu bytes", length);
    memory->base = (struct transport_memory){.address = address, .length = length, .devices = verbs->devices};
    for (int i = 0; i < verbs->devices; i++) {
        struct verbs_device *device = &verbs->device[i];
        memory->region[i] =
            verbs->library->reg_mr(device->pd, address, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (!memory->region[i]) {
            int error = errno;
            verbs_deregister(transport, &memory->base);
            return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s: cannot register %zu bytes: %s", device->name, length,
                              strerror(error));
        }
        memory->base.key[i] = memory->region[i]->rkey;
    }
    *out = &memory->base;
    return TUTTI_SUCCESS;
}

uint32_t verbs_local_key(const struct transport_memory *base, const struct verbs_device *device)
{
    return ((const struct verbs_memory *)base)->region[device->index]->lkey;
}
