/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: one kernel. A large allreduce takes two steps: a kernel leaves each rank the result of its own part, and
 * copy engines carry the parts to the others. They take no processor of the GPU, and are faster than kernels store.
 * Where some ranks share a process and others do not, there is one step: a thread that issues for several ranks could
 * fill the queue of one behind a kernel that waits for the next one's.
 */
#include "executor/gpu/reduce.h"

#include "executor/gpu/exchange.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/layout.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/opened.h"
#include "executor/gpu/peer_reduce.h"
#include "executor/gpu/scratch.h"
#include "plan/steps.h"

#include <string.h>

/* Not those of two ranks, which are there 7 to 9 % sooner through slots (docs/notebook/gpu.md). */
static bool invites(const struct gpu *gpu, const struct plan *plan)
{
    uint64_t from = gpu->shapes.forms.invite_from;
    return gpu->nranks > 2 && plan->launch.kernel == KERNEL_REDUCE_BULK && from && plan->bytes >= from;
}

/* Results of a long vector go straight to `out` of three ranks or more whose peers have mapped it. The buffer of a call
 * is alive until the call is over. That of a graph may be gone, and a rank that stores there finds that out. */
static void gpu_reduce_invite(struct gpu *gpu, const struct call *call, const struct plan *plan,
                              struct kernel_reduce *what)
{
    if (!invites(gpu, plan))
        return;
    what->invites = what->takes | what->gives;
    what->sure = !gpu->base.tickets.capturing;
    what->mappings = layout_mappings(gpu);
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (what->takes >> peer & 1)
            opened_invited(gpu, (what->invite[peer] = offer_invite(gpu, peer, call->out, plan->bytes)) ? 1u << peer : 0,
                           call->out, plan->bytes);
}

/* Shows `in` to the owners of its parts. The buffer of a call is alive until the call is over, and owners have read it.
 */
static void gpu_reduce_show(struct gpu *gpu, const struct call *call, const struct plan *plan,
                            struct kernel_reduce *what)
{
    if (!plan->reads)
        return;
    gpu->reads = gpu->reads == UINT32_MAX ? 2 : gpu->reads + 1; /* odd and even ones take turns */
    what->reads = gpu->reads;
    what->mappings = layout_mappings(gpu);
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (peer != gpu->rank)
            what->invite[peer] = offer_invite(gpu, peer, call->in, plan->given);
}

static bool takes_list(const struct plan *plan)
{
    enum kernel_id kernel = plan->launch.kernel;
    return kernel == KERNEL_REDUCE_ONE || kernel == KERNEL_REDUCE_TWO || kernel == KERNEL_REDUCE_LISTED;
}

static tutti_result_t gpu_reduce_launch(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                        const struct flow *flow, const struct prepared *prepared, CUstream stream)
{
    struct kernel_list list;
    struct kernel_reduce *what = launch_alone(&list);
    *what = (struct kernel_reduce){.in = call->in,
                                   .out = call->out,
                                   .count = call->count,
                                   .mode = (int32_t)plan->mode,
                                   .op = call->op,
                                   .premul = call->premul,
                                   .scalar = call->scalar,
                                   .scalar_at = call->scalar_at,
                                   .chunk = plan->chunk,
                                   .stripes = plan->launch.stripes};
    if (plan_goes_round(plan->way))
        steps_ring(flow, gpu->rank, what);
    else
        steps_reduce(flow, plan->launch.kernel, gpu->nranks, what);
    if (plan->way == WAY_PEER_LOAD)
        return peer_reduce_issue(gpu, call, plan, prepared, what, stream);
    gpu_reduce_invite(gpu, call, plan, what);
    gpu_reduce_show(gpu, call, plan, what);
    tutti_result_t result = plan->needs_bulk ? scratch_take_bulk(gpu, (1u << gpu->nranks) - 1) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = takes_list(plan) ? launch_vector(gpu, &plan->launch, call->type, &list, stream)
                                  : launch_kernel(gpu, &plan->launch, call->type, &what->team, stream);
    if (plan->reads || plan->way == WAY_RING_COPY)
        gpu->step.reads = gpu->base.tickets.told;
    return result;
}

/* Each rank sends its own part of `out` to the ranks that get its results. */
static tutti_result_t gather_parts(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                   const struct flow *flow, CUstream stream)
{
    struct kernel_exchange what;
    uint64_t bytes = plan->bytes, each = kernel_part_bytes(bytes, flow->blocks), length[KERNEL_RANKS];
    char *at[KERNEL_RANKS];
    memset(&what, 0, sizeof what);
    for (int rank = 0; rank < gpu->nranks; rank++) {
        uint64_t before = each * (uint64_t)rank, begin = before < bytes ? before : bytes;
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
    return exchange_issue(gpu, &what, EXCHANGE_ALL, stream, false);
}

/* Only ranks that this one sends to have to come yet: others may be done with this call and gone. */
tutti_result_t reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan, const struct flow *flow,
                            const struct prepared *prepared, CUstream stream)
{
    tutti_result_t result = gpu_needs(gpu, flow->to | flow->gives);
    if (result == TUTTI_SUCCESS)
        result = gpu_reduce_launch(gpu, call, plan, flow, prepared, stream);
    bool gathers = plan->mode == KERNEL_REDUCE_OWN;
    return result == TUTTI_SUCCESS && gathers ? gather_parts(gpu, call, plan, flow, stream) : result;
}
