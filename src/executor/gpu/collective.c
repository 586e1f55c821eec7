/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives but reductions: long broadcasts are passed on, all others are exchanges. */
#include "executor/gpu/collective.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/type.h"
#include "engine/failure.h"
#include "engine/op.h"
#include "engine/p2p.h"
#include "executor/gpu/copy.h"
#include "executor/gpu/exchange.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/observer.h"
#include "executor/gpu/prepare.h"
#include "executor/gpu/reduce.h"
#include "executor/gpu/scratch.h"
#include "executor/gpu/step.h"
#include "executor/stream/order.h"
#include "plan/steps.h"

#include <stdlib.h>
#include <string.h>

#define FEW 16 /* sends and receives that need no memory of their own */

/* ---- Long broadcasts ---- */

/* A broadcast in pieces: every GPU passes a piece on while the next comes in, so that the root's link carries the
 * vector once, not n - 1 times. */
static tutti_result_t chain_of_copies(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                      const struct flow *flow, CUstream stream)
{
    int before = flow->source[0], after = flow->next[0] ? __builtin_ctz(flow->next[0]) : -1;
    tutti_result_t result = gpu_needs(gpu, flow->next[0]);
    if (result != TUTTI_SUCCESS)
        return result;
    result =
        copy_chain(gpu, before < 0 ? call->in : call->out, call->out, plan->bytes, plan->chunk, before, after, stream);
    if (result == TUTTI_SUCCESS && before < 0 && call->in != call->out)
        result = gpu_copy(gpu, stream, device_address(call->out), device_address(call->in), plan->bytes);
    return result;
}

/* Only ranks that this one sends to need have come: the others may be done with this call and gone. */
static tutti_result_t chain_kernel(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                   const struct flow *flow, CUstream stream)
{
    struct kernel_chain what = {
        .team = gpu->kernels, .in = call->in, .out = call->out, .bytes = plan->bytes, .chunk = plan->chunk};
    steps_chain(flow, &what);
    uint32_t to = kernel_chain_receivers(&what, plan->launch.blocks);
    tutti_result_t result = gpu_needs(gpu, to);
    if (result == TUTTI_SUCCESS)
        result = scratch_take_bulk(gpu, 1u << gpu->rank | to);
    return result == TUTTI_SUCCESS ? launch_kernel(gpu, &plan->launch, TUTTI_UINT8, &what.team, stream) : result;
}

/* A broadcast from rank to rank in lines. */
static tutti_result_t broadcast_ring(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                     const struct flow *flow, CUstream stream)
{
    struct kernel_reduce what = {
        .team = gpu->kernels, .in = call->in, .out = call->out, .count = plan->bytes, .mode = KERNEL_BROADCAST};
    steps_ring(flow, gpu->rank, &what);
    uint32_t to = what.next < 0 ? 0 : 1u << what.next;
    tutti_result_t result = gpu_needs(gpu, to);
    if (result == TUTTI_SUCCESS)
        result = scratch_take_bulk(gpu, 1u << gpu->rank | to);
    return result == TUTTI_SUCCESS ? launch_kernel(gpu, &plan->launch, TUTTI_FLOAT32, &what.team, stream) : result;
}

/* ---- Exchanges ---- */

static void send_to(struct kernel_exchange *what, int peer, const void *from, uint64_t bytes)
{
    what->send[peer] = from;
    what->send_bytes[peer] = bytes;
}

static void recv_from(struct kernel_exchange *what, int peer, const void *to, uint64_t bytes)
{
    what->recv[peer] = (void *)(uintptr_t)to;
    what->recv_bytes[peer] = bytes;
}

/* A message's memory. Where a schedule's message is empty (of a barrier) words go behind this rank's own window, which
 * nobody reads. */
struct collective_piece {
    const char *at;
    uint64_t bytes;
};

static struct collective_piece piece_of(const struct gpu *gpu, const struct call *call, const struct flow_place *place,
                                        int peer, bool sends)
{
    size_t block = (size_t)place->block;
    if (!place->nblocks) {
        const unsigned char *words = gpu->kernels.window[gpu->rank] + kernel_window_bytes(gpu->nranks);
        return (struct collective_piece){(const char *)words + (sends ? 0 : 64 * (peer + 1)), 4};
    }
    if (call->coll != COLL_ALLTOALLV)
        return (struct collective_piece){(const char *)(place->buffer == BUFFER_IN ? call->in : call->out) +
                                             block * call->bytes,
                                         (uint64_t)place->nblocks * call->bytes};
    struct call_part part = call_part(call, place->block, sends);
    return (struct collective_piece){part.at, part.count * call->size};
}

