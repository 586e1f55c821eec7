/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread carries out jobs. It cuts a job into slices of elements and has three of them under way: one is being copied from
 * the GPU, one is with the team, one is being copied to the GPU. The user's stream waits for a word that the job's last copy
 * writes.
 */
#include "fabric/staged.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/list.h"
#include "device/cuda/driver.h"
#include "device/type.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLICES      3
#define SLICE_BYTES ((size_t)4 << 20) /* of input and of output; and what is sent to a peer at a time */

/* A collective, or the sends and receives of a group. */
struct job {
    struct list node;
    struct call call;
    struct p2p_item *items; /* NULL: a collective */
    int count;
    uint32_t sequence;
    CUevent ready; /* the user's stream has come to it */
};

struct slice {
    char *memory; /* pinned; input, then output */
    CUevent copied_in, copied_out;
    uint64_t position; /* in the team's queue */
    size_t from, count; /* elements of each block */
};

/* Blocks of elements in the GPU's memory and their place in a slice. */
struct layout {
    size_t in_blocks, out_blocks;
};

struct staged {
    struct team *team;
    struct cuda_device *device;
    const struct cuda_driver *cu;
    CUstream in, out;
    _Atomic uint32_t *done; /* pinned: the last job that is complete */
    CUdeviceptr done_device;
    void *pinned; /* all slices. Made before anything waits: pinning memory may wait for all work of the GPU */
    struct slice slice[SLICES];
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct list jobs;
    uint32_t issued;
    pthread_t thread;
    bool thread_runs, stop;
};

/* ---- Slices -------------------------------------------------------------------------------------------------------- */

static struct layout layout_of(const struct staged *staged, const struct call *call)
{
    size_t n = (size_t)staged->team->nranks;
    bool root = staged->team->rank == call->root;
    switch (call->coll) {
    case COLL_ALLGATHER:
        return (struct layout){1, n};
    case COLL_REDUCE_SCATTER:
        return (struct layout){n, 1};
    case COLL_ALLTOALL:
        return (struct layout){n, n};
    case COLL_GATHER:
        return (struct layout){1, root ? n : 0};
    case COLL_SCATTER:
        return (struct layout){root ? n : 0, 1};
    case COLL_BROADCAST:
        return (struct layout){root ? 1 : 0, 1};
    case COLL_REDUCE:
        return (struct layout){1, root ? 1 : 0};
    case COLL_BARRIER:
        return (struct layout){0, 0};
    default:
        return (struct layout){1, 1};
    }
}

/* A slice's blocks: from the GPU, or to it. */
static tutti_result_t copy_blocks(struct staged *staged, const struct slice *slice, void *gpu, void *host, size_t blocks, size_t stride,
                                  size_t size, bool to_gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < blocks && result == TUTTI_SUCCESS; i++) {
        CUdeviceptr there = (CUdeviceptr)(uintptr_t)((char *)gpu + (i * stride + slice->from) * size);
        CUdeviceptr here = (CUdeviceptr)(uintptr_t)((char *)host + i * slice->count * size);
        result = cuda_check(staged->cu->MemcpyAsync(to_gpu ? there : here, to_gpu ? here : there, slice->count * size,
                                                    to_gpu ? staged->out : staged->in), "staging through host memory");
    }
    return result;
}

static char *out_part(const struct slice *slice, struct layout layout, size_t size)
{
    return slice->memory + layout.in_blocks * slice->count * size;
}

/* ---- The three stages of a slice ----------------------------------------------------------------------------------- */

static tutti_result_t begin_slice(struct staged *staged, const struct job *job, struct slice *slice, struct layout layout)
{
    size_t size = type_size(job->call.type);
    tutti_result_t result = cuda_check(staged->cu->EventSynchronize(slice->copied_out), "waiting for a slice's memory");
    if (result == TUTTI_SUCCESS)
        result = copy_blocks(staged, slice, (void *)(uintptr_t)job->call.in, slice->memory, layout.in_blocks, job->call.count, size, false);
    return result == TUTTI_SUCCESS ? cuda_check(staged->cu->EventRecord(slice->copied_in, staged->in), "marking a copy") : result;
}

