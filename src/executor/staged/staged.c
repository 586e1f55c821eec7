/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: what a user's stream comes to is carried out by the threads of some channels. The stream waits for a word that
 * is written behind the last copy of all of them.
 */
#include "executor/staged/internal.h"

#include "base/error.h"
#include "base/param.h"
#include "device/type.h"
#include "engine/failure.h"
#include "engine/op.h"

#include <stdlib.h>
#include <string.h>

/* ---- The end of a job ---- */

/* All words are written by one stream: an earlier job's number must not come after a later one's. */
static tutti_result_t staged_write_word(struct staged *staged, const struct job *job)
{
    const struct cuda_driver *cu = staged->cu;
    CUstream last = staged->channel[0].out;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 1; i < staged->channels && result == TUTTI_SUCCESS; i++)
        if (job->channels >> i & 1)
            result =
                cuda_check(cu->StreamWaitEvent(last, staged->channel[i].finished, 0), "joining the parts of a job");
    return result == TUTTI_SUCCESS
               ? cuda_check(cu->StreamWriteValue32(last, staged->done_device, job->sequence, 0), "ending a job")
               : result;
}

/* No stream waits for ever, also when a part failed, but none goes on while something is still copied to its memory. */
static void staged_release(struct staged *staged, const struct job *job)
{
    if (staged->copies) { /* whose orders are over, or given up */
        atomic_store(staged->done, job->sequence);
        return;
    }
    for (int i = 1; i < staged->channels; i++)
        if (job->channels >> i & 1)
            staged->cu->EventSynchronize(staged->channel[i].finished);
    staged->cu->StreamSynchronize(staged->channel[0].out);
    atomic_store(staged->done, job->sequence);
}

static void end_job(struct staged *staged, struct job *job)
{
    tutti_result_t result = job->failed || staged->copies ? TUTTI_SUCCESS : staged_write_word(staged, job);
    if (result != TUTTI_SUCCESS)
        team_fail(staged->team, result, staged->team->rank, error_last());
    staged->broken |= result != TUTTI_SUCCESS || job->failed;
    if (job->ticket)
        atomic_store(staged->done + 1,
                     job->ticket); /* before the courier ends: who waits for it may come behind that */
    if (result != TUTTI_SUCCESS || job->failed || staged->copies)
        staged_release(staged, job);
    if (job->ready)
        staged->cu->EventDestroy(job->ready);
    free(job->items);
    free(job);
}

void job_left(struct staged *staged, struct job *job, bool failed)
{
    job->failed |= failed;
    job->left--;
    while (!list_empty(&staged->jobs)) {
        struct job *first = list_entry(staged->jobs.next, struct job, node);
        if (first->left)
            break;
        list_remove(&first->node);
        end_job(staged, first);
        pthread_cond_signal(&staged->channel[0].news);
    }
}

/* ---- Issuing ---- */

static void free_job(struct job *job)
{
    free(job->items);
    free(job);
}

static void staged_push(struct staged *staged, struct job *job)
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
        staged_push(staged, job);
    else
        free_job(job);
    return result;
}

