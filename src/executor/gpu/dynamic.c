/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose lengths only GPUs know: one kernel, whatever the lengths are. */
#include "executor/gpu/dynamic.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/executor.h"
#include "engine/op.h"
#include "executor/gpu/exchange.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/layout.h"
#include "executor/gpu/observer.h"
#include "executor/gpu/step.h"
#include "executor/gpu/wrong.h"
#include "executor/stream/order.h"

static void gpu_dynamic_describe(const struct gpu *gpu, const struct dynamic_call *call, struct kernel_dynamic *out)
{
    const tutti_dynamic_t *what = &call->what;
    *out = (struct kernel_dynamic){.exchange = {.team = gpu->kernels, .mappings = layout_mappings(gpu)},
                                   .splits = what->split_rows,
                                   .lengths = what->index_counts,
                                   .indices = what->indices,
                                   .recv_splits = what->recv_splits,
                                   .row = call->row,
                                   .count = (uint32_t)what->splits,
                                   .group = (uint32_t)(what->splits / what->windows),
                                   .room = (uint32_t)what->index_room,
                                   .send_rows = (uint32_t)what->send_rows,
                                   .recv_rows = (uint32_t)what->recv_rows};
    exchange_take_forms(gpu, &out->exchange);
    for (int peer = 0; peer < gpu->nranks; peer++) {
        out->exchange.send[peer] = call->in;
        out->exchange.recv[peer] = (char *)call->out + (size_t)peer * what->recv_stride * call->row;
    }
}

/* Between order_begin() and order_end(). Any rank may have something for any other. */
static tutti_result_t gpu_dynamic_carry_out(struct gpu *gpu, const struct dynamic_call *call, const struct call *as,
                                            CUstream stream)
{
    struct kernel_dynamic what;
    struct kernel_launch how;
    const struct way_flow *found = way_find(&gpu->flows, WAY_EXCHANGE, as->coll, 0, gpu->rank, gpu->nranks);
    if (!found)
        return error_set(TUTTI_INTERNAL_ERROR, "alltoallv has no schedule for %d ranks", gpu->nranks);
    step_collective(gpu, as, found->needs);
    if (gpu->observer)
        gpu->observer->goes(gpu, WAY_EXCHANGE, &found->flow);
    tutti_result_t result = gpu_needs(gpu, ~(1u << gpu->rank));
    if (result != TUTTI_SUCCESS)
        return result;
    gpu_dynamic_describe(gpu, call, &what);
    kernel_choose_dynamic(&what, gpu->shapes.room, gpu->shapes.in_host, &how);
    wrong_expect(gpu);
    return launch_kernel(gpu, &how, TUTTI_UINT8, &what.exchange.team, stream);
}

tutti_result_t gpu_dynamic(struct gpu *gpu, const struct dynamic_call *call, CUstream stream)
{
    static const size_t some[KERNEL_RANKS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct call as = {
        .coll = COLL_ALLTOALLV, .type = TUTTI_UINT8, .op = -1, .size = 1, .send_counts = some, .recv_counts = some};
    cuda_enter(gpu->base.device);
    uint32_t number = team_next_seq(gpu->base.team);
    if (gpu->observer)
        gpu->observer->called(gpu, &as, number);
    tutti_result_t result = order_begin(&gpu->base, stream, true);
    if (result == TUTTI_SUCCESS) {
        step_begin(gpu);
        result = order_end(&gpu->base, stream, gpu_dynamic_carry_out(gpu, call, &as, stream));
    }
    if (gpu->observer)
        gpu->observer->returned(gpu, result);
    cuda_leave();
    return result;
}