static tutti_result_t hand_to_team(struct staged *staged, const struct job *job, struct slice *slice, struct layout layout)
{
    struct call call = job->call;
    tutti_result_t result = cuda_check(staged->cu->EventSynchronize(slice->copied_in), "waiting for a copy");
    call.count = slice->count;
    call.in = slice->memory;
    call.out = out_part(slice, layout, type_size(call.type));
    if (result == TUTTI_SUCCESS)
        result = team_collective(staged->team, &call, NULL, NULL);
    slice->position = atomic_load(&staged->team->issued);
    return result;
}

static tutti_result_t end_slice(struct staged *staged, const struct job *job, struct slice *slice, struct layout layout)
{
    size_t size = type_size(job->call.type);
    tutti_result_t result = team_wait(staged->team, slice->position);
    if (result == TUTTI_SUCCESS)
        result = copy_blocks(staged, slice, job->call.out, out_part(slice, layout, size), layout.out_blocks, job->call.count, size, true);
    return result == TUTTI_SUCCESS ? cuda_check(staged->cu->EventRecord(slice->copied_out, staged->out), "marking a copy") : result;
}

/* ---- Jobs ---------------------------------------------------------------------------------------------------------- */

/* Equal on all ranks: the most that any rank has of it in one slice is what counts. */
static size_t slice_count(const struct staged *staged, const struct call *call)
{
    size_t wide = SLICE_BYTES / (type_size(call->type) * (call->coll == COLL_ALLREDUCE || call->coll == COLL_BROADCAST || call->coll == COLL_REDUCE
                                                              ? 1 : (size_t)staged->team->nranks));
    return wide ? wide : 1;
}

static tutti_result_t take_scalar(struct staged *staged, struct call *call)
{
    uint64_t scalar = 0;
    tutti_result_t result = cuda_check(staged->cu->MemcpyAsync((CUdeviceptr)(uintptr_t)&scalar, (CUdeviceptr)(uintptr_t)call->scalar_at,
                                                               type_size(call->type), staged->in), "reading a scalar");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->StreamSynchronize(staged->in), "reading a scalar");
    call->scalar = scalar;
    call->scalar_at = NULL;
    return result;
}

static tutti_result_t run_collective(struct staged *staged, struct job *job)
{
    struct layout layout = layout_of(staged, &job->call);
    size_t each = slice_count(staged, &job->call), slices = job->call.count ? (job->call.count + each - 1) / each : 1;
    tutti_result_t result = job->call.scalar_at ? take_scalar(staged, &job->call) : TUTTI_SUCCESS;
    for (size_t step = 0; step < slices + 2 && result == TUTTI_SUCCESS; step++) {
        struct slice *first = &staged->slice[step % SLICES], *second = &staged->slice[(step + 2) % SLICES], *third = &staged->slice[(step + 1) % SLICES];
        if (step < slices) {
            first->from = step * each;
            first->count = job->call.count - first->from < each ? job->call.count - first->from : each;
            result = begin_slice(staged, job, first, layout);
        }
        if (result == TUTTI_SUCCESS && step >= 1 && step <= slices)
            result = hand_to_team(staged, job, second, layout);
        if (result == TUTTI_SUCCESS && step >= 2)
            result = end_slice(staged, job, third, layout);
    }
    return result;
}

static tutti_result_t copy_item(struct staged *staged, const struct p2p_item *item, void *host, size_t from, size_t bytes, bool to_gpu)
{
    CUdeviceptr gpu = (CUdeviceptr)(uintptr_t)((char *)item->data + from), pinned = (CUdeviceptr)(uintptr_t)host;
    return cuda_check(staged->cu->MemcpyAsync(to_gpu ? gpu : pinned, to_gpu ? pinned : gpu, bytes, to_gpu ? staged->out : staged->in),
                      "staging through host memory");
}

