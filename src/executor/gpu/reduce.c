/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: one kernel. A large allreduce takes two steps: a kernel leaves each rank the result of its own part, and copy engines
 * carry the parts to the others, without any processor of the GPU and faster than kernels store.
 */
#include "executor/gpu/internal.h"
#include "executor/gpu/steps.h"

#include "base/error.h"
#include "base/param.h"

#include <string.h>

static uint32_t everybody(const struct gpu *gpu)
{
    return (1u << gpu->nranks) - 1;
}

/*
 * All ranks come to the same answer: they capture alike. Not where some ranks share a process and others do not: one thread may issue for
 * several, and the second step of one, if it is staged, could fill the queue behind a kernel that waits for the next one's.
 */
static bool in_two_steps(const struct gpu *gpu, const struct call *call, bool capturing)
{
    return call->coll == COLL_ALLREDUCE && gpu->copies && (gpu->peer_reduce || gpu->apart) && !capturing &&
           call_bytes(call) >= (uint64_t)param_int(PARAM_GATHER_FROM) && exchange_copies(gpu, call_bytes(call) / (uint64_t)gpu->nranks) &&
           !peer_reduce_wanted(gpu, call);
}

static enum kernel_mode mode_of(enum coll coll)
{
    return coll == COLL_ALLREDUCE ? KERNEL_ALLREDUCE : coll == COLL_REDUCE ? KERNEL_REDUCE : KERNEL_REDUCE_SCATTER;
}

static void choose(const struct gpu *gpu, const struct call *call, enum kernel_mode mode, struct kernel_launch *how)
{
    kernel_choose_reduce(mode, gpu->nranks, call_bytes(call), gpu->room, gpu->in_host, how);
}

bool reduce_follow(struct gpu *gpu, const struct call *call, enum kernel_id kernel, struct kernel_reduce *what)
{
    const struct flow *flow = record_way(gpu, steps_way(kernel, (enum kernel_mode)what->mode), call);
    if (flow)
        steps_reduce(flow, kernel, gpu->nranks, what);
    return flow != NULL;
}

static tutti_result_t launch(struct gpu *gpu, const struct call *call, enum kernel_mode mode, CUstream stream)
{
    struct kernel_reduce what = {.in = call->in, .out = call->out, .count = call->count, .mode = (int32_t)mode,
                                 .op = call->op, .premul = call->premul, .scalar = call->scalar, .scalar_at = call->scalar_at,
                                 .chunk = (uint64_t)param_int(PARAM_BULK_CHUNK)};
    struct kernel_launch how;
    if (peer_reduce_wanted(gpu, call))
        return peer_reduce_issue(gpu, call, &what, stream);
    choose(gpu, call, mode, &how);
    what.stripes = how.stripes;
    if (!what.chunk)
        what.chunk = how.chunk;
    tutti_result_t result = TUTTI_SUCCESS;
    if (!reduce_follow(gpu, call, how.kernel, &what))
        return TUTTI_INTERNAL_ERROR;
    if (how.kernel == KERNEL_REDUCE_BULK)
        result = scratch_take_bulk(gpu, everybody(gpu));
    return result == TUTTI_SUCCESS ? order_launch(gpu, &how, call->type, &what.team, stream) : result;
}

/* Each owner's part of `out` to who gets its results. */
static tutti_result_t gather_parts(struct gpu *gpu, const struct call *call, CUstream stream)
{
    struct kernel_exchange what;
    const struct flow *flow = record_way(gpu, WAY_BULK_COPY, call);
    if (!flow)
        return TUTTI_INTERNAL_ERROR;
    uint64_t bytes = call_bytes(call), each = kernel_part_bytes(bytes, flow->blocks), length[KERNEL_RANKS];
    char *at[KERNEL_RANKS];
    memset(&what, 0, sizeof what);
    for (int rank = 0; rank < gpu->nranks; rank++) {
        uint64_t before = each * (uint64_t)flow->peer[rank].send.about, begin = before < bytes ? before : bytes;
        at[rank] = (char *)call->out + begin;
        length[rank] = bytes - begin < each ? bytes - begin : each;
    }
    for (int rank = 0; rank < gpu->nranks; rank++) {
        bool own = rank == gpu->rank;
        if (own || flow->gives >> rank & 1) {
            what.send[rank] = at[gpu->rank];
            what.send_bytes[rank] = length[gpu->rank];
        }
        if (own || flow->takes >> rank & 1) {
            what.recv[rank] = at[rank];
            what.recv_bytes[rank] = length[rank];
        }
    }
    return exchange_issue(gpu, &what, true, stream, false);
}

tutti_result_t reduce_issue(struct gpu *gpu, const struct call *call, bool capturing, CUstream stream)
{
    tutti_result_t result = gpu_needs(gpu, call->coll == COLL_REDUCE ? 1u << call->root : everybody(gpu));
    if (result != TUTTI_SUCCESS)
        return result;
    if (!in_two_steps(gpu, call, capturing))
        return launch(gpu, call, mode_of(call->coll), stream);
    result = launch(gpu, call, KERNEL_REDUCE_OWN, stream);
    return result == TUTTI_SUCCESS ? gather_parts(gpu, call, stream) : result;
}

/* It may: whether the call is captured is not known yet. */
bool reduce_needs_bulk(const struct gpu *gpu, const struct call *call)
{
    struct kernel_launch how;
    choose(gpu, call, in_two_steps(gpu, call, false) ? KERNEL_REDUCE_OWN : mode_of(call->coll), &how);
    return how.kernel == KERNEL_REDUCE_BULK;
}
