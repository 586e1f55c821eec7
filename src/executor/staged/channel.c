/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: one thread pushes bytes through sockets, and reduces, at a few GB/s, so a rank has several. Each channel
 * has an engine and a team of its own, which peers reach by sockets of their own. The first channel has the
 * communicator's team and waits for the user's stream; then it gives the job to the others. Channels fail together, by
 * way of the communicator's team.
 */
#include "executor/staged/channel.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "device/cuda/device.h"
#include "device/type.h"
#include "engine/collective.h"
#include "engine/engine_life.h"
#include "engine/failure.h"
#include "engine/news.h"
#include "engine/part.h"
#include "engine/team_open.h"
#include "engine/wait.h"
#include "executor/staged/asked.h"
#include "executor/staged/courier.h"
#include "executor/staged/direct.h"
#include "executor/staged/dynamic.h"
#include "executor/staged/fail.h"
#include "executor/staged/job.h"
#include "executor/staged/pieces.h"
#include "executor/staged/replay.h"
#include "executor/staged/slice.h"
#include "executor/staged/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RAILS 0x5241u /* the kind of these parts, among those of a team */

/* Looks for kernels of graphs, one after another; then with naps between them, which are longer after a second. */
#define LOOKS       2000
#define SLOW_FROM   (LOOKS + 20000)
#define NAP_NS      50000
#define SLOW_NAP_NS 500000

/* ---- A thread ---- */

static tutti_result_t take_scalar(struct channel *channel, struct call *call)
{
    uint64_t scalar = 0;
    tutti_result_t result = slice_copy(channel, (void *)(uintptr_t)call->scalar_at, &scalar, call->size, false);
    if (result == TUTTI_SUCCESS && !channel->staged->copies)
        result = cuda_check(channel->staged->base.cu->StreamSynchronize(channel->in), "reading a scalar");
    call->scalar = scalar;
    call->scalar_at = NULL;
    return result;
}

/* For a job that fails before the user's stream has come to it: the jobs before it still end as they can, and tickets
 * are stored in their order. */
static void await_turn(struct staged *staged, const struct job *job)
{
    pthread_mutex_lock(&staged->lock);
    while (staged->jobs.next != &job->node)
        pthread_cond_wait(&staged->channel[0].news, &staged->lock);
    pthread_mutex_unlock(&staged->lock);
    if (job->ticket)
        courier_await_ticket(staged, job->before);
}

static bool run_part(struct channel *channel, struct job *job);

/* What a graph's kernel asks for, before anything else. Under the lock, by the first channel's thread. */
static void run_replayed(struct channel *first)
{
    struct staged *staged = first->staged;
    struct job *job = replay_take(staged);
    if (!job)
        return;
    pthread_mutex_unlock(&staged->lock);
    bool failed = run_part(first, job);
    pthread_mutex_lock(&staged->lock);
    job_left(staged, job, failed);
}

/* Kernels of graphs may come before the kernel of the job. */
static tutti_result_t meet_kernel(struct channel *first, const struct job *job)
{
    const void *gpu = NULL;
    size_t bytes = job->items || job->dynamic ? 0 : slice_first(first, job, &gpu);
    tutti_result_t result;
    while ((result = courier_meet(first, job, gpu, bytes)) == TUTTI_IN_PROGRESS) {
        pthread_mutex_lock(&first->staged->lock);
        run_replayed(first);
        pthread_mutex_unlock(&first->staged->lock);
        first->job = job->sequence;
    }
    first->brought = bytes && courier_brings(bytes) && result == TUTTI_SUCCESS;
    return result;
}

/* The user's stream has come to the job, or never will: the other channels have their turn. */
static tutti_result_t begin_job(struct channel *first, struct job *job)
{
    struct staged *staged = first->staged;
    first->brought = false;
    tutti_result_t result = channels_begin(staged, job) ? TUTTI_SUCCESS : team_failure(staged->base.team);
    if (result == TUTTI_SUCCESS && !job->replayed)
        result = staged->copies
                     ? meet_kernel(first, job)
                     : cuda_check(staged->base.cu->EventSynchronize(job->ready), "waiting for the user's stream");
    if (result == TUTTI_SUCCESS && job->call.scalar_at)
        result = take_scalar(first, &job->call);
    if (result == TUTTI_SUCCESS && job->dynamic)
        result = dynamic_prepare(first, job);
    if (result != TUTTI_SUCCESS) {
        await_turn(staged, job);
        channel_fail(first, result);
    }
    pthread_mutex_lock(&staged->lock);
    for (int i = 1; i < staged->channels; i++)
        if (job->channels >> i & 1 && result == TUTTI_SUCCESS)
            channel_give(&staged->channel[i], job);
    job->left = result == TUTTI_SUCCESS ? __builtin_popcount(job->channels) : 1; /* the first channel itself */
    pthread_mutex_unlock(&staged->lock);
    return result;
}