static void gpu_collective_describe(const struct gpu *gpu, const struct call *call, const struct flow *flow,
                                    struct kernel_exchange *what)
{
    memset(what, 0, sizeof *what);
    for (int peer = 0; peer < gpu->nranks; peer++) {
        const struct flow_peer *with = &flow->peer[peer];
        struct collective_piece out = piece_of(gpu, call, &with->send, peer, true),
                                in = piece_of(gpu, call, &with->recv, peer, false);
        if (with->send.used)
            send_to(what, peer, out.at, out.bytes);
        if (with->recv.used)
            recv_from(what, peer, in.at, in.bytes);
    }
}

static tutti_result_t exchange(struct gpu *gpu, const struct call *call, const struct flow *flow, CUstream stream)
{
    struct kernel_exchange what;
    bool all = call->coll == COLL_ALLGATHER || call->coll == COLL_ALLTOALL;
    gpu_collective_describe(gpu, call, flow, &what);
    if (call->count && call->coll != COLL_ALLTOALLV) /* of that only the two ranks of a message know how long it is */
        what.turn = launch_turn(gpu, exchange_stripes(gpu, call->bytes));
    return exchange_issue(gpu, &what, all ? EXCHANGE_ALL : EXCHANGE_COLLECTIVE, stream, gpu->base.tickets.capturing);
}

/* Short exchanges are one vector of several in a launch, like small reductions; so are allgathers of a group in lines.
 */
static tutti_result_t gather(struct gpu *gpu, const struct call *call, const struct plan *plan, const struct flow *flow,
                             CUstream stream)
{
    struct kernel_list list;
    *launch_alone(&list) = (struct kernel_reduce){.in = call->in,
                                                  .out = call->out,
                                                  .count = call->bytes,
                                                  .mode = (int32_t)plan->mode,
                                                  .stripes = plan->launch.stripes};
    tutti_result_t result = gpu_needs(gpu, flow->to);
    bool listed = plan->launch.kernel == KERNEL_REDUCE_LISTED;
    if (result == TUTTI_SUCCESS && listed) {
        list.reduce.team.rank = gpu->rank;
        steps_gather(gpu->nranks, &list.reduce);
        result = scratch_take_bulk(gpu, (1u << gpu->nranks) - 1);
    }
    tutti_type_t type = listed ? TUTTI_FLOAT32 : TUTTI_UINT8; /* which the kernel is of */
    return result == TUTTI_SUCCESS ? launch_vector(gpu, &plan->launch, type, &list, stream) : result;
}

/* ---- Any ---- */

/* What this rank does in the schedule. NULL: there is none, with a sentence. */
static const struct way_flow *flow_of(struct gpu *gpu, enum way way, const struct call *call)
{
    const struct way_flow *found = way_find(&gpu->flows, way, call->coll, call->root, gpu->rank, gpu->nranks);
    if (!found)
        error_set(TUTTI_INTERNAL_ERROR, "%s has no schedule %s for %d ranks", schedule_coll_name(call->coll),
                  way_name(way)->text, gpu->nranks);
    return found;
}

static tutti_result_t by_way(struct gpu *gpu, const struct call *call, const struct plan *plan, const struct flow *flow,
                             const struct prepared *prepared, CUstream stream)
{
    switch (plan->way) {
    case WAY_EXCHANGE:
        return plan->launch.kernel != KERNEL_EXCHANGE ? gather(gpu, call, plan, flow, stream)
                                                      : exchange(gpu, call, flow, stream);
    case WAY_COPY_CHAIN:
        return chain_of_copies(gpu, call, plan, flow, stream);
    case WAY_CHAIN:
    case WAY_FAN:
        return chain_kernel(gpu, call, plan, flow, stream);
    default:
        if (call->coll == COLL_BROADCAST)
            return broadcast_ring(gpu, call, plan, flow, stream);
        return reduce_issue(gpu, call, plan, flow, prepared, stream);
    }
}

/* Between order_begin() and order_end(). */
static tutti_result_t carry_out(struct gpu *gpu, const struct call *call, const struct prepared *prepared,
                                CUstream stream)
{
    const struct plan *plan = &prepared->plan[gpu->base.tickets.capturing];
    const struct way_flow *found = flow_of(gpu, plan->way, call);
    if (!found)
        return TUTTI_INTERNAL_ERROR;
    step_collective(gpu, call, found->needs);
    if (gpu->observer)
        gpu->observer->goes(gpu, plan->way, &found->flow);
    return by_way(gpu, call, plan, &found->flow, prepared, stream);
}

tutti_result_t gpu_collective(struct gpu *gpu, const struct call *call, const struct prepared *prepared,
                              CUstream stream)
{
    if (prepare_is_empty(call))
        return gpu_failure(gpu);
    cuda_enter(gpu->base.device);
    uint32_t number = team_next_seq(gpu->base.team);
    if (gpu->observer)
        gpu->observer->called(gpu, call, number);
    tutti_result_t result = order_begin(&gpu->base, stream, call->coll != COLL_ALLTOALLV);
    if (result == TUTTI_SUCCESS) {
        step_begin(gpu);
        result = order_end(&gpu->base, stream, carry_out(gpu, call, prepared, stream));
    }
    if (gpu->observer)
        gpu->observer->returned(gpu, result);
    cuda_leave();
    return result;
}

