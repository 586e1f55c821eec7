/* SPDX-License-Identifier: Apache-2.0 */
/* Calls become jobs, for which the stream waits: by a kernel that takes orders, or for a word that is written behind
 * the last copy of all channels. */
#include "executor/staged/issue.h"

#include "base/error.h"
#include "base/param.h"
#include "device/cuda/memory.h"
#include "device/type.h"
#include "engine/executor.h"
#include "engine/failure.h"
#include "engine/op.h"
#include "engine/puts.h"
#include "executor/staged/channel.h"
#include "executor/staged/courier.h"
#include "executor/staged/direct.h"
#include "executor/staged/job.h"
#include "executor/staged/pieces.h"
#include "executor/staged/slice.h"
#include "executor/staged/spread.h"

#include <stdlib.h>
#include <string.h>

static void issue_push(struct staged *staged, struct job *job)
{
    pthread_mutex_lock(&staged->lock);
    job->left = __builtin_popcount(job->channels);
    list_push(&staged->jobs, &job->node);
    channel_give(&staged->channel[0], job);
    pthread_mutex_unlock(&staged->lock);
}

/* The courier is there before the job: no thread waits for one that cannot be launched. */
static tutti_result_t enqueue_courier(struct staged *staged, struct job *job, CUstream stream)
{
    tutti_result_t result = courier_launch(staged, job, stream);
    if (result == TUTTI_SUCCESS)
        issue_push(staged, job);
    else
        job_free(job);
    return result;
}

