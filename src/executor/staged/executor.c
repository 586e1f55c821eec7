/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of GPUs whose data are staged through the host: its calls, its beginning and its end. */
#include "executor/staged/executor.h"

#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "device/cuda/device.h"
#include "engine/failure.h"
#include "executor/staged/channel.h"
#include "executor/staged/courier.h"
#include "executor/staged/fail.h"
#include "executor/staged/issue.h"
#include "executor/staged/replay.h"
#include "executor/staged/spread.h"
#include "executor/staged/staged.h"
#include "executor/staged/windows.h"
#include "executor/stream/idle.h"
#include "executor/stream/later.h"
#include "executor/stream/ledger.h"
#include "executor/stream/order.h"
#include "executor/stream/ticket.h"
#include "executor/stream/wait.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_US 100 /* at jobs that are to end */

static struct staged *staged_of_base(struct stream_base *base)
{
    return (struct staged *)((char *)base - offsetof(struct staged, base));
}

static struct staged *staged_of(struct executor *executor)
{
    return staged_of_base(stream_base_of(executor));
}

/* ---- A failed communicator ---- */

/* No call comes any more. Peers hear so when the calls before have ended: they would wait for this rank in what another
 * one had finished, while this rank may wait for them elsewhere. */
static void say_no_call_comes(struct staged *staged)
{
    pthread_mutex_lock(&staged->lock);
    staged->refuses = true;
    pthread_cond_signal(&staged->channel[0].news);
    pthread_mutex_unlock(&staged->lock);
}

static void staged_failed(struct stream_base *base)
{
    say_no_call_comes(staged_of_base(base));
}

/* The team knows whose messages are still to come, and fails by itself. */
static tutti_result_t staged_failure(struct staged *staged)
{
    tutti_result_t result = team_failure(staged->base.team);
    if (result != TUTTI_SUCCESS) {
        say_no_call_comes(staged);
        staged_windows_stop(staged);
    }
    return result;
}

/* A user who is told of the failure finds nothing stored to windows any more. */
static void staged_hear(struct executor *executor)
{
    if (team_failure(staged_of(executor)->base.team) != TUTTI_SUCCESS)
        staged_windows_stop(staged_of(executor));
}

/* Also those of graphs, of which no ticket tells. In a failed communicator all end soon, with what is being copied. */
static void await_jobs(struct staged *staged)
{
    bool idle = false;
    while (!idle) {
        pthread_mutex_lock(&staged->lock);
        idle = list_empty(&staged->jobs);
        pthread_mutex_unlock(&staged->lock);
        if (!idle)
            usleep(LOOK_US);
    }
}

static tutti_result_t staged_settle(struct executor *executor, bool ends)
{
    (void)ends; /* closing waits for the rest */
    staged_hear(executor);
    if (team_failure(staged_of(executor)->base.team) != TUTTI_SUCCESS)
        await_jobs(staged_of(executor));
    return TUTTI_SUCCESS;
}

/* A collective may still be issued though the communicator has failed: peers may need it. Whether it ends well is found
 * out later. */
static tutti_result_t staged_refuses(struct stream_base *base, bool collective)
{
    return collective && team_takes_collective(base->team) ? TUTTI_SUCCESS : staged_failure(staged_of_base(base));
}

static const struct stream_ops staged_stream_ops = {.refuses = staged_refuses, .failed = staged_failed};

static bool staged_goes_on(struct executor *executor)
{
    return staged_refuses(stream_base_of(executor), true) == TUTTI_SUCCESS;
}

static void staged_end_calls(struct executor *executor)
{
    say_no_call_comes(staged_of(executor));
}

/* The team fails next; its channels' teams would go on with what has begun. */
static bool staged_give_up(struct executor *executor)
{
    channels_stop(staged_of(executor));
    return false;
}

/* ---- Calls ---- */

/* A ticket whose end the host tells, where a stream that writes it would hold up others; else 0. */
static uint32_t staged_ticket(struct staged *staged)
{
    staged->base.tickets.told = staged->copies ? ticket_next(&staged->base) : 0;
    return staged->base.tickets.told;
}