/* A step of a call of all ranks: each channel's team has a number for that call, on all of them the same. So all ranks
 * take the same channels for it. */
static tutti_result_t run_on_rail(struct channel *channel, const struct job *job)
{
    const struct call *call = &job->call;
    team_carry(channel->team, &job->step_of,
               call->step ? wire_op_step(call->coll, call->step_at, call->step, call->steps) : 0);
    tutti_result_t result = job->items ? pieces_run(channel, job) : slice_run(channel, job);
    team_carried(channel->team, result);
    return result;
}

static tutti_result_t run_job(struct channel *channel, const struct job *job)
{
    if (job->on_rail)
        return run_on_rail(channel, job);
    if (job->asked)
        return asked_run(channel, job);
    if (job->dynamic && !job->count)
        return TUTTI_SUCCESS;
    return job->items ? pieces_run(channel, job) : slice_run(channel, job);
}

/* Returns whether the channel's part failed; all that the channel had under way has ended then. */
static bool run_part(struct channel *channel, struct job *job)
{
    channel->job = job->sequence;
    tutti_result_t result = channel->index ? TUTTI_SUCCESS : begin_job(channel, job);
    if (result == TUTTI_SUCCESS)
        result = run_job(channel, job);
    if (result == TUTTI_SUCCESS && channel->index)
        result = channel_mark(channel, channel->finished, channel->out);
    if (result != TUTTI_SUCCESS)
        channel_fail(channel, result);
    return result != TUTTI_SUCCESS;
}

/* Under the lock, by the first channel's thread, when no channel has anything else to do. False: there is nothing to
 * say. */
static bool say_no_more(struct channel *channel)
{
    struct staged *staged = channel->staged;
    if (channel->index || !staged->refuses || !list_empty(&staged->jobs))
        return false;
    staged->refuses = false;
    pthread_mutex_unlock(&staged->lock);
    for (int i = 0; i < staged->channels; i++)
        team_end_calls(staged->channel[i].team);
    pthread_mutex_lock(&staged->lock);
    return true;
}

