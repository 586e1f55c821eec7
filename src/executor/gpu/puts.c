/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on windows, all of which lie in the caller's stream: copies by copy engine, and words of the mailbox for
 * signals; where graphs have some, kernels (puts_kernel.c). A put needs nothing of its peer but that the peer's memory
 * is still there. So a rank says that it puts, and then looks whether the peer takes part; settle.c has the other side.
 */
#include "executor/gpu/puts.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/puts.h"
#include "executor/gpu/crossed.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/observer.h"
#include "executor/gpu/puts_kernel.h"
#include "executor/gpu/side.h"
#include "executor/gpu/signals.h"
#include "executor/gpu/step.h"
#include "executor/gpu/windows.h"
#include "executor/stream/order.h"
#include "executor/stream/window.h"

/* A call, between what it says to peers and what its stream does. */
struct gpu_puts_call {
    uint32_t announced;            /* bits of ranks to which it puts, or from which it gets */
    uint32_t before[KERNEL_RANKS]; /* what was said to them */
    struct side_words words;
};

/* ---- Is it possible? ---- */

static tutti_result_t puts_needs(struct gpu *gpu, int peer)
{
    if (peer != gpu->rank && atomic_load(&gpu->ranks[peer].shut))
        return depart_refuse(gpu, (struct departure){peer, MAILBOX_CLOSED});
    return gpu_needs(gpu, 1u << peer);
}

/* A wait needs a rank that is gone only if that one has not called for the signals. */
static tutti_result_t needs_peer(struct gpu *gpu, const struct window_item *item)
{
    if (item->call != WINDOW_WAIT)
        return puts_needs(gpu, item->peer);
    if (atomic_load(&gpu->windows.by_kernel))
        return TUTTI_SUCCESS; /* the kernel finds out */
    return signals_would_come(gpu, item->peer, item->signal, (uint32_t)item->length) ? TUTTI_SUCCESS
                                                                                     : gpu_needs(gpu, 1u << item->peer);
}

/* ---- Saying that it puts ---- */

static tutti_result_t puts_announce(struct gpu *gpu, struct gpu_puts_call *call, int peer)
{
    struct mailbox_pair *pair = &gpu->messages.pair[gpu->rank][peer];
    if (peer == gpu->rank || (call->announced >> peer & 1))
        return TUTTI_SUCCESS;
    call->before[peer] = atomic_load_explicit(&pair->putting, memory_order_relaxed);
    atomic_store(&pair->putting, call->before[peer] + 1);
    call->announced |= 1u << peer;
    bool failed = atomic_load(&gpu->base.team->failed) || atomic_load(&gpu->failure->state);
    return failed ? gpu_hear_failure(gpu) : puts_needs(gpu, peer);
}

static void take_back(struct gpu *gpu, const struct gpu_puts_call *call)
{
    for (int peer = 0; peer < gpu->nranks; peer++)
        if (call->announced >> peer & 1)
            atomic_store(&gpu->messages.pair[gpu->rank][peer].putting, call->before[peer]);
}

/* Also of a call that failed half way: peers wait for what it has said. */
static tutti_result_t say_put(struct gpu *gpu, struct gpu_puts_call *call, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 0; peer < gpu->nranks && result == TUTTI_SUCCESS; peer++)
        if (call->announced >> peer & 1)
            result = side_add_write(gpu, &call->words, stream, &gpu->messages.pair[gpu->rank][peer].put,
                                    call->before[peer] + 1);
    return result;
}

/* ---- What the stream does ---- */

static tutti_result_t puts_move(struct gpu *gpu, const struct window_item *item, CUstream stream)
{
    const struct reach *reach = &gpu_window_of(item->window)->reach;
    const struct cuda_driver *cu = gpu->base.cu;
    CUdeviceptr mine = device_address(item->local), theirs = reach->at[item->peer] + item->offset;
    CUcontext here = gpu->base.device->context, there = reach->context[item->peer];
    bool puts = item->call == WINDOW_PUT;
    CUresult got = !there ? cu->MemcpyAsync(puts ? theirs : mine, puts ? mine : theirs, item->length, stream)
                   : puts ? cu->MemcpyPeerAsync(theirs, there, mine, here, item->length, stream)
                          : cu->MemcpyPeerAsync(mine, here, theirs, there, item->length, stream);
    return cuda_check(got, puts ? "putting into a window" : "getting from a window");
}