static tutti_result_t step_on_rail(struct staged *staged, const struct issue_step *step, CUstream stream)
{
    tutti_result_t result = order_begin(&staged->base, stream, step->spread < 0);
    if (result == TUTTI_SUCCESS)
        result = order_end(&staged->base, stream, issue_on_rail(staged, step, staged_ticket(staged), stream));
    return result;
}

static tutti_result_t go_on_rail(struct staged *staged, const struct call *call, size_t longest, const struct call *of,
                                 CUstream stream)
{
    struct issue_step step = {.call = call, .of = of, .longest = longest, .spread = -1};
    struct call others = *call; /* as ranks have it that are on a rail */
    others.count = longest;
    call_fill(&others);
    int steps = spread_steps(staged, staged->rail_ranks, call->count ? call : &others);
    tutti_result_t result = TUTTI_SUCCESS;
    cuda_enter(staged->base.device);
    if (!steps)
        result = step_on_rail(staged, &step, stream);
    for (step.spread = 0; step.spread < steps && result == TUTTI_SUCCESS; step.spread++)
        result = step_on_rail(staged, &step, stream);
    cuda_leave();
    return result;
}

static tutti_result_t staged_call(struct staged *staged, const struct call *call, CUstream stream)
{
    if (!call->count && call->coll != COLL_BARRIER && call->coll != COLL_ALLTOALLV)
        return staged_refuses(&staged->base, true);
    if (staged->alone && call->coll != COLL_ALLTOALLV && spread_steps(staged, staged->base.team->nranks, call))
        return go_on_rail(staged, call, call->count, call, stream);
    cuda_enter(staged->base.device);
    tutti_result_t result = order_begin(&staged->base, stream, call->coll != COLL_ALLTOALLV);
    if (result == TUTTI_SUCCESS)
        result = order_end(&staged->base, stream, issue_collective(staged, call, staged_ticket(staged), stream));
    cuda_leave();
    return result;
}

tutti_result_t staged_on_rail(struct executor *executor, const struct call *call, size_t longest, const struct call *of,
                              tutti_stream_t stream)
{
    return go_on_rail(staged_of(executor), call, longest, of, (CUstream)stream);
}

size_t staged_direct_from(struct executor *executor)
{
    return staged_of(executor)->direct_from;
}

static tutti_result_t staged_issue(struct executor *executor, const struct call *call, void *owned,
                                   tutti_stream_t stream, const struct executor_note *note)
{
    (void)note;
    tutti_result_t result = staged_call(staged_of(executor), call, (CUstream)stream);
    free(owned); /* counts and offsets: a job has its own copy */
    return result;
}

static tutti_result_t staged_messages(struct executor *executor, const struct p2p_item *items, int count,
                                      tutti_stream_t stream)
{
    struct staged *staged = staged_of(executor);
    cuda_enter(staged->base.device);
    tutti_result_t result = order_begin(&staged->base, (CUstream)stream, false);
    if (result == TUTTI_SUCCESS)
        result = order_end(&staged->base, (CUstream)stream,
                           issue_messages(staged, items, count, staged_ticket(staged), (CUstream)stream));
    cuda_leave();
    return result;
}

static tutti_result_t staged_dynamic(struct executor *executor, const struct dynamic_call *call, tutti_stream_t stream)
{
    struct staged *staged = staged_of(executor);
    cuda_enter(staged->base.device);
    tutti_result_t result = order_begin(&staged->base, (CUstream)stream, false);
    if (result == TUTTI_SUCCESS)
        result = order_end(&staged->base, (CUstream)stream,
                           issue_dynamic(staged, call, staged_ticket(staged), (CUstream)stream));
    cuda_leave();
    return result;
}

/* ---- Windows ---- */

tutti_result_t staged_open_window(struct executor *executor, void *buffer, size_t size, tutti_result_t mine,
                                  tutti_window_t *out)
{
    return staged_window_open(staged_of(executor), buffer, size, mine, out);
}

static tutti_result_t staged_open_own_window(struct executor *executor, void *buffer, size_t size, tutti_window_t *out)
{
    return staged_window_open(staged_of(executor), buffer, size, TUTTI_SUCCESS, out);
}

