/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions by which communicators call GPUs that reach one another. */
#include "executor/gpu/executor.h"

#include "base/log.h"
#include "device/cuda/device.h"
#include "engine/p2p.h"
#include "executor/gpu/collective.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/dynamic.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/open.h"
#include "executor/gpu/prepare.h"
#include "executor/gpu/puts.h"
#include "executor/gpu/settle.h"
#include "executor/gpu/symmetric.h"
#include "executor/gpu/wait.h"
#include "executor/gpu/windows.h"
#include "executor/stream/ledger.h"
#include "executor/stream/order.h"

#include <stdlib.h>

static struct gpu *gpu_of(struct executor *executor)
{
    return (struct gpu *)((char *)stream_base_of(executor) - offsetof(struct gpu, base));
}

static tutti_result_t gpu_executor_prepare(struct executor *executor, const struct call *call,
                                           struct executor_note *note)
{
    return prepare_call(gpu_of(executor), call, (struct prepared *)note);
}

static tutti_result_t gpu_executor_issue(struct executor *executor, const struct call *call, void *owned,
                                         tutti_stream_t stream, const struct executor_note *note)
{
    launch_begins_group(gpu_of(executor));
    tutti_result_t result = gpu_collective(gpu_of(executor), call, prepared_of(note), (CUstream)stream);
    free(owned); /* counts and offsets: a launch has its own copy */
    return result;
}

static tutti_result_t gpu_executor_issue_many(struct executor *executor, const struct executor_call *calls, int count,
                                              tutti_stream_t stream)
{
    tutti_result_t result = gpu_collectives(gpu_of(executor), calls, count, (CUstream)stream);
    for (int i = 0; i < count; i++)
        free(calls[i].owned);
    return result;
}

static tutti_result_t gpu_executor_messages(struct executor *executor, const struct p2p_item *items, int count,
                                            tutti_stream_t stream)
{
    return gpu_p2p(gpu_of(executor), items, count, (CUstream)stream);
}

static tutti_result_t gpu_executor_dynamic(struct executor *executor, const struct dynamic_call *call,
                                           tutti_stream_t stream)
{
    return gpu_dynamic(gpu_of(executor), call, (CUstream)stream);
}

static tutti_result_t register_symmetric(struct executor *executor, void *buffer, size_t size, void **out)
{
    struct symmetric *symmetric;
    tutti_result_t result = symmetric_open(gpu_of(executor), buffer, size, &symmetric);
    *out = symmetric;
    return result;
}

static tutti_window_t gpu_executor_symmetric_window(struct executor *executor, void *registered)
{
    (void)executor;
    return registered ? symmetric_window(registered) : NULL;
}

static void unregister(struct executor *executor, void *registered)
{
    if (registered)
        symmetric_close(gpu_of(executor), registered);
}

static tutti_result_t gpu_executor_window_open(struct executor *executor, void *buffer, size_t size,
                                               tutti_window_t *out)
{
    return gpu_window_open(gpu_of(executor), buffer, size, out);
}

static tutti_result_t gpu_executor_window_close(struct executor *executor, tutti_window_t window)
{
    return gpu_window_close(gpu_of(executor), window);
}

static tutti_result_t gpu_executor_window_calls(struct executor *executor, const struct window_item *items, int count,
                                                tutti_stream_t stream)
{
    return gpu_puts(gpu_of(executor), items, count, (CUstream)stream);
}

static tutti_result_t gpu_executor_window_address(struct executor *executor, tutti_window_t window, int rank,
                                                  void **address, size_t *size)
{
    return gpu_window_address(gpu_of(executor), window, rank, address, size);
}

static bool gpu_executor_window_is_open(const struct executor *executor, tutti_window_t window)
{
    return gpu_window_is_open(gpu_of((struct executor *)(uintptr_t)executor), window);
}

static tutti_result_t follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    return order_follow(stream_base_of(executor), (CUstream)stream, (CUstream)before);
}