/* Bytes of an item from `from` on that are carried at a time; both ends cut alike. */
static size_t item_bytes(const struct p2p_item *item, size_t from)
{
    size_t bytes = item->count * type_size(item->type);
    return from >= bytes ? 0 : bytes - from < SLICE_BYTES ? bytes - from : SLICE_BYTES;
}

/* One piece of every item that is not at its end. `place`: where pieces lie in host memory. */
static tutti_result_t run_round(struct staged *staged, const struct job *job, char *const *place, struct p2p_item *items, size_t from)
{
    int count = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < job->count && result == TUTTI_SUCCESS; i++) {
        size_t bytes = item_bytes(&job->items[i], from);
        if (!bytes && from)
            continue;
        items[count] = job->items[i];
        items[count].data = place[i];
        items[count].type = TUTTI_UINT8;
        items[count++].count = bytes;
        if (job->items[i].sends && bytes)
            result = copy_item(staged, &job->items[i], place[i], from, bytes, false);
    }
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->StreamSynchronize(staged->in), "staging through host memory");
    if (result == TUTTI_SUCCESS)
        result = p2p_issue(staged->team, items, count, NULL);
    if (result == TUTTI_SUCCESS)
        result = team_wait(staged->team, atomic_load(&staged->team->issued));
    for (int i = 0; i < job->count && result == TUTTI_SUCCESS; i++) {
        size_t bytes = item_bytes(&job->items[i], from);
        if (!job->items[i].sends && bytes)
            result = copy_item(staged, &job->items[i], place[i], from, bytes, true);
    }
    return result == TUTTI_SUCCESS ? cuda_check(staged->cu->StreamSynchronize(staged->out), "staging through host memory") : result;
}

static size_t padded(size_t bytes)
{
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Items get pinned memory as far as it goes round. The rest is carried by pageable memory, which is slower. */
static tutti_result_t find_places(struct staged *staged, const struct job *job, char **place, char **pageable)
{
    size_t left = SLICES * 2 * SLICE_BYTES, more = 0;
    for (int i = 0; i < job->count; i++) {
        size_t bytes = padded(item_bytes(&job->items[i], 0));
        bool fits = bytes <= left;
        place[i] = fits ? (char *)staged->pinned + SLICES * 2 * SLICE_BYTES - left : NULL;
        left -= fits ? bytes : 0;
        more += fits ? 0 : bytes;
    }
    *pageable = more ? malloc(more) : NULL;
    if (more && !*pageable)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu bytes of sends and receives", more);
    for (int i = job->count - 1; i >= 0; i--)
        if (!place[i])
            place[i] = *pageable + (more -= padded(item_bytes(&job->items[i], 0)));
    return TUTTI_SUCCESS;
}

static tutti_result_t run_p2p(struct staged *staged, const struct job *job)
{
    size_t longest = 0;
    struct p2p_item *items = calloc((size_t)job->count, sizeof *items);
    char **place = calloc((size_t)job->count, sizeof *place), *pageable = NULL;
    tutti_result_t result = items && place ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", job->count);
    for (int i = 0; i < job->count; i++) {
        size_t bytes = job->items[i].count * type_size(job->items[i].type);
        longest = bytes > longest ? bytes : longest;
    }
    if (result == TUTTI_SUCCESS)
        result = find_places(staged, job, place, &pageable);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->StreamSynchronize(staged->out), "waiting for the slices' memory");
    for (size_t from = 0; (from < longest || !from) && result == TUTTI_SUCCESS; from += SLICE_BYTES)
        result = run_round(staged, job, place, items, from);
    if (result != TUTTI_SUCCESS)
        staged->cu->StreamSynchronize(staged->in); /* it may still be reading what is freed here */
    free(pageable);
    free(place);
    free(items);
    return result;
}

