/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of GPUs on several hosts: its calls, its beginning and its end. */
#include "executor/islands/executor.h"

#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "device/cuda/device.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/memory.h"
#include "engine/part.h"
#include "engine/team_open.h"
#include "executor/gpu/executor.h"
#include "executor/gpu/mailbox.h"
#include "executor/islands/islands.h"
#include "executor/islands/messages.h"
#include "executor/islands/steps.h"
#include "executor/islands/windows.h"
#include "executor/staged/executor.h"
#include "executor/stream/base.h"
#include "executor/stream/later.h"
#include "executor/stream/ledger.h"
#include "executor/stream/order.h"
#include "executor/stream/window.h"

#include <stdlib.h>

static struct islands *islands_of(struct executor *executor)
{
    return (struct islands *)((char *)executor - offsetof(struct islands, executor));
}

static struct cuda_device *device_of(const struct islands *islands)
{
    return stream_base_of(islands->net)->device;
}

static tutti_result_t first_failure(tutti_result_t first, tutti_result_t second)
{
    return first == TUTTI_SUCCESS ? second : first;
}

/* ---- Calls ---- */

/* Where one part fails the other may have been issued, and peers wait for it. */
static tutti_result_t whole_or_failed(const struct islands *islands, tutti_result_t result)
{
    return result == TUTTI_SUCCESS ? result : order_fail(stream_base_of(islands->net), result);
}

/* What comes on a stream is behind all of the calls before it, also where their last step is the other executor's. */
static tutti_result_t come_behind_both(struct islands *islands, CUstream stream)
{
    tutti_result_t result = order_behind(stream_base_of(islands->island), stream);
    return result == TUTTI_SUCCESS ? order_behind(stream_base_of(islands->net), stream) : result;
}

static tutti_result_t is_captured(const struct islands *islands, CUstream stream, bool *captured)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(islands->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    *captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return result;
}

/* Of a call that goes in steps. */
struct going {
    struct islands *islands;
    const struct call *call;
    tutti_stream_t stream;
};

static tutti_result_t prepare_step(void *context, enum islands_part part, const struct call *call, size_t longest)
{
    (void)longest;
    struct executor *island = ((struct going *)context)->islands->island;
    struct executor_note note;
    return part == ISLANDS_ISLAND ? island->ops.prepare(island, call, &note) : TUTTI_SUCCESS;
}

static tutti_result_t issue_on_island(struct executor *island, const struct call *call, tutti_stream_t stream)
{
    struct executor_note note;
    tutti_result_t result = island->ops.prepare(island, call, &note);
    return result == TUTTI_SUCCESS ? island->ops.issue(island, call, NULL, stream, &note) : result;
}

static tutti_result_t issue_step(void *context, enum islands_part part, const struct call *call, size_t longest)
{
    const struct going *going = context;
    struct islands *islands = going->islands;
    if (part == ISLANDS_ISLAND)
        return issue_on_island(islands->island, call, going->stream);
    if (part == ISLANDS_RAIL)
        return staged_on_rail(islands->net, call, longest, going->call, going->stream);
    return cuda_check(islands->cu->MemcpyDtoDAsync(device_address(call->out), device_address(call->in), call->bytes,
                                                   (CUstream)going->stream),
                      "copying blocks");
}

static tutti_result_t islands_prepare(struct executor *executor, const struct call *call, struct executor_note *note)
{
    struct islands *islands = islands_of(executor);
    struct going going = {.islands = islands, .call = call};
    (void)note;
    return islands_composes(islands, call) ? islands_steps(islands, call, prepare_step, &going) : TUTTI_SUCCESS;
}

/* By both executors. */
static tutti_result_t issue_by_both(struct islands *islands, const struct call *call, tutti_stream_t stream)
{
    struct going going = {islands, call, stream};
    cuda_enter(device_of(islands));
    tutti_result_t result = come_behind_both(islands, (CUstream)stream);
    if (result == TUTTI_SUCCESS)
        result = islands_composes(islands, call) ? islands_steps(islands, call, issue_step, &going)
                                                 : islands_exchange(islands, call, (CUstream)stream);
    cuda_leave();
    return result;
}