static tutti_result_t enqueue_streams(struct staged *staged, struct job *job, CUstream stream)
{
    tutti_result_t result =
        cuda_check(staged->cu->EventCreate(&job->ready, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->EventRecord(job->ready, stream), "marking a stream");
    if (result != TUTTI_SUCCESS) {
        free_job(job);
        return result;
    }
    staged_push(staged, job);
    return cuda_check(
        staged->cu->StreamWaitValue32(stream, staged->done_device, staged->issued, CU_STREAM_WAIT_VALUE_GEQ),
        "waiting for a job");
}

static tutti_result_t staged_enqueue(struct staged *staged, struct job *job, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(staged->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    if (result == TUTTI_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        result = error_set(TUTTI_INVALID_USAGE, "a graph cannot hold collectives of GPUs that share no memory");
    if (result != TUTTI_SUCCESS) {
        free_job(job);
        return result;
    }
    job->sequence = ++staged->issued;
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
        items[i] = (struct p2p_item){i < nranks, peer, part.at, part.count, call->type};
    }
}

tutti_result_t staged_collective(struct staged *staged, const struct call *call, uint32_t ticket, CUstream stream)
{
    int nranks = staged->team->nranks;
    struct job *job = new_job(call->coll == COLL_ALLTOALLV ? 2 * nranks : 0);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->call = *call;
    job->ticket = ticket;
    if (job->items) {
        describe_vector(call, nranks, job->items);
        job->channels = pieces_channels(staged, job->items, job->count);
    } else {
        slice_cut(staged, job);
    }
    return staged_enqueue(staged, job, stream);
}

tutti_result_t staged_p2p(struct staged *staged, const struct p2p_item *items, int count, uint32_t ticket,
                          CUstream stream)
{
    struct job *job = new_job(count);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    memcpy(job->items, items, (size_t)count * sizeof *items);
    job->channels = pieces_channels(staged, items, count);
    job->ticket = ticket;
    return staged_enqueue(staged, job, stream);
}

const _Atomic uint32_t *staged_word(const struct staged *staged, CUdeviceptr *device)
{
    *device = staged->done_device + sizeof *staged->done;
    return staged->done + 1;
}

void staged_end_calls(struct staged *staged)
{
    pthread_mutex_lock(&staged->lock);
    staged->refuses = true;
    pthread_cond_signal(&staged->channel[0].news);
    pthread_mutex_unlock(&staged->lock);
}

bool staged_takes(const struct staged *staged)
{
    return team_takes_collective(staged->team);
}

void staged_stop(struct staged *staged)
{
    channels_stop(staged);
}

bool staged_ended_well(struct staged *staged)
{
    pthread_mutex_lock(&staged->lock);
    bool well = !staged->broken && staged->told != staged->issued;
    staged->told = staged->issued;
    pthread_mutex_unlock(&staged->lock);
    return well;
}

bool staged_tells(const struct staged *staged)
{
    return staged->copies != NULL;
}

size_t staged_memory(const struct staged *staged)
{
    return sizeof *staged + (size_t)staged->channels * SLICES * staged->slice_bytes;
}

/* ---- Life ---- */

static tutti_result_t make_word(struct staged *staged)
{
    void *word = NULL;
    tutti_result_t result =
        cuda_check(staged->cu->MemHostAlloc(&word, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                   "allocating pinned memory");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(word, 0, 64);
    staged->done = word;
    return cuda_check(staged->cu->MemHostGetDevicePointer(&staged->done_device, word, 0),
                      "finding a word's device address");
}

/* Nothing has been issued. */
static void staged_end_all(struct staged *staged)
{
    void *pinned[STAGED_PINNED] = {NULL};
    const struct cuda_driver *cu = staged->cu;
    staged_close(staged, pinned);
    for (int i = 0; i < STAGED_PINNED; i++)
        if (pinned[i])
            cu->MemFreeHost(pinned[i]);
}

tutti_result_t staged_open(struct team *team, struct cuda_device *device, struct staged **out)
{
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for staging");
    staged->team = team;
    staged->device = device;
    staged->slice_bytes = (size_t)param_int(PARAM_STAGE_SLICE) / CACHE_LINE * CACHE_LINE;
    list_init(&staged->jobs);
    pthread_mutex_init(&staged->lock, NULL);
    pthread_mutex_init(&staged->doubt.lock, NULL);
    pthread_cond_init(&staged->doubt.news, NULL);
    tutti_result_t result = cuda_driver(&staged->cu);
    if (result == TUTTI_SUCCESS)
        result = make_word(staged);
    channels_prepare(staged);
    if (result == TUTTI_SUCCESS)
        result = channels_open(staged);
    if (result == TUTTI_SUCCESS)
        *out = staged;
    else
        staged_end_all(staged);
    return result;
}

void staged_close(struct staged *staged, void *pinned[STAGED_PINNED])
{
    if (!staged)
        return;
    channels_close(staged);
    pinned[0] = (void *)staged->done;
    pinned[1] = staged->pinned;
    pinned[2] = staged->copies;
    pthread_mutex_destroy(&staged->lock);
    pthread_mutex_destroy(&staged->doubt.lock);
    pthread_cond_destroy(&staged->doubt.news);
    free(staged);
}