/* All that a job needs is its own; done is written even when it failed, so that no stream waits for ever. */
static void run_job(struct staged *staged, struct job *job)
{
    tutti_result_t result = team_failure(staged->team);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->EventSynchronize(job->ready), "waiting for the user's stream");
    if (result == TUTTI_SUCCESS)
        result = job->items ? run_p2p(staged, job) : run_collective(staged, job);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->StreamWriteValue32(staged->out, staged->done_device, job->sequence, 0), "ending a job");
    if (result != TUTTI_SUCCESS) {
        team_fail(staged->team, result, staged->team->rank, error_last());
        staged->cu->StreamSynchronize(staged->in); /* the user, or whoever closes this, may free what it still copies */
        staged->cu->StreamSynchronize(staged->out); /* an earlier job's number must not come after this one */
        atomic_store(staged->done, job->sequence);
    }
    staged->cu->EventDestroy(job->ready);
    free(job->items);
    free(job);
}

static void *work(void *argument)
{
    struct staged *staged = argument;
    cuda_enter(staged->device);
    pthread_mutex_lock(&staged->lock);
    for (;;) {
        while (list_empty(&staged->jobs) && !staged->stop)
            pthread_cond_wait(&staged->news, &staged->lock);
        if (list_empty(&staged->jobs))
            break;
        struct job *job = list_entry(staged->jobs.next, struct job, node);
        list_remove(&job->node);
        pthread_mutex_unlock(&staged->lock);
        run_job(staged, job);
        pthread_mutex_lock(&staged->lock);
    }
    pthread_mutex_unlock(&staged->lock);
    cuda_leave();
    return NULL;
}

/* ---- Issuing ------------------------------------------------------------------------------------------------------- */

