/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: one kernel. A large allreduce takes two steps: a kernel leaves each rank the result of its own part, and copy engines
 * carry the parts to the others, without any processor of the GPU and faster than kernels store.
 */
#include "fabric/internal.h"
#include "fabric/steps.h"

#include "base/error.h"
#include "base/param.h"

#include <string.h>

static uint32_t everybody(const struct fabric *fabric)
{
    return (1u << fabric->nranks) - 1;
}

/*
 * All ranks come to the same answer: they capture alike. Not where some ranks share a process and others do not: one thread may issue for
 * several, and the second step of one, if it is staged, could fill the queue behind a kernel that waits for the next one's.
 */
static bool in_two_steps(const struct fabric *fabric, const struct call *call, bool capturing)
{
    return call->coll == COLL_ALLREDUCE && fabric->copies && (fabric->direct || fabric->apart) && !capturing &&
           call_bytes(call) >= (uint64_t)param_int(PARAM_GATHER_FROM) && exchange_copies(fabric, call_bytes(call) / (uint64_t)fabric->nranks) &&
           !direct_wanted(fabric, call);
}

static enum kernel_mode mode_of(enum coll coll)
{
    return coll == COLL_ALLREDUCE ? KERNEL_ALLREDUCE : coll == COLL_REDUCE ? KERNEL_REDUCE : KERNEL_REDUCE_SCATTER;
}

static void choose(const struct fabric *fabric, const struct call *call, enum kernel_mode mode, struct kernel_launch *how)
{
    kernel_choose_reduce(mode, fabric->nranks, call_bytes(call), fabric->room, fabric->in_host, how);
}

bool reduce_follow(struct fabric *fabric, const struct call *call, enum kernel_id kernel, struct kernel_reduce *what)
{
    const struct flow *flow = record_way(fabric, steps_way(kernel, (enum kernel_mode)what->mode), call);
    if (flow)
        steps_reduce(flow, kernel, fabric->nranks, what);
    return flow != NULL;
}

static tutti_result_t launch(struct fabric *fabric, const struct call *call, enum kernel_mode mode, CUstream stream)
{
    struct kernel_reduce what = {.in = call->in, .out = call->out, .count = call->count, .mode = (int32_t)mode,
                                 .op = call->op, .premul = call->premul, .scalar = call->scalar, .scalar_at = call->scalar_at,
                                 .chunk = (uint64_t)param_int(PARAM_BULK_CHUNK)};
    struct kernel_launch how;
    if (direct_wanted(fabric, call))
        return direct_issue(fabric, call, &what, stream);
    choose(fabric, call, mode, &how);
    what.stripes = how.stripes;
    if (!what.chunk)
        what.chunk = how.chunk;
    tutti_result_t result = TUTTI_SUCCESS;
    if (!reduce_follow(fabric, call, how.kernel, &what))
        return TUTTI_INTERNAL_ERROR;
    if (how.kernel == KERNEL_REDUCE_BULK)
        result = scratch_take_bulk(fabric, everybody(fabric));
    return result == TUTTI_SUCCESS ? order_launch(fabric, &how, call->type, &what.team, stream) : result;
}

/* Each owner's part of `out` to who gets its results. */
static tutti_result_t gather_parts(struct fabric *fabric, const struct call *call, CUstream stream)
{
    struct kernel_exchange what;
    const struct flow *flow = record_way(fabric, WAY_BULK_COPY, call);
    if (!flow)
        return TUTTI_INTERNAL_ERROR;
    uint64_t bytes = call_bytes(call), each = kernel_part_bytes(bytes, flow->blocks), length[KERNEL_RANKS];
    char *at[KERNEL_RANKS];
    memset(&what, 0, sizeof what);
    for (int rank = 0; rank < fabric->nranks; rank++) {
        uint64_t before = each * (uint64_t)flow->peer[rank].send.about, begin = before < bytes ? before : bytes;
        at[rank] = (char *)call->out + begin;
        length[rank] = bytes - begin < each ? bytes - begin : each;
    }
    for (int rank = 0; rank < fabric->nranks; rank++) {
        bool own = rank == fabric->rank;
        if (own || flow->gives >> rank & 1) {
            what.send[rank] = at[fabric->rank];
            what.send_bytes[rank] = length[fabric->rank];
        }
        if (own || flow->takes >> rank & 1) {
            what.recv[rank] = at[rank];
            what.recv_bytes[rank] = length[rank];
        }
    }
    return exchange_issue(fabric, &what, true, stream, false);
}

tutti_result_t reduce_issue(struct fabric *fabric, const struct call *call, bool capturing, CUstream stream)
{
    tutti_result_t result = fabric_needs(fabric, call->coll == COLL_REDUCE ? 1u << call->root : everybody(fabric));
    if (result != TUTTI_SUCCESS)
        return result;
    if (!in_two_steps(fabric, call, capturing))
        return launch(fabric, call, mode_of(call->coll), stream);
    result = launch(fabric, call, KERNEL_REDUCE_OWN, stream);
    return result == TUTTI_SUCCESS ? gather_parts(fabric, call, stream) : result;
}

/* It may: whether the call is captured is not known yet. */
bool reduce_needs_bulk(const struct fabric *fabric, const struct call *call)
{
    struct kernel_launch how;
    choose(fabric, call, in_two_steps(fabric, call, false) ? KERNEL_REDUCE_OWN : mode_of(call->coll), &how);
    return how.kernel == KERNEL_REDUCE_BULK;
}
