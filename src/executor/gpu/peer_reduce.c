/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions that kernels carry out where users' memory lies: symmetric memory (symmetric.c), or in one process whose
 * GPUs address one another's. All of these GPUs reach what cudaMalloc made, but perhaps not memory of pools, mapped
 * pieces, managed and host memory. Scratch then stands in for that memory on the rank that has it, and no other needs
 * to know.
 */
#include "executor/gpu/peer_reduce.h"

#include "base/param.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/opened.h"
#include "executor/gpu/prepare.h"
#include "executor/gpu/scratch.h"
#include "executor/gpu/symmetric.h"
#include "executor/stream/ticket.h"

static bool has_result(const struct gpu *gpu, const struct call *call)
{
    return call->coll != COLL_REDUCE || call->root == gpu->rank;
}

tutti_result_t peer_reduce_prepare(struct gpu *gpu, const struct call *call, struct prepared *out)
{
    out->in_beside = !memory_is_reached(gpu, call->in);
    out->out_beside = has_result(gpu, call) && !memory_is_reached(gpu, call->out);
    return out->in_beside || out->out_beside ? scratch_stand_in(gpu) : TUTTI_SUCCESS;
}

/* A reduction of symmetric memory. What a reduce-scatter leaves may lie anywhere: no peer touches that. */
static tutti_result_t reduce_symmetric(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                       struct kernel_peer *what, CUstream stream)
{
    symmetric_bases(gpu, call->in, plan->given, what->in_base);
    if (call->coll == COLL_ALLREDUCE)
        symmetric_bases(gpu, call->out, plan->bytes, what->out_base);
    return launch_kernel(gpu, &plan->launch, call->type, &what->reduce.team, stream);
}

tutti_result_t peer_reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                 const struct prepared *prepared, const struct kernel_reduce *reduce, CUstream stream)
{
    struct kernel_peer what = {.reduce = *reduce};
    tutti_result_t result = TUTTI_SUCCESS;
    if (call->coll != COLL_REDUCE_SCATTER && has_result(gpu, call))
        opened_given(gpu, (1u << gpu->nranks) - 1, call->out, plan->bytes);
    if (prepared->symmetric)
        return reduce_symmetric(gpu, call, plan, &what, stream);
    if (prepared->in_beside) {
        what.reduce.in = (void *)(uintptr_t)gpu->scratch.stand_in;
        result = gpu_copy(gpu, stream, gpu->scratch.stand_in, device_address(call->in), plan->given);
    }
    if (prepared->out_beside)
        what.reduce.out = (char *)(uintptr_t)gpu->scratch.stand_in + param_int(PARAM_PEER_MOST);
    if (result == TUTTI_SUCCESS)
        result = launch_kernel(gpu, &plan->launch, call->type, &what.reduce.team, stream);
    if (result != TUTTI_SUCCESS || !prepared->out_beside)
        return result;
    ticket_more(&gpu->base);
    return gpu_copy(gpu, stream, device_address(call->out), device_address(what.reduce.out), plan->bytes);
}