static tutti_result_t enqueue(struct staged *staged, struct job *job, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result = cuda_check(staged->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    if (result == TUTTI_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        result = error_set(TUTTI_INVALID_USAGE, "a graph cannot hold collectives of GPUs that share no memory");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->EventCreate(&job->ready, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(staged->cu->EventRecord(job->ready, stream), "marking a stream");
    if (result != TUTTI_SUCCESS) {
        free(job->items);
        free(job);
        return result;
    }
    pthread_mutex_lock(&staged->lock);
    uint32_t sequence = job->sequence = ++staged->issued;
    list_push(&staged->jobs, &job->node);
    pthread_cond_signal(&staged->news);
    pthread_mutex_unlock(&staged->lock);
    return cuda_check(staged->cu->StreamWaitValue32(stream, staged->done_device, sequence, CU_STREAM_WAIT_VALUE_GEQ), "waiting for a job");
}

static struct job *new_job(int items)
{
    struct job *job = calloc(1, sizeof *job);
    if (job && items)
        job->items = calloc((size_t)items, sizeof *job->items);
    if (job && (!items || job->items))
        return job;
    free(job);
    error_set(TUTTI_SYSTEM_ERROR, "no memory for an operation");
    return NULL;
}

/* alltoallv is sends and receives of different lengths. */
static void describe_vector(const struct call *call, int nranks, struct p2p_item *items)
{
    size_t size = type_size(call->type);
    for (int peer = 0; peer < nranks; peer++) {
        items[peer] = (struct p2p_item){true, peer, (char *)(uintptr_t)call->in + call->send_offsets[peer] * size, call->send_counts[peer], call->type};
        items[nranks + peer] = (struct p2p_item){false, peer, (char *)call->out + call->recv_offsets[peer] * size, call->recv_counts[peer], call->type};
    }
}

tutti_result_t staged_collective(struct staged *staged, const struct call *call, CUstream stream)
{
    int nranks = staged->team->nranks;
    struct job *job = new_job(call->coll == COLL_ALLTOALLV ? 2 * nranks : 0);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    job->call = *call;
    job->count = call->coll == COLL_ALLTOALLV ? 2 * nranks : 0;
    if (job->items)
        describe_vector(call, nranks, job->items);
    return enqueue(staged, job, stream);
}

tutti_result_t staged_p2p(struct staged *staged, const struct p2p_item *items, int count, CUstream stream)
{
    struct job *job = new_job(count);
    if (!job)
        return TUTTI_SYSTEM_ERROR;
    memcpy(job->items, items, (size_t)count * sizeof *items);
    job->count = count;
    return enqueue(staged, job, stream);
}

size_t staged_memory(const struct staged *staged)
{
    return sizeof *staged + SLICES * 2 * SLICE_BYTES;
}

/* ---- Life ---------------------------------------------------------------------------------------------------------- */

static tutti_result_t make_streams(struct staged *staged)
{
    const struct cuda_driver *cu = staged->cu;
    tutti_result_t result = cuda_check(cu->StreamCreateWithPriority(&staged->in, CU_STREAM_NON_BLOCKING, 0), "making a stream");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->StreamCreateWithPriority(&staged->out, CU_STREAM_NON_BLOCKING, 0), "making a stream");
    for (int i = 0; i < SLICES && result == TUTTI_SUCCESS; i++) {
        result = cuda_check(cu->EventCreate(&staged->slice[i].copied_in, CU_EVENT_DISABLE_TIMING), "making an event");
        if (result == TUTTI_SUCCESS)
            result = cuda_check(cu->EventCreate(&staged->slice[i].copied_out, CU_EVENT_DISABLE_TIMING), "making an event");
    }
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->MemHostAlloc(&staged->pinned, SLICES * 2 * SLICE_BYTES, CU_MEMHOSTALLOC_PORTABLE), "allocating pinned memory");
    for (int i = 0; i < SLICES && result == TUTTI_SUCCESS; i++)
        staged->slice[i].memory = (char *)staged->pinned + (size_t)i * 2 * SLICE_BYTES;
    void *word = NULL;
    if (result == TUTTI_SUCCESS)
        result = cuda_check(cu->MemHostAlloc(&word, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), "allocating pinned memory");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(word, 0, 64);
    staged->done = word;
    return cuda_check(cu->MemHostGetDevicePointer(&staged->done_device, word, 0), "finding a word's device address");
}

tutti_result_t staged_open(struct team *team, struct cuda_device *device, struct staged **out)
{
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for staging");
    staged->team = team;
    staged->device = device;
    list_init(&staged->jobs);
    pthread_mutex_init(&staged->lock, NULL);
    pthread_cond_init(&staged->news, NULL);
    tutti_result_t result = cuda_driver(&staged->cu);
    if (result == TUTTI_SUCCESS && !device->memops)
        result = error_set(TUTTI_DEVICE_ERROR, "device %d has no stream memory operations", device->ordinal);
    if (result == TUTTI_SUCCESS)
        result = make_streams(staged);
    int error = result == TUTTI_SUCCESS ? pthread_create(&staged->thread, NULL, work, staged) : 0;
    staged->thread_runs = result == TUTTI_SUCCESS && !error;
    if (error)
        result = error_set(TUTTI_SYSTEM_ERROR, "cannot start a thread: %s", strerror(error));
    if (result == TUTTI_SUCCESS)
        *out = staged;
    else
        staged_close(staged);
    return result;
}

void staged_close(struct staged *staged)
{
    if (!staged)
        return;
    pthread_mutex_lock(&staged->lock);
    staged->stop = true;
    pthread_cond_signal(&staged->news);
    pthread_mutex_unlock(&staged->lock);
    if (staged->thread_runs)
        pthread_join(staged->thread, NULL);
    for (int i = 0; i < SLICES; i++) {
        struct slice *slice = &staged->slice[i];
        if (slice->copied_out)
            staged->cu->EventSynchronize(slice->copied_out);
        if (slice->copied_in)
            staged->cu->EventDestroy(slice->copied_in);
        if (slice->copied_out)
            staged->cu->EventDestroy(slice->copied_out);
    }
    if (staged->in)
        staged->cu->StreamDestroy(staged->in);
    if (staged->out)
        staged->cu->StreamDestroy(staged->out);
    if (staged->pinned)
        staged->cu->MemFreeHost(staged->pinned);
    if (staged->done)
        staged->cu->MemFreeHost((void *)staged->done);
    pthread_mutex_destroy(&staged->lock);
    pthread_cond_destroy(&staged->news);
    free(staged);
}