static tutti_result_t islands_issue(struct executor *executor, const struct call *call, void *owned,
                                    tutti_stream_t stream, const struct executor_note *note)
{
    struct islands *islands = islands_of(executor);
    bool captured = false;
    cuda_enter(device_of(islands));
    tutti_result_t result = is_captured(islands, (CUstream)stream, &captured);
    cuda_leave();
    bool both = islands_composes(islands, call) || islands_is_messages(call),
         can = !captured || staged_captures(islands->net);
    if (result == TUTTI_SUCCESS && !(both && can))
        return islands->net->ops.issue(islands->net, call, owned, stream, note);
    if (result == TUTTI_SUCCESS)
        result = whole_or_failed(islands, issue_by_both(islands, call, stream));
    free(owned);
    return result;
}

static tutti_result_t messages(struct executor *executor, const struct p2p_item *items, int count,
                               tutti_stream_t stream)
{
    struct islands *islands = islands_of(executor);
    cuda_enter(device_of(islands));
    tutti_result_t result = whole_or_failed(islands, islands_messages(islands, items, count, (CUstream)stream));
    cuda_leave();
    return result;
}

/* All of it by the hosts: the GPU alone knows which rows are of which island. */
static tutti_result_t islands_dynamic(struct executor *executor, const struct dynamic_call *call, tutti_stream_t stream)
{
    struct islands *islands = islands_of(executor);
    cuda_enter(device_of(islands));
    tutti_result_t result = come_behind_both(islands, (CUstream)stream);
    cuda_leave();
    return result == TUTTI_SUCCESS ? islands->net->ops.dynamic(islands->net, call, stream) : result;
}

/* ---- Windows ---- */

static tutti_result_t issue_window_calls(struct islands *islands, const struct window_item *items, int count,
                                         tutti_stream_t stream)
{
    tutti_result_t result = come_behind_both(islands, (CUstream)stream);
    return result == TUTTI_SUCCESS ? islands_window_calls(islands, items, count, stream) : result;
}

static tutti_result_t islands_open_window(struct executor *executor, void *buffer, size_t size, tutti_window_t *out)
{
    return islands_window_open(islands_of(executor), buffer, size, out);
}

static tutti_result_t islands_register_memory(struct executor *executor, void *buffer, size_t size, void **out)
{
    return islands_register(islands_of(executor), buffer, size, out);
}

static tutti_window_t islands_window_of_memory(struct executor *executor, void *registered)
{
    (void)executor;
    return islands_registered_window(registered);
}

static void islands_unregister_memory(struct executor *executor, void *registered)
{
    islands_unregister(islands_of(executor), registered);
}

static tutti_result_t islands_close_window(struct executor *executor, tutti_window_t window)
{
    return islands_window_close(islands_of(executor), window);
}

static tutti_result_t islands_call_windows(struct executor *executor, const struct window_item *items, int count,
                                           tutti_stream_t stream)
{
    struct islands *islands = islands_of(executor);
    tutti_result_t result = window_refuse_long_waits(islands->team, items, count);
    cuda_enter(device_of(islands));
    bool far = islands_window_is_far(islands, items, count);
    if (result == TUTTI_SUCCESS && !islands->windowed)
        result = window_refuse_first();
    if (result == TUTTI_SUCCESS && far)
        result = staged_check_window_calls(islands->net, items, count, stream);
    if (result == TUTTI_SUCCESS)
        result = whole_or_failed(islands, issue_window_calls(islands, items, count, stream));
    cuda_leave();
    return result;
}

static tutti_result_t islands_find_window(struct executor *executor, tutti_window_t window, int rank, void **address,
                                          size_t *size)
{
    return islands_window_address(islands_of(executor), window, rank, address, size);
}

static bool islands_has_window(const struct executor *executor, tutti_window_t window)
{
    return islands_window_is_open(islands_of((struct executor *)(uintptr_t)executor), window);
}

/* ---- The end of what was issued ---- */

static tutti_result_t islands_follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    struct executor *net = islands_of(executor)->net;
    return net->ops.follow(net, stream, before);
}

static tutti_result_t islands_wait(struct executor *executor)
{
    struct executor *island = islands_of(executor)->island, *net = islands_of(executor)->net;
    tutti_result_t result = net->ops.wait(net);
    return first_failure(result, island->ops.wait(island));
}

/* ---- Failure ---- */

static bool islands_give_up(struct executor *executor)
{
    struct executor *net = islands_of(executor)->net;
    return net->ops.give_up(net);
}