static tutti_result_t enqueue_streams(struct staged *staged, struct job *job, CUstream stream)
{
    tutti_result_t result =
        cuda_check(staged->base.cu->EventCreate(&job->ready, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->base.cu->EventRecord(job->ready, stream), "marking a stream");
    if (result != TUTTI_SUCCESS) {
        job_free(job);
        return result;
    }
    issue_push(staged, job);
    return cuda_check(
        staged->base.cu->StreamWaitValue32(stream, staged->done_device, staged->issued, CU_STREAM_WAIT_VALUE_GEQ),
        "waiting for a job");
}

/* The graph's kernel is in its stream; at each launch it asks for a job of this recipe. */
static tutti_result_t enqueue_recipe(struct staged *staged, struct job *job, CUstream stream)
{
    job->ticket = 0;
    job->replayed = true;
    job->sequence = ++staged->recipe;
    tutti_result_t result = courier_capture(staged, job, stream);
    if (result != TUTTI_SUCCESS) {
        job_free(job);
        return result;
    }
    pthread_mutex_lock(&staged->lock);
    list_push(&staged->recipes, &job->node);
    pthread_cond_signal(&staged->channel[0].news); /* it looks for kernels from now on */
    pthread_mutex_unlock(&staged->lock);
    return TUTTI_SUCCESS;
}

static tutti_result_t issue_enqueue(struct staged *staged, struct job *job, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(staged->base.cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    bool captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (result == TUTTI_SUCCESS && captured && staged->copies)
        return enqueue_recipe(staged, job, stream);
    if (result == TUTTI_SUCCESS && captured)
        result = error_set(TUTTI_INVALID_USAGE, "with TUTTI_STAGE_KERNEL=0 a graph cannot hold collectives of GPUs "
                                                "that share no memory");
    if (result != TUTTI_SUCCESS) {
        job_free(job);
        return result;
    }
    job->sequence = staged->issued += 2;
    job->before = atomic_load(&staged->base.tickets.ticket);
    return staged->copies ? enqueue_courier(staged, job, stream) : enqueue_streams(staged, job, stream);
}

static struct job *new_job(int items)
{
    struct job *job = calloc(1, sizeof *job);
    if (job && items)
        job->items = calloc((size_t)items, sizeof *job->items);
    if (job && (!items || job->items)) {
        job->count = items;
        return job;
    }
    free(job);
    error_set(TUTTI_SYSTEM_ERROR, "no memory for an operation");
    return NULL;
}

/* alltoallv is sends and receives of different lengths. */
static void describe_vector(const struct call *call, int nranks, struct p2p_item *items)
{
    for (int i = 0; i < 2 * nranks; i++) {
        int peer = i % nranks;
        struct call_part part = call_part(call, peer, i < nranks);
        items[i] = (struct p2p_item){
            .sends = i < nranks, .peer = peer, .data = part.at, .count = part.count, .type = call->type};
    }
}

tutti_result_t issue_collective(struct staged *staged, const struct call *call, uint32_t ticket, CUstream stream)
{
    int nranks = staged->base.team->nranks;
    struct job *job = new_job(call->coll == COLL_ALLTOALLV ? 2 * nranks : 0);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->call = *call;
    job->ticket = ticket;
    if (job->items) {
        describe_vector(call, nranks, job->items);
        direct_find(staged, job->items, job->count);
        job->channels = pieces_channels(staged, job->items, job->count);
    } else {
        slice_cut(staged, job, call->count);
    }
    return issue_enqueue(staged, job, stream);
}

/* Nobody else copies what a rank keeps. */
static tutti_result_t copy_own_part(const struct staged *staged, const struct call *call, CUstream stream)
{
    struct call_part from, to;
    if (!spread_copy(staged->channel[0].rail, call, &from, &to))
        return TUTTI_SUCCESS;
    return cuda_check(staged->base.cu->MemcpyDtoDAsync(device_address(to.at), device_address(from.at),
                                                       from.count * call->size, stream),
                      "copying a block");
}

/* Each message has the length that both of its ends know: what is empty is none. */
static tutti_result_t describe_spread(struct staged *staged, const struct issue_step *step, struct job *job,
                                      CUstream stream)
{
    const struct team *rail = staged->channel[0].rail;
    struct call others = *step->call; /* as ranks have it that are on a rail */
    bool idle = !others.count;
    others.count = idle ? step->longest : others.count;
    call_fill(&others);
    size_t longest = step->longest * step->call->size, here = spread_longest(staged->rail_ranks, &others);
    job->count = spread_items(rail, step->call, step->spread, job->items);
    job->call.send_counts = job->call.send_offsets = job->call.recv_counts = job->call.recv_offsets = NULL;
    job->channels = pieces_rail_channels(staged, step->call->coll == COLL_ALLTOALLV ? longest : here);
    direct_find(staged, job->items, job->count);
    return step->spread == 0 && !idle ? copy_own_part(staged, step->call, stream) : TUTTI_SUCCESS;
}

/* The job outlives the call. */
static tutti_result_t keep_lengths(const struct staged *staged, struct job *job)
{
    const size_t *lengths = job->call.recv_counts;
    size_t bytes = job_ranks(staged, job) * sizeof *lengths;
    job->call.send_counts = job->call.send_offsets = job->call.recv_counts = job->call.recv_offsets = NULL;
    if (!lengths)
        return TUTTI_SUCCESS;
    job->lengths = malloc(bytes);
    if (!job->lengths)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the lengths of blocks");
    memcpy(job->lengths, lengths, bytes);
    return TUTTI_SUCCESS;
}

tutti_result_t issue_on_rail(struct staged *staged, const struct issue_step *step, uint32_t ticket, CUstream stream)
{
    struct job *job = new_job(step->spread < 0 ? 0 : 2 * staged->channel[0].rail->nranks);
    tutti_result_t result = TUTTI_SUCCESS;
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->call = *step->call;
    job->on_rail = true;
    job->step_of = *step->of;
    job->ticket = ticket;
    if (job->items) {
        result = describe_spread(staged, step, job, stream);
    } else {
        slice_cut(staged, job, step->longest);
        result = keep_lengths(staged, job);
    }
    if (result == TUTTI_SUCCESS)
        return issue_enqueue(staged, job, stream);
    job_free(job);
    return result;
}

tutti_result_t issue_messages(struct staged *staged, const struct p2p_item *items, int count, uint32_t ticket,
                              CUstream stream)
{
    struct job *job = new_job(count);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    memcpy(job->items, items, (size_t)count * sizeof *items);
    direct_find(staged, job->items, count);
    job->channels = pieces_channels(staged, items, count);
    job->ticket = ticket;
    return issue_enqueue(staged, job, stream);
}

/* Which parts go where only the GPU knows. So adapters may be to reach all of it. */
static void find_memory(const struct staged *staged, struct job *job)
{
    const struct dynamic_call *call = job->dynamic;
    const tutti_dynamic_t *what = &call->what;
    size_t behind = (size_t)(staged->base.team->nranks - 1) * what->recv_stride;
    struct p2p_item all[] = {{.data = call->out, .count = (behind + what->recv_rows) * call->row, .type = TUTTI_UINT8},
                             {.data = (void *)(uintptr_t)call->in,
                              .count = (size_t)what->windows * what->send_rows * call->row,
                              .type = TUTTI_UINT8}};
    direct_find(staged, all, 2);
    for (int sends = 0; sends < 2; sends++)
        job->memory[sends] = all[sends].on_device;
}

/* Which channels have something to do only the GPU knows, too: the kernel serves all. */
tutti_result_t issue_dynamic(struct staged *staged, const struct dynamic_call *call, uint32_t ticket, CUstream stream)
{
    struct job *job = new_job(0);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->dynamic = malloc(sizeof *job->dynamic);
    if (!job->dynamic) {
        job_free(job);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for an exchange");
    }
    *job->dynamic = *call;
    find_memory(staged, job);
    job->channels = (1u << staged->channels) - 1;
    job->ticket = ticket;
    staged->exchanged = true;
    return issue_enqueue(staged, job, stream);
}

tutti_result_t issue_asked(struct staged *staged, const struct window_item *items, int count, CUstream stream)
{
    struct job *job = new_job(0);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->asked = malloc((size_t)count * sizeof *items);
    if (!job->asked) {
        job_free(job);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d calls on windows", count);
    }
    memcpy(job->asked, items, (size_t)count * sizeof *items);
    job->count = count;
    job->channels = 1;
    return issue_enqueue(staged, job, stream);
}
