/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions that kernels carry out where users' memory lies, in one process whose GPUs address one another's. What cudaMalloc made
 * they all reach; memory of pools, mapped pieces, managed and host memory perhaps not: scratch then stands in for it on the rank that
 * has it, and no other needs to know.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/param.h"

static bool has_result(const struct fabric *fabric, const struct call *call)
{
    return call->coll != COLL_REDUCE || call->root == fabric->rank;
}

/* All ranks come to the same answer. */
bool direct_wanted(const struct fabric *fabric, const struct call *call)
{
    uint64_t bytes = call_in_bytes(fabric, call);
    return fabric->direct && bytes >= (uint64_t)param_int(PARAM_DIRECT_FROM) && bytes <= (uint64_t)param_int(PARAM_DIRECT_MOST);
}

static bool needs_stand_in(const struct fabric *fabric, const struct call *call)
{
    return !memory_is_reached(fabric, call->in) || (has_result(fabric, call) && !memory_is_reached(fabric, call->out));
}

tutti_result_t direct_prepare(struct fabric *fabric, const struct call *call)
{
    return needs_stand_in(fabric, call) ? scratch_stand_in(fabric) : TUTTI_SUCCESS;
}

tutti_result_t direct_issue(struct fabric *fabric, const struct call *call, struct kernel_reduce *what, CUstream stream)
{
    struct kernel_launch how;
    bool brought = !memory_is_reached(fabric, call->in), fetched = has_result(fabric, call) && !memory_is_reached(fabric, call->out);
    tutti_result_t result = TUTTI_SUCCESS;
    if (brought) {
        what->in = (void *)(uintptr_t)fabric->stand_in;
        result = fabric_copy(fabric, stream, fabric->stand_in, device_address(call->in), call_in_bytes(fabric, call));
    }
    if (fetched)
        what->out = (char *)(uintptr_t)fabric->stand_in + param_int(PARAM_DIRECT_MOST);
    kernel_shape_reduce(KERNEL_REDUCE_DIRECT, call_in_bytes(fabric, call), fabric->room, &how);
    if (result == TUTTI_SUCCESS && !reduce_follow(fabric, call, how.kernel, what))
        result = TUTTI_INTERNAL_ERROR;
    if (result == TUTTI_SUCCESS)
        result = order_launch(fabric, &how, call->type, &what->team, stream);
    if (result != TUTTI_SUCCESS || !fetched)
        return result;
    order_more(fabric);
    return fabric_copy(fabric, stream, device_address(call->out), device_address(what->out), call_bytes(call));
}