/* Not for calls that are captured, nor on the caller's own stream. */
static bool any_thread(struct executor *executor, tutti_stream_t stream)
{
    const struct stream_base *base = stream_base_of(executor);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream == (tutti_stream_t)CU_STREAM_PER_THREAD)
        return false;
    return !stream || (base->cu->StreamIsCapturing((CUstream)stream, &status) == CUDA_SUCCESS &&
                       status == CU_STREAM_CAPTURE_STATUS_NONE);
}

static tutti_result_t wait(struct executor *executor)
{
    return gpu_synchronize(gpu_of(executor));
}

static bool gpu_executor_give_up(struct executor *executor)
{
    return gpu_leave(gpu_of(executor));
}

static void wait_given_up(struct executor *executor)
{
    gpu_wait_left(gpu_of(executor));
}

static tutti_result_t settle(struct executor *executor, bool ends)
{
    return gpu_settle(gpu_of(executor), ends);
}

static void gpu_executor_hear(struct executor *executor)
{
    gpu_hear_failure(gpu_of(executor));
}

static const char *gpu_executor_keeps(const struct executor *executor)
{
    struct gpu *gpu = gpu_of((struct executor *)(uintptr_t)executor);
    pthread_mutex_lock(&gpu->windows.lock);
    bool windows = !list_empty(&gpu->windows.all);
    pthread_mutex_unlock(&gpu->windows.lock);
    bool graphs = atomic_load(&gpu->base.tickets.captured);
    return windows                                  ? "windows"
           : atomic_load(&gpu->symmetric.count) > 0 ? "symmetric memory"
           : graphs                                 ? "calls in CUDA graphs"
                                                    : NULL;
}

static void memory(struct executor *executor, size_t *device_bytes, size_t *host_bytes)
{
    ledger_sums(stream_base_of(executor), device_bytes, host_bytes);
}

static void close_gpu(struct executor *executor)
{
    gpu_close(gpu_of(executor));
}

static const struct executor_ops gpu_ops = {.name = "gpu",
                                            .prepare = gpu_executor_prepare,
                                            .issue = gpu_executor_issue,
                                            .issue_many = gpu_executor_issue_many,
                                            .messages = gpu_executor_messages,
                                            .dynamic = gpu_executor_dynamic,
                                            .register_symmetric = register_symmetric,
                                            .symmetric_window = gpu_executor_symmetric_window,
                                            .unregister = unregister,
                                            .window_open = gpu_executor_window_open,
                                            .window_close = gpu_executor_window_close,
                                            .window_calls = gpu_executor_window_calls,
                                            .window_address = gpu_executor_window_address,
                                            .window_is_open = gpu_executor_window_is_open,
                                            .follow = follow,
                                            .any_thread = any_thread,
                                            .wait = wait,
                                            .give_up = gpu_executor_give_up,
                                            .wait_given_up = wait_given_up,
                                            .settle = settle,
                                            .hear = gpu_executor_hear,
                                            .keeps = gpu_executor_keeps,
                                            .memory = memory,
                                            .close = close_gpu};

static tutti_result_t open_executor(const struct executor_members *members, const struct executor_config *config,
                                    int mailbox, struct executor **out)
{
    struct gpu *gpu;
    tutti_result_t result = gpu_open(members->team, config, mailbox, &gpu);
    if (result != TUTTI_SUCCESS)
        return result;
    executor_init(&gpu->base.executor, &gpu_ops, gpu->base.device->ordinal);
    gpu->base.executor.on_streams = true;
    *out = &gpu->base.executor;
    return TUTTI_SUCCESS;
}

static bool gpu_executor_takes(const struct team *team, bool shared)
{
    bool few = team->nranks <= KERNEL_RANKS;
    if (shared && !few)
        log_info("rank %d: kernels carry what up to %d GPUs of a host exchange; what %d do is staged through the host",
                 team->rank, KERNEL_RANKS, team->nranks);
    return shared && few;
}

const struct executor_kind executor_gpu = {
    .name = "gpu", .takes = gpu_executor_takes, .create_shared = mailbox_create, .open = open_executor};
