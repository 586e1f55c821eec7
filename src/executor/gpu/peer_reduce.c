/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions that kernels carry out where users' memory lies, in one process whose GPUs address one another's. What
 * cudaMalloc made they all reach; memory of pools, mapped pieces, managed and host memory perhaps not: scratch then
 * stands in for it on the rank that has it, and no other needs to know.
 */
#include "executor/gpu/internal.h"

#include "base/param.h"

static bool has_result(const struct gpu *gpu, const struct call *call)
{
    return call->coll != COLL_REDUCE || call->root == gpu->rank;
}

static bool needs_stand_in(const struct gpu *gpu, const struct call *call)
{
    return !memory_is_reached(gpu, call->in) || (has_result(gpu, call) && !memory_is_reached(gpu, call->out));
}

tutti_result_t peer_reduce_prepare(struct gpu *gpu, const struct call *call)
{
    return needs_stand_in(gpu, call) ? scratch_stand_in(gpu) : TUTTI_SUCCESS;
}

tutti_result_t peer_reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                 struct kernel_reduce *what, CUstream stream)
{
    bool brought = !memory_is_reached(gpu, call->in),
         fetched = has_result(gpu, call) && !memory_is_reached(gpu, call->out);
    tutti_result_t result = TUTTI_SUCCESS;
    if (brought) {
        what->in = (void *)(uintptr_t)gpu->scratch.stand_in;
        result = gpu_copy(gpu, stream, gpu->scratch.stand_in, device_address(call->in), plan->given);
    }
    if (fetched)
        what->out = (char *)(uintptr_t)gpu->scratch.stand_in + param_int(PARAM_PEER_MOST);
    if (result == TUTTI_SUCCESS)
        result = order_launch(gpu, &plan->launch, call->type, &what->team, stream);
    if (result != TUTTI_SUCCESS || !fetched)
        return result;
    order_more(gpu);
    return gpu_copy(gpu, stream, device_address(call->out), device_address(what->out), plan->bytes);
}