static tutti_result_t islands_settle(struct executor *executor, bool ends)
{
    struct executor *island = islands_of(executor)->island, *net = islands_of(executor)->net;
    tutti_result_t result = net->ops.settle(net, ends);
    return first_failure(result, island->ops.settle(island, ends));
}

static void islands_hear(struct executor *executor)
{
    struct executor *island = islands_of(executor)->island, *net = islands_of(executor)->net;
    island->ops.hear(island);
    net->ops.hear(net);
}

static void islands_end_calls(struct executor *executor)
{
    struct executor *net = islands_of(executor)->net;
    net->ops.end_calls(net);
}

/* ---- Life ---- */

static const char *islands_keeps(const struct executor *executor)
{
    const struct islands *islands = islands_of((struct executor *)(uintptr_t)executor);
    const char *kept = islands->island->ops.keeps(islands->island);
    return kept ? kept : islands->net->ops.keeps(islands->net);
}

static void islands_memory(struct executor *executor, size_t *device_bytes, size_t *host_bytes)
{
    struct executor *island = islands_of(executor)->island, *net = islands_of(executor)->net;
    size_t device[2], host[2];
    island->ops.memory(island, &device[0], &host[0]);
    net->ops.memory(net, &device[1], &host[1]);
    *device_bytes = device[0] + device[1];
    *host_bytes = host[0] + host[1];
}

struct islands_left {
    struct later later;
    CUdeviceptr scratch;
};

static bool free_scratch(struct later *later)
{
    later->cu->MemFree(((struct islands_left *)later)->scratch);
    return true;
}

/* Freeing it waits for all work of the GPU. Without memory for the record the process keeps it to its end. */
static void leave_scratch(struct islands *islands)
{
    struct islands_left *left = islands->scratch ? malloc(sizeof *left) : NULL;
    if (!left)
        return;
    *left = (struct islands_left){.later = {.work = free_scratch}, .scratch = device_address(islands->scratch)};
    if (!later_leave(&left->later, stream_base_of(islands->net)))
        free(left);
}

static void close_side(struct islands *islands)
{
    if (islands->fork)
        islands->cu->EventDestroy(islands->fork);
    if (islands->join)
        islands->cu->EventDestroy(islands->join);
    if (islands->side)
        islands->cu->StreamDestroy(islands->side);
}

static void islands_close(struct executor *executor)
{
    struct islands *islands = islands_of(executor);
    if (islands->net) {
        cuda_enter(device_of(islands));
        if (islands->island)
            islands_wait(executor);
        close_side(islands);
        leave_scratch(islands);
        cuda_leave();
    }
    if (islands->island)
        islands->island->ops.close(islands->island);
    if (islands->net)
        islands->net->ops.close(islands->net);
    team_close(islands->near);
    islands_windows_free(islands);
    pthread_mutex_destroy(&islands->lock);
    free(islands);
}

static const struct executor_ops islands_ops = {.name = "islands",
                                                .prepare = islands_prepare,
                                                .issue = islands_issue,
                                                .messages = messages,
                                                .dynamic = islands_dynamic,
                                                .register_symmetric = islands_register_memory,
                                                .symmetric_window = islands_window_of_memory,
                                                .unregister = islands_unregister_memory,
                                                .window_open = islands_open_window,
                                                .window_close = islands_close_window,
                                                .window_calls = islands_call_windows,
                                                .window_address = islands_find_window,
                                                .window_is_open = islands_has_window,
                                                .follow = islands_follow,
                                                .wait = islands_wait,
                                                .give_up = islands_give_up,
                                                .settle = islands_settle,
                                                .hear = islands_hear,
                                                .end_calls = islands_end_calls,
                                                .keeps = islands_keeps,
                                                .memory = islands_memory,
                                                .close = islands_close};

static tutti_result_t make_side(struct islands *islands)
{
    CUdeviceptr scratch = 0;
    islands->cu = stream_base_of(islands->net)->cu;
    tutti_result_t result =
        cuda_check(cuda_memory_take(islands->cu, islands->scratch_bytes, &scratch), "allocating scratch memory");
    islands->scratch = (char *)(uintptr_t)scratch;
    if (result == TUTTI_SUCCESS)
        ledger_add(stream_base_of(islands->net), WIRE_MEMORY_BULK, islands->scratch_bytes);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(islands->cu->StreamCreateWithPriority(&islands->side, CU_STREAM_NON_BLOCKING, 0),
                            "making a stream");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(islands->cu->EventCreate(&islands->fork, CU_EVENT_DISABLE_TIMING), "making an event");
    return result == TUTTI_SUCCESS
               ? cuda_check(islands->cu->EventCreate(&islands->join, CU_EVENT_DISABLE_TIMING), "making an event")
               : result;
}

