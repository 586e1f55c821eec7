/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that all ranks have registered together and mapped in one another: kernels of different processes reduce it
 * where it lies, as those of one process do with all memory. Peers map it as they map what is offered for messages. All
 * ranks know that all could, so all take the same way. The user promises that a call uses this memory on all ranks or
 * on none, as for ncclCommWindowRegister() with NCCL_WIN_COLL_SYMMETRIC.
 */
#include "executor/gpu/symmetric.h"

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/import.h"
#include "executor/gpu/offer.h"

#include <stdlib.h>
#include <string.h>

struct symmetric {
    struct list node;
    uint64_t begin, size;
    uint64_t at[KERNEL_RANKS]; /* where it begins on each rank, as this one addresses it */
    int offered[KERNEL_RANKS]; /* which offer it is to each rank; -1: none */
};

/* What ranks tell one another. */
struct symmetric_told {
    uint64_t size, offset; /* in the allocation */
    int32_t offer[KERNEL_RANKS];
};

static void symmetric_let_go(struct gpu *gpu, const struct symmetric *symmetric)
{
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (symmetric->offered[peer] >= 0)
            offer_let_go(gpu, peer, symmetric->offered[peer]);
}

static tutti_result_t offer(struct gpu *gpu, struct symmetric *symmetric, struct symmetric_told *told)
{
    struct cuda_range range;
    *told = (struct symmetric_told){.size = symmetric->size};
    memset(told->offer, -1, sizeof told->offer);
    tutti_result_t result = cuda_range_of((void *)(uintptr_t)symmetric->begin, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    told->offset = symmetric->begin - range.base;
    if (range.kind != CUDA_DEVICE || range.ordinal != gpu->base.device->ordinal ||
        told->offset + symmetric->size > range.size)
        return error_note(TUTTI_INVALID_USAGE, "it is not whole in one allocation of GPU %d",
                          gpu->base.device->ordinal);
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank)
            told->offer[peer] = symmetric->offered[peer] = offer_keep(gpu, peer, &range);
    return TUTTI_SUCCESS;
}

static tutti_result_t symmetric_map(struct gpu *gpu, struct symmetric *symmetric, const struct symmetric_told *all,
                                    bool *good)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 0; result == TUTTI_SUCCESS && *good && peer < gpu->nranks; peer++) {
        CUdeviceptr base = 0;
        if (peer == gpu->rank)
            continue;
        if (all[peer].offer[gpu->rank] >= 0 && all[peer].size == symmetric->size)
            result = import_wait(gpu, peer, (uint32_t)all[peer].offer[gpu->rank], &base);
        symmetric->at[peer] = base + all[peer].offset;
        *good = base != 0;
    }
    return result;
}

/* Every rank comes to both meetings, whatever has failed on it. */
static tutti_result_t agree(struct gpu *gpu, struct symmetric *symmetric, bool *good)
{
    struct symmetric_told mine, all[KERNEL_RANKS];
    uint8_t can, can_all[KERNEL_RANKS];
    cuda_enter(gpu->base.device);
    tutti_result_t offered = offer(gpu, symmetric, &mine);
    cuda_leave();
    if (offered != TUTTI_SUCCESS)
        log_info("memory of rank %d cannot be symmetric: %s", gpu->rank, error_last());
    *good = offered == TUTTI_SUCCESS;
    tutti_result_t result = team_tell_all(gpu->base.team, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS)
        result = symmetric_map(gpu, symmetric, all, good);
    can = *good;
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(gpu->base.team, &can, sizeof can, can_all);
    for (int rank = 0; result == TUTTI_SUCCESS && rank < gpu->nranks; rank++)
        *good = *good && can_all[rank];
    return result;
}

static void enter(struct gpu *gpu, struct symmetric *symmetric)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    list_push(&gpu->symmetric.memories, &symmetric->node);
    atomic_fetch_add(&gpu->symmetric.count, 1);
    pthread_mutex_unlock(&gpu->symmetric.lock);
}

tutti_result_t symmetric_open(struct gpu *gpu, void *buffer, size_t size, struct symmetric **out)
{
    bool good;
    *out = NULL;
    if (!gpu->symmetric.wanted)
        return TUTTI_SUCCESS;
    struct symmetric *symmetric = calloc(1, sizeof *symmetric);
    if (!symmetric) /* peers wait for what does not come */
        return team_fail(gpu->base.team, TUTTI_SYSTEM_ERROR, gpu->rank, "no memory for a registration");
    symmetric->begin = symmetric->at[gpu->rank] = (uintptr_t)buffer;
    symmetric->size = size;
    memset(symmetric->offered, -1, sizeof symmetric->offered);
    tutti_result_t result = agree(gpu, symmetric, &good);
    if (result == TUTTI_SUCCESS)
        log_info("rank %d: %zu bytes are %s", gpu->rank, size,
                 good ? "symmetric: reductions work where they lie" : "not mapped by all ranks");
    if (result == TUTTI_SUCCESS && good) {
        enter(gpu, symmetric);
        *out = symmetric;
        return TUTTI_SUCCESS;
    }
    symmetric_let_go(gpu, symmetric);
    free(symmetric);
    return result;
}

void symmetric_close(struct gpu *gpu, struct symmetric *symmetric)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    list_remove(&symmetric->node);
    atomic_fetch_sub(&gpu->symmetric.count, 1);
    pthread_mutex_unlock(&gpu->symmetric.lock);
    symmetric_let_go(gpu, symmetric);
    free(symmetric);
}

void symmetric_close_all(struct gpu *gpu)
{
    for (struct list *node; (node = list_pop(&gpu->symmetric.memories));)
        free(list_entry(node, struct symmetric, node));
}

/* Under the lock. */
static const struct symmetric *symmetric_find(const struct gpu *gpu, const void *memory, size_t bytes)
{
    uint64_t begin = (uintptr_t)memory;
    list_each(node, &gpu->symmetric.memories)
    {
        const struct symmetric *symmetric = list_entry(node, struct symmetric, node);
        uint64_t offset = begin - symmetric->begin;
        if (begin >= symmetric->begin && offset <= symmetric->size && bytes <= symmetric->size - offset)
            return symmetric;
    }
    return NULL;
}

bool symmetric_holds(struct gpu *gpu, const struct call *call)
{
    if (!atomic_load_explicit(&gpu->symmetric.count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&gpu->symmetric.lock);
    bool holds = call->coll == COLL_ALLREDUCE
                     ? symmetric_find(gpu, call->in, call->bytes) && symmetric_find(gpu, call->out, call->bytes)
                 : call->coll == COLL_REDUCE_SCATTER
                     ? symmetric_find(gpu, call->in, call->bytes * (size_t)gpu->nranks) != NULL
                     : false; /* a rank that gets no result may have named no memory for it */
    pthread_mutex_unlock(&gpu->symmetric.lock);
    return holds;
}

void symmetric_bases(struct gpu *gpu, const void *memory, size_t bytes, uint64_t *base)
{
    pthread_mutex_lock(&gpu->symmetric.lock);
    const struct symmetric *symmetric = symmetric_find(gpu, memory, bytes);
    for (int rank = 0; rank < KERNEL_RANKS; rank++)
        base[rank] = symmetric ? symmetric->at[rank] : 0;
    pthread_mutex_unlock(&gpu->symmetric.lock);
}
