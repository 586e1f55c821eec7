/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each rank that all ranks address: those of other processes map it as they map what is offered for messages.
 * All ranks know whether all could. */
#include "executor/gpu/reach.h"

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "engine/collective.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/import.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/offer.h"

#include <string.h>

/* What ranks tell one another. */
struct reach_told {
    uint64_t size, address, offset; /* offset: in the allocation */
    uint64_t context;
    int32_t offer[KERNEL_RANKS];
    uint32_t reached; /* by all GPUs of the process */
    uint32_t good;
};

static tutti_result_t reach_offer(struct gpu *gpu, struct reach *reach, struct reach_told *told)
{
    struct cuda_range range;
    tutti_result_t result = cuda_range_of((void *)(uintptr_t)reach->begin, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    told->offset = reach->begin - range.base;
    if (range.kind != CUDA_DEVICE || range.ordinal != gpu->base.device->ordinal ||
        told->offset + reach->size > range.size)
        return error_note(TUTTI_INVALID_USAGE, "it is not whole in one allocation of GPU %d",
                          gpu->base.device->ordinal);
    told->reached = memory_is_reached(gpu, (void *)(uintptr_t)reach->begin);
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (!gpu->here[peer])
            told->offer[peer] = reach->offered[peer] = offer_keep(gpu, peer, &range);
    return TUTTI_SUCCESS;
}

static tutti_result_t reach_tell(struct gpu *gpu, struct reach *reach, struct reach_told *told)
{
    tutti_result_t result = TUTTI_SUCCESS;
    *told = (struct reach_told){
        .size = reach->size, .address = reach->begin, .context = (uintptr_t)gpu->base.device->context};
    memset(told->offer, -1, sizeof told->offer);
    if (reach->size) {
        cuda_enter(gpu->base.device);
        result = reach_offer(gpu, reach, told);
        cuda_leave();
    }
    told->good = result == TUTTI_SUCCESS;
    return result;
}

/* Does what a peer says of its memory fit what it has offered? */
static bool is_inside(const struct gpu *gpu, int peer, const struct reach_told *theirs)
{
    int offer = theirs->offer[gpu->rank];
    if (offer < 0 || offer >= MAILBOX_OFFERS)
        return false;
    uint64_t whole = gpu->offers.place[peer][gpu->rank][offer].buffer.handle.size;
    return theirs->offset <= whole && theirs->size <= whole - theirs->offset;
}

/* *good: whether it could be mapped. */
static tutti_result_t reach_map(struct gpu *gpu, struct reach *reach, int peer, const struct reach_told *theirs,
                                bool *good)
{
    CUdeviceptr base = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    reach->sizes[peer] = theirs->size;
    reach->at[peer] = gpu->here[peer] ? theirs->address : 0;
    if (gpu->here[peer] && peer != gpu->rank && (gpu->plan.facts.in_host || !theirs->reached))
        reach->context[peer] = (CUcontext)(uintptr_t)theirs->context;
    if (gpu->here[peer] || !theirs->size)
        return TUTTI_SUCCESS;
    if (is_inside(gpu, peer, theirs))
        result = import_wait(gpu, peer, (uint32_t)theirs->offer[gpu->rank], &base);
    reach->at[peer] = base + theirs->offset;
    *good = base != 0;
    if (result == TUTTI_SUCCESS && !base)
        error_set(TUTTI_REMOTE_ERROR, "rank %d cannot map %llu bytes of rank %d's memory", gpu->rank,
                  (unsigned long long)theirs->size, peer);
    return result;
}

/* Every rank comes to both meetings, whatever has failed on it. `mine`: what this rank says of its own. */
static tutti_result_t reach_agree(struct gpu *gpu, struct reach *reach, const struct reach_told *mine, int *without)
{
    struct reach_told all[KERNEL_RANKS];
    uint8_t can, can_all[KERNEL_RANKS];
    tutti_result_t result = team_tell_all(gpu->base.team, mine, sizeof *mine, all);
    bool good = mine->good, every = true;
    for (int rank = 0; result == TUTTI_SUCCESS && rank < gpu->nranks; rank++)
        every = every && all[rank].good;
    for (int rank = 0; result == TUTTI_SUCCESS && every && good && rank < gpu->nranks; rank++)
        result = reach_map(gpu, reach, rank, &all[rank], &good);
    can = good;
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(gpu->base.team, &can, sizeof can, can_all);
    *without = -1;
    for (int rank = 0; result == TUTTI_SUCCESS && rank < gpu->nranks && *without < 0; rank++)
        *without = can_all[rank] ? -1 : rank;
    return result;
}

tutti_result_t reach_open(struct gpu *gpu, void *buffer, size_t size, struct reach *out, int *without)
{
    struct reach_told mine;
    *out = (struct reach){.begin = (uintptr_t)buffer, .size = size};
    memset(out->offered, -1, sizeof out->offered);
    if (reach_tell(gpu, out, &mine) != TUTTI_SUCCESS)
        log_info("rank %d: peers cannot reach the memory: %s", gpu->rank, error_last());
    tutti_result_t result = reach_agree(gpu, out, &mine, without);
    if (result != TUTTI_SUCCESS || *without >= 0)
        reach_close(gpu, out);
    return result;
}

void reach_close(struct gpu *gpu, const struct reach *reach)
{
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (reach->offered[peer] >= 0)
            offer_let_go(gpu, peer, reach->offered[peer]);
}