static tutti_result_t open_rails(struct islands *islands)
{
    const struct levels *levels = islands->team->levels;
    int *members = malloc((size_t)islands->count * sizeof *members);
    if (!members)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for an executor");
    for (int k = 0; k < islands->count; k++)
        members[k] = levels->order[levels_hosts(levels)->first[k] + islands_head(islands, k, islands->rail)];
    if (islands->rail < 0)
        members[0] = islands->team->rank;
    tutti_result_t result =
        staged_open_rails(islands->net, members, islands->rail < 0 ? 1 : islands->count, islands->count);
    free(members);
    return result;
}

static tutti_result_t open_all(struct islands *islands, const struct executor_config *config, int shared)
{
    const struct executor_members near = {.team = islands->near};
    tutti_result_t result = staged_open_net(islands->team, config, &islands->net);
    team_part_show(islands->near, (uint32_t)islands->here);
    if (result == TUTTI_SUCCESS)
        result = executor_gpu.open(&near, config, shared, &islands->island);
    if (result == TUTTI_SUCCESS)
        result = open_rails(islands);
    if (result == TUTTI_SUCCESS) {
        islands->direct_from = staged_direct_from(islands->net);
        cuda_enter(device_of(islands));
        result = make_side(islands);
        cuda_leave();
    }
    return result;
}

static size_t least_param(enum param_id one, enum param_id other)
{
    int64_t a = param_int(one), b = param_int(other);
    return (size_t)(a < b ? a : b);
}

/* -1: none. */
static int rail_of(const struct islands *islands)
{
    for (int rail = 0; rail < islands->size; rail++)
        if (islands_head(islands, islands->here, rail) == islands->index)
            return rail;
    return -1;
}

static tutti_result_t islands_open(const struct executor_members *members, const struct executor_config *config,
                                   int shared, struct executor **out)
{
    struct islands *islands = calloc(1, sizeof *islands);
    const struct levels *levels = members->team->levels;
    const struct level *hosts = levels_hosts(levels);
    if (!islands) {
        team_close(members->near);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for an executor");
    }
    *islands = (struct islands){.team = members->team,
                                .near = members->near,
                                .count = hosts->groups,
                                .size = hosts->least,
                                .alike = hosts->least == hosts->most,
                                .here = hosts->group[members->team->rank],
                                .index = members->near->rank,
                                .in_order = levels->in_order,
                                .cut_from = least_param(PARAM_ISLANDS_FROM, PARAM_ISLANDS_SCRATCH),
                                .scratch_bytes = (size_t)param_int(PARAM_ISLANDS_SCRATCH)};
    islands->rail = rail_of(islands);
    list_init(&islands->windows);
    pthread_mutex_init(&islands->lock, NULL);
    executor_init(&islands->executor, &islands_ops, config->device);
    islands->executor.on_streams = true;
    islands->executor.uses_team = true;
    tutti_result_t result = open_all(islands, config, shared);
    if (result != TUTTI_SUCCESS) {
        islands_close(&islands->executor);
        return result;
    }
    log_info("rank %d: %d islands of %d GPUs%s, rail %d", members->team->rank, islands->count, islands->size,
             islands->alike ? "" : " or more", islands->rail);
    *out = &islands->executor;
    return TUTTI_SUCCESS;
}

/* Where few hardware queues hold up kernels by one another, all is staged: nothing of it waits for another stream. */
static bool islands_takes(const struct team *team, bool shared)
{
    const struct levels *levels = levels_between_hosts(team->levels);
    if (shared || !levels || !param_int(PARAM_ISLANDS) || cuda_queues_are_few())
        return false;
    const struct level *hosts = levels_hosts(levels);
    return hosts->most <= KERNEL_RANKS;
}

const struct executor_kind executor_islands = {
    .name = "islands", .takes = islands_takes, .create_shared = mailbox_create, .by_hosts = true, .open = islands_open};