/* Memory that cannot be one is none, as nothing else comes of the registration. */
tutti_result_t staged_register(struct executor *executor, void *buffer, size_t size, tutti_result_t mine, void **out)
{
    struct staged *staged = staged_of(executor);
    tutti_window_t window = NULL;
    *out = NULL;
    if (!staged_windows_by_processes(staged->base.team))
        return TUTTI_SUCCESS;
    tutti_result_t result = staged_window_open(staged, buffer, size, mine, &window);
    *out = window;
    if (window)
        window->registered = true;
    if (result == TUTTI_SUCCESS || team_failure(staged->base.team) != TUTTI_SUCCESS)
        return result;
    log_info("rank %d: registered memory is no window: %s", staged->base.team->rank, error_last());
    return TUTTI_SUCCESS;
}

static tutti_result_t staged_register_own(struct executor *executor, void *buffer, size_t size, void **out)
{
    return staged_register(executor, buffer, size, TUTTI_SUCCESS, out);
}

static tutti_window_t staged_registered_window(struct executor *executor, void *registered)
{
    (void)executor;
    return registered;
}

void staged_unregister(struct executor *executor, void *registered)
{
    if (registered)
        staged_window_forget(staged_of(executor), registered);
}

static tutti_result_t staged_close_window(struct executor *executor, tutti_window_t window)
{
    return staged_window_close(staged_of(executor), window);
}

static tutti_result_t staged_window_calls(struct executor *executor, const struct window_item *items, int count,
                                          tutti_stream_t stream)
{
    struct staged *staged = staged_of(executor);
    cuda_enter(staged->base.device);
    bool captured = false;
    tutti_result_t result = staged_window_check(staged, items, count, (CUstream)stream, &captured);
    if (result == TUTTI_SUCCESS)
        result = order_begin(&staged->base, (CUstream)stream, false);
    if (result == TUTTI_SUCCESS)
        result = order_end(&staged->base, (CUstream)stream,
                           (captured ? issue_asked : staged_window_issue)(staged, items, count, (CUstream)stream));
    cuda_leave();
    return result;
}

tutti_result_t staged_check_window_calls(struct executor *executor, const struct window_item *items, int count,
                                         tutti_stream_t stream)
{
    bool captured = false;
    return staged_window_check(staged_of(executor), items, count, (CUstream)stream, &captured);
}

static tutti_result_t staged_find_window(struct executor *executor, tutti_window_t window, int rank, void **address,
                                         size_t *size)
{
    return staged_window_address(staged_of(executor), window, rank, address, size);
}

static bool staged_has_window(const struct executor *executor, tutti_window_t window)
{
    return staged_window_is_open(staged_of((struct executor *)(uintptr_t)executor), window);
}

/* ---- The end of what was issued ---- */

static tutti_result_t staged_follow(struct executor *executor, tutti_stream_t stream, tutti_stream_t before)
{
    return order_follow(stream_base_of(executor), (CUstream)stream, (CUstream)before);
}

/* Whatever became of the communicator: has all that was issued, and is over, ended well? True but once, as of
 * team_wait(). */
static bool ended_well(struct staged *staged)
{
    pthread_mutex_lock(&staged->lock);
    bool well = !staged->broken && staged->told != staged->issued;
    staged->told = staged->issued;
    pthread_mutex_unlock(&staged->lock);
    return well;
}

static tutti_result_t staged_wait(struct executor *executor)
{
    struct staged *staged = staged_of(executor);
    cuda_enter(staged->base.device);
    tutti_result_t result = wait_for_last(&staged->base);
    cuda_leave();
    if (result != TUTTI_SUCCESS) /* peers wait for what this GPU will not do any more */
        order_fail(&staged->base, result);
    tutti_result_t failure = ended_well(staged) ? TUTTI_SUCCESS : staged_failure(staged);
    return failure == TUTTI_SUCCESS ? result : failure;
}

static const char *staged_keeps(const struct executor *executor)
{
    struct staged *staged = staged_of((struct executor *)(uintptr_t)executor);
    pthread_mutex_lock(&staged->lock);
    bool graphs = !list_empty(&staged->recipes);
    pthread_mutex_unlock(&staged->lock);
    return staged_windows_any(staged) ? "windows" : graphs ? "calls in CUDA graphs" : NULL;
}

