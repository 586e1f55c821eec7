/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of functions by which communicators call: GPUs that reach one
 * another, and GPUs whose data are staged through the host. Both are of one
 * kind, by which communicators make them.
 */
#include "base/param.h"
#include "device/cuda/device.h"
#include "engine/p2p.h"
#include "executor/gpu/collective.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/ledger.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/open.h"
#include "executor/gpu/order.h"
#include "executor/gpu/settle.h"
#include "executor/gpu/symmetric.h"
#include "executor/gpu/wait.h"
#include "executor/staged/staged.h"

#include <stdlib.h>

static struct gpu *gpu_of(struct executor *executor)
{
    return (struct gpu *)((char *)executor - offsetof(struct gpu, executor));
}

static tutti_result_t gpu_executor_prepare(struct executor *executor, const struct call *call)
{
    return gpu_prepare(gpu_of(executor), call);
}

static tutti_result_t gpu_executor_issue(struct executor *executor, const struct call *call, void *owned,
                                         tutti_stream_t stream)
{
    tutti_result_t result = gpu_collective(gpu_of(executor), call, (CUstream)stream);
    free(owned); /* counts and offsets: a launch has its own copy */
    return result;
}

static tutti_result_t gpu_executor_messages(struct executor *executor, const struct p2p_item *items, int count,
                                            tutti_stream_t stream)
{
    return gpu_p2p(gpu_of(executor), items, count, (CUstream)stream);
}

static tutti_result_t register_symmetric(struct executor *executor, void *buffer, size_t size, void **out)
{
    struct symmetric *symmetric;
    tutti_result_t result = symmetric_open(gpu_of(executor), buffer, size, &symmetric);
    *out = symmetric;
    return result;
}

static void unregister(struct executor *executor, void *registered)
{
    if (registered)
        symmetric_close(gpu_of(executor), registered);
}

static tutti_result_t follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    return gpu_follow(gpu_of(executor), (CUstream)stream, (CUstream)before);
}

static bool any_thread(struct executor *executor, tutti_stream_t stream)
{
    return gpu_any_thread(gpu_of(executor), (CUstream)stream);
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

static tutti_result_t settle(struct executor *executor)
{
    return gpu_settle(gpu_of(executor));
}

static void gpu_executor_hear(struct executor *executor)
{
    gpu_hear_failure(gpu_of(executor));
}

static void memory(struct executor *executor, size_t *device_bytes, size_t *host_bytes)
{
    gpu_memory(gpu_of(executor), device_bytes, host_bytes);
}

static void close_gpu(struct executor *executor)
{
    gpu_close(gpu_of(executor));
}

static const struct executor_ops gpu_ops = {.name = "gpu",
                                            .prepare = gpu_executor_prepare,
                                            .issue = gpu_executor_issue,
                                            .messages = gpu_executor_messages,
                                            .register_symmetric = register_symmetric,
                                            .unregister = unregister,
                                            .follow = follow,
                                            .any_thread = any_thread,
                                            .wait = wait,
                                            .give_up = gpu_executor_give_up,
                                            .wait_given_up = wait_given_up,
                                            .settle = settle,
                                            .hear = gpu_executor_hear,
                                            .memory = memory,
                                            .close = close_gpu};

/* Asked where the team has failed: else peers hear that this rank calls no more. */
static bool staged_goes_on(struct executor *executor)
{
    return gpu_refuses(gpu_of(executor), true) == TUTTI_SUCCESS;
}

static void staged_no_more(struct executor *executor)
{
    staged_end_calls(gpu_of(executor)->staged);
}

/* The team fails next; its channels' teams would go on with what has begun. */
static bool staged_give_up(struct executor *executor)
{
    staged_stop(gpu_of(executor)->staged);
    return false;
}

/* Nothing is prepared, and each call is issued by its own thread. */
static const struct executor_ops staged_ops = {.name = "staged",
                                               .issue = gpu_executor_issue,
                                               .messages = gpu_executor_messages,
                                               .follow = follow,
                                               .wait = wait,
                                               .give_up = staged_give_up,
                                               .hear = gpu_executor_hear,
                                               .goes_on = staged_goes_on,
                                               .end_calls = staged_no_more,
                                               .memory = memory,
                                               .close = close_gpu};

static tutti_result_t open_executor(struct team *team, const struct executor_config *config, int mailbox,
                                    struct executor **out)
{
    struct gpu *gpu;
    tutti_result_t result = gpu_open(team, config, mailbox, &gpu);
    if (result != TUTTI_SUCCESS)
        return result;
    executor_init(&gpu->executor, gpu->staged ? &staged_ops : &gpu_ops, gpu->device->ordinal);
    gpu->executor.on_streams = true;
    gpu->executor.uses_team = gpu->staged != NULL;
    *out = &gpu->executor;
    return TUTTI_SUCCESS;
}

static struct executor_config defaults(void)
{
    int policy = (int)param_int(PARAM_CTA_POLICY) % 3; /* by word or by number */
    return (struct executor_config){.device = TUTTI_HOST, .blocks = (int)param_int(PARAM_BLOCKS), .policy = policy};
}

const struct executor_kind executor_gpu = {.name = "gpu",
                                           .most_ranks = KERNEL_RANKS,
                                           .most_blocks = KERNEL_STRIPES,
                                           .defaults = defaults,
                                           .current_device = cuda_device_current,
                                           .create_shared = mailbox_create,
                                           .open = open_executor,
                                           .memory_alloc = gpu_memory_alloc,
                                           .memory_free = gpu_memory_free};