/* ---- Several collectives ---- */

/* May the call be one of several in a launch, whether it is captured or not? */
static bool is_small(const struct gpu *gpu, const struct call *call, const struct prepared *prepared)
{
    if (!call->count || call->coll == COLL_ALLTOALLV)
        return false;
    for (int capturing = 0; capturing < 2; capturing++) {
        const struct kernel_launch *how = &prepared->plan[capturing].launch;
        if (how->kernel == KERNEL_REDUCE_LISTED)
            continue;
        if (!launch_may_join(gpu, how->stripes > how->blocks ? how->stripes : how->blocks))
            return false;
        switch (prepared->plan[capturing].way) {
        case WAY_ONE_SHOT:
        case WAY_TWO_SHOT:
            break;
        case WAY_EXCHANGE:
            if (how->kernel != KERNEL_GATHER && !exchange_by_slots(gpu, call->bytes))
                return false;
            break;
        default:
            return false;
        }
    }
    return true;
}

/* Launches of small calls are held back; so all that is issued between order_begin() and order_end() has the ticket of
 * one. */
static tutti_result_t issue_small(struct gpu *gpu, const struct executor_call *one, CUstream stream)
{
    uint32_t number = team_next_seq(gpu->base.team);
    if (gpu->observer)
        gpu->observer->called(gpu, one->call, number);
    tutti_result_t result = carry_out(gpu, one->call, prepared_of(one->note), stream);
    if (result == TUTTI_SUCCESS && !gpu->base.tickets.capturing)
        atomic_store(&gpu->base.tickets.ticket, gpu->base.tickets.told);
    if (gpu->observer)
        gpu->observer->returned(gpu, result);
    return result;
}

static tutti_result_t collective_small(struct gpu *gpu, const struct executor_call *calls, int count, CUstream stream)
{
    cuda_enter(gpu->base.device);
    tutti_result_t result = order_begin(&gpu->base, stream, true);
    if (result == TUTTI_SUCCESS) {
        step_begin(gpu);
        launch_hold(gpu);
        for (int i = 0; result == TUTTI_SUCCESS && i < count; i++)
            result = issue_small(gpu, &calls[i], stream);
        result = order_end(&gpu->base, stream, launch_release(gpu, result));
    }
    cuda_leave();
    return result;
}

tutti_result_t gpu_collectives(struct gpu *gpu, const struct executor_call *calls, int count, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (calls[0].first)
        launch_begins_group(gpu);
    for (int i = 0; result == TUTTI_SUCCESS && i < count;) {
        int end = i;
        while (end < count && is_small(gpu, calls[end].call, prepared_of(calls[end].note)))
            end++;
        result = end > i + 1 ? collective_small(gpu, calls + i, end - i, stream)
                             : gpu_collective(gpu, calls[i].call, prepared_of(calls[i].note), stream);
        i = end > i ? end : i + 1;
    }
    return result;
}

/* ---- Sends and receives ---- */

/* Takes the next send to and receive from each peer out of the list. False: none was left. */
static bool next_round(const struct p2p_item *items, int count, bool *issued, struct kernel_exchange *what)
{
    bool any = false;
    memset(what, 0, sizeof *what);
    for (int i = 0; i < count; i++) {
        const struct p2p_item *item = &items[i];
        uint64_t bytes = item->count * type_size(item->type);
        bool taken = item->sends ? what->send[item->peer] != NULL : what->recv[item->peer] != NULL;
        if (issued[i] || taken)
            continue;
        issued[i] = any = true;
        if (!bytes)
            continue;
        if (item->sends)
            send_to(what, item->peer, item->data, bytes);
        else
            recv_from(what, item->peer, item->data, bytes);
    }
    return any;
}

tutti_result_t gpu_p2p(struct gpu *gpu, const struct p2p_item *items, int count, CUstream stream)
{
    struct kernel_exchange what;
    bool few[FEW] = {false}, *issued = count <= FEW ? few : calloc((size_t)count, sizeof *issued);
    if (!issued)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", count);
    cuda_enter(gpu->base.device);
    uint32_t number = ++gpu->base.team->p2p_seq;
    if (gpu->observer)
        gpu->observer->messages(gpu, items, count, number);
    tutti_result_t result = order_begin(&gpu->base, stream, false);
    if (result == TUTTI_SUCCESS) {
        step_begin(gpu);
        step_p2p(gpu, items, count);
        launch_hold(gpu);
        while (result == TUTTI_SUCCESS && next_round(items, count, issued, &what))
            result = exchange_issue(gpu, &what, EXCHANGE_GROUP, stream, gpu->base.tickets.capturing);
        result = launch_release(gpu, result);
        result = order_end(&gpu->base, stream, result);
    }
    if (gpu->observer)
        gpu->observer->returned(gpu, result);
    cuda_leave();
    if (issued != few)
        free(issued);
    return result;
}