static void staged_memory(struct executor *executor, size_t *device_bytes, size_t *host_bytes)
{
    ledger_sums(stream_base_of(executor), device_bytes, host_bytes);
}

/* ---- Life ---- */

/* Pinned memory: the words, the slices, and what couriers copy by. */
struct staged_left {
    struct later later;
    void *pinned[4];
    CUdeviceptr launches;
};

static bool free_pinned(struct later *later)
{
    struct staged_left *left = (struct staged_left *)later;
    for (size_t i = 0; i < sizeof left->pinned / sizeof *left->pinned; i++)
        if (left->pinned[i])
            later->cu->MemFreeHost(left->pinned[i]);
    if (left->launches)
        later->cu->MemFree(left->launches);
    return true;
}

/* Freeing pinned memory waits for all work of the GPU, which may wait for this very thread. Without memory for the
 * record the process keeps the pinned memory to its end. */
static void leave_pinned(struct staged *staged, void *windows)
{
    struct staged_left *left = malloc(sizeof *left);
    if (!left)
        return;
    *left = (struct staged_left){.later = {.work = free_pinned},
                                 .pinned = {(void *)staged->done, staged->pinned, staged->copies, windows},
                                 .launches = staged->launches};
    if (!later_leave(&left->later, &staged->base))
        free(left);
}

static void staged_close(struct executor *executor)
{
    struct staged *staged = staged_of(executor);
    if (staged->base.device) {
        cuda_enter(staged->base.device);
        if (staged->base.tickets.over)
            staged_wait(executor); /* unless the team has failed */
        idle_leave(&staged->base);
        channels_close(staged);
        if (staged->exchanged)
            log_info("rank %d sent %llu bytes whose lengths its GPU knew", staged->base.team->rank,
                     (unsigned long long)atomic_load(&staged->sent));
        void *windows = staged_windows_end(staged);
        leave_pinned(staged, windows);
        cuda_leave();
    }
    replay_close(staged);
    base_close(&staged->base);
    pthread_mutex_destroy(&staged->lock);
    pthread_mutex_destroy(&staged->doubt.lock);
    pthread_mutex_destroy(&staged->relays.lock);
    pthread_cond_destroy(&staged->doubt.news);
    free(staged);
}

/* Nothing is prepared, and each call is issued by its own thread. */
static const struct executor_ops staged_ops = {.name = "staged",
                                               .issue = staged_issue,
                                               .messages = staged_messages,
                                               .dynamic = staged_dynamic,
                                               .register_symmetric = staged_register_own,
                                               .symmetric_window = staged_registered_window,
                                               .unregister = staged_unregister,
                                               .window_open = staged_open_own_window,
                                               .window_close = staged_close_window,
                                               .window_calls = staged_window_calls,
                                               .window_address = staged_find_window,
                                               .window_is_open = staged_has_window,
                                               .follow = staged_follow,
                                               .wait = staged_wait,
                                               .give_up = staged_give_up,
                                               .goes_on = staged_goes_on,
                                               .settle = staged_settle,
                                               .hear = staged_hear,
                                               .end_calls = staged_end_calls,
                                               .keeps = staged_keeps,
                                               .memory = staged_memory,
                                               .close = staged_close};