/* Nothing wakes a thread that a kernel asks. */
static void look_for_kernels(struct channel *first, unsigned looks)
{
    struct staged *staged = first->staged;
    struct timespec until;
    if (looks < LOOKS) {
        pthread_mutex_unlock(&staged->lock);
        sched_yield();
        pthread_mutex_lock(&staged->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += looks < SLOW_FROM ? NAP_NS : SLOW_NAP_NS;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    pthread_cond_timedwait(&first->news, &staged->lock, &until);
}

/* Until there is a job, or the channel is to stop. Under the lock. */
static void await_job(struct channel *channel)
{
    struct staged *staged = channel->staged;
    for (unsigned looks = 0; list_empty(&channel->jobs) && !channel->stop; looks++) {
        bool graphs = channel->index == 0 && !list_empty(&staged->recipes);
        if (graphs && courier_is_asked(staged)) {
            run_replayed(channel);
            looks = 0;
        } else if (!say_no_more(channel)) {
            if (graphs)
                look_for_kernels(channel, looks);
            else
                pthread_cond_wait(&channel->news, &staged->lock);
        }
    }
}

static void *channel_work(void *argument)
{
    struct channel *channel = argument;
    struct staged *staged = channel->staged;
    bool calls = !staged->copies; /* the driver */
    if (calls)
        cuda_enter(staged->base.device);
    pthread_mutex_lock(&staged->lock);
    for (;;) {
        await_job(channel);
        struct list *turn = list_pop(&channel->jobs);
        if (!turn)
            break;
        struct job *job = list_entry(turn - channel->index, struct job, turn);
        pthread_mutex_unlock(&staged->lock);
        bool failed = run_part(channel, job);
        pthread_mutex_lock(&staged->lock);
        job_left(staged, job, failed);
    }
    pthread_mutex_unlock(&staged->lock);
    if (calls)
        cuda_leave();
    return NULL;
}

void channel_give(struct channel *channel, struct job *job)
{
    list_push(&channel->jobs, &job->turn[channel->index]);
    pthread_cond_signal(&channel->news);
}

static void stop_thread(struct channel *channel)
{
    pthread_mutex_lock(&channel->staged->lock);
    channel->stop = true;
    pthread_cond_signal(&channel->news);
    pthread_mutex_unlock(&channel->staged->lock);
    thread_end(&channel->thread);
}

/* ---- Teams ---- */

/* The channels' teams have the bound together. Each carries slices of a vector, one at a time. */
static int share_bound(struct team_bound *bound, int channels)
{
    if (!bound->bytes)
        return channels;
    channels = channels < bound->pieces ? channels : bound->pieces;
    *bound = (struct team_bound){bound->bytes, bound->pieces / channels, true};
    return channels;
}

static tutti_result_t channel_agree(struct staged *staged)
{
    const struct team *team = staged->base.team;
    struct share mine = share_of(team), *all = malloc((size_t)team->nranks * sizeof *all);
    mine.direct_from = direct_from(staged);
    mine.folds = staged->kernel;
    mine.relays = (uint64_t)staged->relays.count;
    tutti_result_t result = all ? team_tell_all(staged->base.team, &mine, sizeof mine, all)
                                : error_set(TUTTI_SYSTEM_ERROR, "no memory for staging");
    if (result == TUTTI_SUCCESS) {
        staged->channels = share_bound(&staged->base.team->bound, share_channels(all, team->nranks));
        staged->direct_from = share_direct_from(all, team->nranks);
        staged->folds = share_folds(all, team->nranks);
        relay_agree(staged, share_relays(all, team->nranks));
        staged->crowded = share_crowds(all, team->nranks, team->rank, staged->channels);
        share_report(team, &mine, staged->channels);
    }
    free(all);
    return result;
}

static tutti_result_t channel_open_team(struct channel *channel, const struct wire_process *all,
                                        struct wire_process *mates)
{
    const struct team *whole = channel->staged->base.team;
    char name[32];
    size_t more = (size_t)channel->staged->channels - 1;
    uint64_t id = mix64(mix64(whole->id + (uint64_t)channel->index) +
                        atomic_load_explicit(&whole->seq, memory_order_relaxed)); /* another one each time */
    for (int rank = 0; rank < whole->nranks; rank++)
        mates[rank] = all[(size_t)rank * more + (size_t)channel->index - 1];
    snprintf(name, sizeof name, "staged-%04x-%d", (unsigned)(whole->id & 0xffff), channel->index);
    const struct team_config config = {.id = id,
                                       .name = name,
                                       .rank = whole->rank,
                                       .nranks = whole->nranks,
                                       .members.processes = mates,
                                       .choices = whole->choices,
                                       .timeout_ms = whole->timeout_ms,
                                       .bound = whole->bound,
                                       .untold = true};
    return team_open(channel->engine, &config, &channel->team);
}

/* Ranks tell each other where the engines of their channels are. */
static tutti_result_t open_teams(struct staged *staged)
{
    size_t more = (size_t)staged->channels - 1, n = (size_t)staged->base.team->nranks;
    struct wire_process *mine = calloc(more, sizeof *mine), *all = malloc(n * more * sizeof *all),
                        *mates = malloc(n * sizeof *mates);
    tutti_result_t result =
        mine && all && mates ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for staging");
    for (int i = 1; i < staged->channels && result == TUTTI_SUCCESS; i++) {
        result = engine_acquire_more(i, &staged->channel[i].engine);
        if (result == TUTTI_SUCCESS)
            engine_introduce(staged->channel[i].engine, &mine[i - 1]);
    }
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(staged->base.team, mine, more * sizeof *mine, all);
    for (int i = 1; i < staged->channels && result == TUTTI_SUCCESS; i++)
        result = channel_open_team(&staged->channel[i], all, mates);
    free(mine);
    free(all);
    free(mates);
    return result;
}

tutti_result_t channels_open_rails(struct staged *staged, const int *members, int count)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < staged->channels && result == TUTTI_SUCCESS; i++) {
        struct channel *channel = &staged->channel[i];
        const struct part_config rail = {.kind = RAILS, .index = (uint32_t)members[0], .name = "rail"};
        result = team_part(channel->team, members, count, &rail, &channel->rail);
        if (result == TUTTI_SUCCESS)
            channel->rail->crowded |= staged->crowded;
    }
    return result;
}

static void channel_close_teams(struct channel *channel)
{
    if (channel->rail)
        team_close(channel->rail);
    if (channel->index && channel->team) {
        team_report(channel->team); /* what peers still need is with them before this process may end */
        team_close(channel->team);
    }
}

