/* SPDX-License-Identifier: Apache-2.0 */
/* Which buffers of peers are mapped here, and which of these are to be closed. */
#include "executor/gpu/imported.h"

#include "base/log.h"
#include "device/cuda/memory.h"
#include "executor/gpu/gpu.h"

#include <stdlib.h>

void imported_unmap(struct cuda_device *device, int rank, struct import *import)
{
    cuda_unimport(device, &import->handle, import->address);
    log_info("unmapped %llu bytes of rank %d in rank %d", (unsigned long long)import->handle.size, import->peer, rank);
    free(import);
}

struct import *imported_next_old(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->offers.lock);
    struct list *node = list_pop(&gpu->offers.old);
    if (!node)
        atomic_store_explicit(&gpu->offers.any_old, false, memory_order_relaxed);
    pthread_mutex_unlock(&gpu->offers.lock);
    return node ? list_entry(node, struct import, node) : NULL;
}

/* Under the executor's lock: from here on the import is to be closed, and no message uses it. */
void imported_make_old(struct gpu *gpu, struct import *import)
{
    list_push(&gpu->offers.old, &import->node);
    atomic_store_explicit(&gpu->offers.any_old, true, memory_order_relaxed);
}

void imported_put_off(struct gpu *gpu, int peer, const struct cuda_handle *handle, CUdeviceptr address)
{
    struct import *import = malloc(sizeof *import);
    if (!import) /* it stays mapped */
        return;
    *import = (struct import){.peer = peer, .offer = IMPORT_NO_OFFER, .handle = *handle, .address = address};
    pthread_mutex_lock(&gpu->offers.lock);
    imported_make_old(gpu, import);
    pthread_mutex_unlock(&gpu->offers.lock);
}

CUdeviceptr imported_address(const struct gpu *gpu, int peer, uint32_t offer)
{
    const struct import *import =
        offer < MAILBOX_OFFERS ? atomic_load_explicit(&gpu->offers.import[peer][offer], memory_order_acquire) : NULL;
    return import ? import->address : 0;
}

void imported_take_all(struct gpu *gpu, struct list *out)
{
    for (struct import *import; (import = imported_next_old(gpu));)
        list_push(out, &import->node);
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (int i = 0; i < MAILBOX_OFFERS; i++) {
            struct import *import = atomic_exchange(&gpu->offers.import[peer][i], NULL);
            if (import)
                list_push(out, &import->node);
        }
}