static tutti_result_t puts_raise(struct gpu *gpu, struct gpu_puts_call *call, const struct window_item *item,
                                 CUstream stream)
{
    struct mailbox_pair *pair = &gpu->messages.pair[gpu->rank][item->peer];
    uint32_t value = atomic_fetch_add(&pair->signalled[item->signal], 1) + 1;
    gpu->step.signalled[item->peer]++;
    return side_add_write(gpu, &call->words, stream, &pair->raised[item->signal], value);
}

/* Words wait for more of them, but none for a copy behind it. A flush needs nothing: what this rank has put is over
 * before, in the order of streams. */
static tutti_result_t puts_ask(struct gpu *gpu, struct gpu_puts_call *call, const struct window_item *item,
                               CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (puts_moves(item)) {
        result = side_issue(gpu, &call->words, stream);
        if (result == TUTTI_SUCCESS)
            result = puts_move(gpu, item, stream);
    }
    bool signals = (item->call == WINDOW_PUT || item->call == WINDOW_SIGNAL) && item->signal != WIRE_NO_SIGNAL;
    return result == TUTTI_SUCCESS && signals ? puts_raise(gpu, call, item, stream) : result;
}

static tutti_result_t puts_await(struct gpu *gpu, struct gpu_puts_call *call, const struct window_item *item,
                                 CUstream stream)
{
    if (!item->length)
        return TUTTI_SUCCESS;
    uint32_t value = signals_take(gpu, item->peer, item->signal, (uint32_t)item->length);
    crossed_expect(gpu);
    step_waits(gpu, item->peer);
    return side_add_wait(gpu, &call->words, stream, &gpu->messages.pair[item->peer][gpu->rank].raised[item->signal],
                         value);
}

/* Between order_begin() and order_end(). What is asked of peers comes first; then come the waits. */
static tutti_result_t puts_carry_out(struct gpu *gpu, const struct window_item *items, int count, CUstream stream)
{
    struct gpu_puts_call call = {.announced = 0};
    tutti_result_t result = TUTTI_SUCCESS;
    signals_begin(gpu);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = needs_peer(gpu, &items[i]);
    if (result == TUTTI_SUCCESS && atomic_load(&gpu->windows.by_kernel))
        return puts_kernel_issue(gpu, items, count, stream);
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = puts_moves(&items[i]) ? puts_announce(gpu, &call, items[i].peer) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS) {
        take_back(gpu, &call);
        return result;
    }
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        if (items[i].call != WINDOW_WAIT)
            result = puts_ask(gpu, &call, &items[i], stream);
    tutti_result_t said = say_put(gpu, &call, stream);
    for (int i = 0; i < count && result == TUTTI_SUCCESS && said == TUTTI_SUCCESS; i++)
        if (items[i].call == WINDOW_WAIT)
            result = puts_await(gpu, &call, &items[i], stream);
    if (said == TUTTI_SUCCESS)
        said = side_issue(gpu, &call.words, stream);
    return result == TUTTI_SUCCESS ? said : result;
}

static tutti_result_t puts_issue_in_order(struct gpu *gpu, const struct window_item *items, int count, CUstream stream)
{
    uint32_t number = ++gpu->base.team->p2p_seq;
    if (gpu->observer)
        gpu->observer->windows(gpu, items, count, number);
    tutti_result_t result = order_begin(&gpu->base, stream, false);
    if (result == TUTTI_SUCCESS) {
        step_begin(gpu);
        result = order_end(&gpu->base, stream, puts_carry_out(gpu, items, count, stream));
    }
    if (gpu->observer)
        gpu->observer->returned(gpu, result);
    return result;
}

/* How the call goes: by kernel if the stream is captured, and then for ever. */
static tutti_result_t choose_way(struct gpu *gpu, const struct window_item *items, int count, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(gpu->base.cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    bool captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (result == TUTTI_SUCCESS && (captured || atomic_load(&gpu->windows.by_kernel)))
        result = puts_kernel_check(gpu, items, count);
    if (result == TUTTI_SUCCESS && captured)
        puts_kernel_begin(gpu);
    return result;
}

tutti_result_t gpu_puts(struct gpu *gpu, const struct window_item *items, int count, CUstream stream)
{
    cuda_enter(gpu->base.device);
    tutti_result_t result = window_refuse_long_waits(gpu->base.team, items, count);
    if (result == TUTTI_SUCCESS)
        result = choose_way(gpu, items, count, stream);
    if (result == TUTTI_SUCCESS)
        result = puts_issue_in_order(gpu, items, count, stream);
    cuda_leave();
    return result;
}