/* ---- Life ---- */

static tutti_result_t make_streams(struct channel *channel)
{
    const struct cuda_driver *cu = channel->staged->base.cu;
    tutti_result_t result =
        cuda_check(cu->StreamCreateWithPriority(&channel->in, CU_STREAM_NON_BLOCKING, 0), "making a stream");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->StreamCreateWithPriority(&channel->out, CU_STREAM_NON_BLOCKING, 0), "making a stream");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->EventCreate(&channel->finished, CU_EVENT_DISABLE_TIMING), "making an event");
    for (int i = 0; i < SLICES && result == TUTTI_SUCCESS; i++) {
        result = cuda_check(cu->EventCreate(&channel->slice[i].copied_in, CU_EVENT_DISABLE_TIMING), "making an event");
        if (result == TUTTI_SUCCESS)
            result =
                cuda_check(cu->EventCreate(&channel->slice[i].copied_out, CU_EVENT_DISABLE_TIMING), "making an event");
    }
    return result;
}

/* All pinned memory, at once: each call that pins may take milliseconds. */
static tutti_result_t pin(struct staged *staged)
{
    size_t each = staged->slice_bytes;
    tutti_result_t result =
        cuda_check(staged->base.cu->MemHostAlloc(&staged->pinned, (size_t)staged->channels * SLICES * each,
                                                 CU_MEMHOSTALLOC_PORTABLE),
                   "allocating pinned memory");
    for (int i = 0; i < staged->channels * SLICES && result == TUTTI_SUCCESS; i++)
        staged->channel[i / SLICES].slice[i % SLICES].memory = (char *)staged->pinned + (size_t)i * each;
    return result;
}

void channels_prepare(struct staged *staged)
{
    for (int i = 0; i < ENGINE_MOST; i++) {
        staged->channel[i].staged = staged;
        staged->channel[i].index = i;
        list_init(&staged->channel[i].jobs);
        pthread_cond_init(&staged->channel[i].news, NULL);
    }
    staged->channel[0].team = staged->base.team;
}

tutti_result_t channels_open(struct staged *staged)
{
    direct_begin(staged);
    relay_open(staged);
    tutti_result_t result = channel_agree(staged);
    if (result == TUTTI_SUCCESS)
        result = pin(staged);
    if (result == TUTTI_SUCCESS)
        result = courier_open(staged);
    for (int i = 0; i < staged->channels && !staged->copies && result == TUTTI_SUCCESS; i++)
        result = make_streams(&staged->channel[i]);
    if (result == TUTTI_SUCCESS && staged->channels > 1)
        result = open_teams(staged);
    if (result == TUTTI_SUCCESS && staged->channels > 1) {
        team_on_news(staged->base.team, channels_spread_failure, NULL, staged);
        channels_spread_failure(staged); /* it may have failed before */
    }
    for (int i = 0; i < staged->channels && result == TUTTI_SUCCESS; i++)
        staged->channel[i].team->crowded |= staged->crowded; /* threads that wait yield to those that do not */
    for (int i = 0; i < staged->channels && result == TUTTI_SUCCESS; i++)
        result = thread_start(&staged->channel[i].thread, "tutti-staged", channel_work, &staged->channel[i]);
    return result;
}

static void destroy_streams(struct channel *channel)
{
    const struct cuda_driver *cu = channel->staged->base.cu;
    for (int i = 0; i < SLICES; i++) {
        struct slice *slice = &channel->slice[i];
        if (slice->copied_out)
            cu->EventSynchronize(slice->copied_out);
        if (slice->copied_in)
            cu->EventDestroy(slice->copied_in);
        if (slice->copied_out)
            cu->EventDestroy(slice->copied_out);
    }
    if (channel->finished)
        cu->EventDestroy(channel->finished);
    if (channel->in)
        cu->StreamDestroy(channel->in);
    if (channel->out)
        cu->StreamDestroy(channel->out);
}

void channels_close(struct staged *staged)
{
    for (int i = 0; i < ENGINE_MOST; i++) /* the first one first: it gives the others their jobs */
        stop_thread(&staged->channel[i]);
    team_on_news(staged->base.team, NULL, NULL, NULL);
    for (int i = 0; i < ENGINE_MOST; i++) {
        struct channel *channel = &staged->channel[i];
        channel_close_teams(channel);
        engine_release(channel->engine);
        destroy_streams(channel);
        pthread_cond_destroy(&channel->news);
    }
    courier_close(staged);
    relay_close(staged);
}