/* Of the last job that is complete, and of the last operation that is over. */
static tutti_result_t make_words(struct staged *staged)
{
    void *words = NULL;
    tutti_result_t result =
        cuda_check(staged->base.cu->MemHostAlloc(&words, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                   "allocating pinned memory");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(words, 0, 64);
    staged->done = words;
    result = cuda_check(staged->base.cu->MemHostGetDevicePointer(&staged->done_device, words, 0),
                        "finding a word's device address");
    if (result == TUTTI_SUCCESS) {
        staged->base.tickets.over_device = staged->done_device + sizeof *staged->done;
        staged->base.tickets.over = staged->done + 1;
    }
    return result;
}

static tutti_result_t make_staged(struct staged *staged)
{
    cuda_enter(staged->base.device);
    tutti_result_t result = make_words(staged);
    if (result == TUTTI_SUCCESS)
        result = channels_open(staged);
    cuda_leave();
    return result;
}

/* Where adapters reach all GPUs, what is not reduced goes as messages of a rail of all ranks. */
static tutti_result_t open_alone(struct staged *staged)
{
    int n = staged->base.team->nranks, *all = staged->direct_from < SIZE_MAX ? malloc((size_t)n * sizeof *all) : NULL;
    if (staged->direct_from == SIZE_MAX)
        return TUTTI_SUCCESS;
    if (!all)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", n);
    for (int rank = 0; rank < n; rank++)
        all[rank] = rank;
    staged->rail_ranks = n;
    tutti_result_t result = channels_open_rails(staged, all, n);
    staged->alone = result == TUTTI_SUCCESS;
    free(all);
    return result;
}

/* Of what users may set, the most blocks alone count here. */
static void say_blocks(const struct staged *staged, const struct executor_config *config)
{
    unsigned few = courier_blocks(staged, 0), many = courier_blocks(staged, KERNEL_COURIER_LONG_FROM);
    if (config->policy != TUTTI_POLICY_ZERO && param_int(PARAM_BLOCKS_LEAST) <= (int64_t)few)
        return;
    log_info("rank %d: what goes to other hosts takes up to %u blocks of a kernel, from %d MiB on %u, whatever the CTA "
             "policy or the least number of blocks; none with TUTTI_STAGE_KERNEL=0",
             staged->base.team->rank, few, (int)(KERNEL_COURIER_LONG_FROM >> 20), many);
}

tutti_result_t staged_open_net(struct team *team, const struct executor_config *config, struct executor **out)
{
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for staging");
    staged->slice_bytes = (size_t)param_int(PARAM_STAGE_SLICE) / CACHE_LINE * CACHE_LINE;
    staged->blocks = config->blocks;
    staged->kernel = param_int(PARAM_STAGE_KERNEL) || cuda_queues_are_few();
    list_init(&staged->jobs);
    list_init(&staged->recipes);
    staged->given = 1;
    pthread_mutex_init(&staged->lock, NULL);
    pthread_mutex_init(&staged->doubt.lock, NULL);
    pthread_mutex_init(&staged->relays.lock, NULL);
    pthread_cond_init(&staged->doubt.news, NULL);
    tutti_result_t result = base_open(&staged->base, team, config->device, &staged_stream_ops);
    channels_prepare(staged);
    if (result == TUTTI_SUCCESS)
        result = base_load(&staged->base);
    if (result == TUTTI_SUCCESS)
        result = make_staged(staged);
    if (result != TUTTI_SUCCESS) {
        staged_close(&staged->base.executor);
        return result;
    }
    if (staged->copies)
        say_blocks(staged, config);
    ledger_add(&staged->base, WIRE_MEMORY_TABLES, sizeof *staged);
    ledger_add(&staged->base, WIRE_MEMORY_SLICES, (size_t)staged->channels * SLICES * staged->slice_bytes);
    idle_join(&staged->base);
    executor_init(&staged->base.executor, &staged_ops, staged->base.device->ordinal);
    staged->base.executor.on_streams = true;
    staged->base.executor.uses_team = true;
    *out = &staged->base.executor;
    return TUTTI_SUCCESS;
}

/* The executor makes no memory that ranks share. */
static tutti_result_t staged_open(const struct executor_members *members, const struct executor_config *config,
                                  int shared, struct executor **out)
{
    (void)shared;
    struct executor *made;
    tutti_result_t result = staged_open_net(members->team, config, &made);
    if (result != TUTTI_SUCCESS)
        return result;
    result = open_alone(staged_of(made));
    if (result == TUTTI_SUCCESS)
        *out = made;
    else
        staged_close(made);
    return result;
}

tutti_result_t staged_open_rails(struct executor *executor, const int *members, int count, int most)
{
    staged_of(executor)->rail_ranks = most;
    return channels_open_rails(staged_of(executor), members, count);
}

bool staged_captures(struct executor *executor)
{
    return staged_of(executor)->copies != NULL;
}

/* This executor takes any team. */
static bool staged_takes(const struct team *team, bool shared)
{
    (void)team;
    (void)shared;
    return true;
}

const struct executor_kind executor_staged = {.name = "staged", .takes = staged_takes, .open = staged_open};
