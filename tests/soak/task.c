/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation: copies in streams fill its buffers in front of it and read them behind it. So it is seen if the
 * operation begins too early or ends too late. Directly behind it the buffers are overwritten, and some are freed:
 * others may not look at them any more.
 */
#include "soak.h"

#include <stdlib.h>
#include <string.h>

#define ARENA ((size_t)64 << 20)
#define PIECE ((size_t)2 << 20)
#define AFTER 0xee /* what is in a buffer when it is given back */

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---- Memory ---- */

static void map_piece(struct actor *actor, CUdeviceptr at, size_t size, int device, bool shareable)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    DONE(cu.MemCreate(&handle, size, &prop, 0));
    DONE(cu.MemMap(at, size, 0, handle, 0));
    DONE(cu.MemSetAccess(at, size, &who, 1));
    DONE(cu.MemRelease(handle));
}

/* Over the end of a piece. */
static void make_pieces(struct actor *actor, struct work *work, int gpu, bool shareable)
{
    work->piece = rounded(work->room, PIECE);
    DONE(cu.MemAddressReserve(&work->reserved, 2 * work->piece, 0, 0, 0));
    map_piece(actor, work->reserved, work->piece, gpu, shareable);
    map_piece(actor, work->reserved + work->piece, work->piece, gpu, shareable);
    work->at = work->reserved + work->piece - work->room / 2 / 256 * 256;
}

/* As programs do that keep large blocks and cut them themselves. */
static void cut_arena(struct actor *actor, struct work *work, struct gpu *gpu)
{
    if (!gpu->arena)
        DONE(cu.MemAlloc(&gpu->arena, ARENA));
    if (gpu->arena_used + work->room > ARENA)
        wrong(actor, "the arena is too small", 0);
    work->at = gpu->arena + gpu->arena_used;
    gpu->arena_used += rounded(work->room, 256);
}

static void make_work(struct actor *actor, const struct task *task, struct work *work, int gpu, uint64_t hash)
{
    void *memory = NULL;
    work->place = (enum place)(hash % PLACES);
    if (task->captured && (work->place == FROM_POOL || work->place == FROM_ARENA))
        work->place = FROM_DRIVER;
    if (work->place == FROM_ARENA && actor->gpu[gpu].arena_used + work->room > ARENA / 2)
        work->place = FROM_DRIVER;
    switch (work->place) {
    case FROM_NCCL:
        DONE(ncclMemAlloc(&memory, work->room));
        work->at = (CUdeviceptr)(uintptr_t)memory;
        break;
    case FROM_POOL:
        break; /* in its stream */
    case FROM_ARENA:
        cut_arena(actor, work, &actor->gpu[gpu]);
        break;
    case IN_PIECES:
        make_pieces(actor, work, gpu, hash / PLACES % 2);
        break;
    case MANAGED:
        DONE(cu.MemAllocManaged(&work->at, work->room, 1));
        break;
    default:
        DONE(cu.MemAlloc(&work->at, work->room));
    }
}

static void end_work(struct actor *actor, struct work *work)
{
    if (!work->at)
        return;
    if (work->place == FROM_NCCL) {
        DONE(ncclMemFree((void *)(uintptr_t)work->at));
    } else if (work->place == IN_PIECES) {
        for (int i = 0; i < 2; i++)
            DONE(cu.MemUnmap(work->reserved + (size_t)i * work->piece, work->piece));
        DONE(cu.MemAddressFree(work->reserved, 2 * work->piece));
    } else if (work->place == FROM_DRIVER || work->place == MANAGED) {
        DONE(cu.MemFree(work->at));
    }
    work->at = 0;
}

/* ---- Before the call ---- */

static struct job job_of(const struct task *task, int gpu)
{
    struct job job = task->job;
    job.root %= task->ranks.size[gpu];
    job.seed += (uint64_t)task->ranks.color[gpu];
    return job;
}

static void prepare_part(struct actor *actor, struct task *task, int gpu)
{
    struct part *part = &task->part[gpu];
    struct job *job = &part->job;
    CUstream side = actor->gpu[gpu].side;
    size_t at = 0;
    uint64_t scalar, hash = data_hash(task->key, (uint64_t)gpu + 100);
    *job = job_of(task, gpu);
    job_prepare(job, NULL, task->ranks.rank[gpu], task->ranks.size[gpu]);
    for (int i = 0; i < 2 && job->memory[i]; i++) {
        part->work[i].room = job_room(job, i);
        part->begin[i] = at;
        part->after[i] = at + rounded(part->work[i].room, 256);
        at = part->after[i] + rounded(part->work[i].room, 256);
        make_work(actor, task, &part->work[i], gpu, hash >> (16 * i));
    }
    part->scalar = at;
    scalar = data_scalar(job->type, job->rank);
    DONE(cu.MemAlloc(&part->aux, at + 16));
    DONE(cu.MemcpyHtoDAsync(part->aux + at, &scalar, sizeof scalar, side));
    for (int i = 0; i < 2 && job->memory[i]; i++)
        DONE(cu.MemcpyHtoDAsync(part->aux + part->begin[i], job->memory[i], part->work[i].room, side));
    DONE(cu.StreamSynchronize(side));
}

void task_prepare(struct actor *actor, struct task *task)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        if (!plays(actor, &task->ranks, gpu))
            continue;
        select_gpu(actor, gpu);
        prepare_part(actor, task, gpu);
    }
}

static void hop(struct actor *actor, int gpu, CUstream from, CUstream to)
{
    if (from == to)
        return;
    DONE(cu.EventRecord(actor->gpu[gpu].event, from));
    DONE(cu.StreamWaitEvent(to, actor->gpu[gpu].event, 0));
}

static int stream_number(const struct task *task, int gpu)
{
    return (task->stream + (task->shifts ? gpu : 0)) % STREAMS;
}

static CUstream stream_of(const struct actor *actor, const struct task *task, int gpu)
{
    return actor->gpu[gpu].stream[stream_number(task, gpu)];
}

/* Every rank makes a call, which has something to do. */
static bool is_sure(const struct task *task)
{
    enum job_kind kind = task->job.kind;
    return task->job.count && (kind == JOB_ALLREDUCE || kind == JOB_REDUCE || kind == JOB_REDUCE_SCATTER ||
                               kind == JOB_BROADCAST || kind == JOB_ALLGATHER);
}

void task_join(struct task *task, struct task **group, int count, int gpu)
{
    for (int i = 0; i < count; i++)
        if (group[i]->family == task->family && is_sure(group[i]) && is_sure(task))
            task->joined[gpu] |= 1u << stream_number(group[i], gpu);
}

void task_before(struct actor *actor, struct task *task, int gpu)
{
    struct part *part = &task->part[gpu];
    CUstream stream = actor->gpu[gpu].stream[task->before];
    for (int i = 0; i < 2 && part->job.memory[i]; i++) {
        if (part->work[i].place == FROM_POOL)
            DONE(cu.MemAllocAsync(&part->work[i].at, part->work[i].room, stream));
        DONE(cu.MemcpyDtoDAsync(part->work[i].at, part->aux + part->begin[i], part->work[i].room, stream));
    }
    if (!(task->joined[gpu] >> task->before & 1))
        hop(actor, gpu, stream, stream_of(actor, task, gpu));
}

void task_behind(struct actor *actor, struct task *task, int gpu)
{
    struct part *part = &task->part[gpu];
    CUstream stream = actor->gpu[gpu].stream[task->behind];
    if (!(task->joined[gpu] >> task->behind & 1))
        hop(actor, gpu, stream_of(actor, task, gpu), stream);
    for (int i = 0; i < 2 && part->job.memory[i]; i++) {
        DONE(cu.MemcpyDtoDAsync(part->aux + part->after[i], part->work[i].at, part->work[i].room, stream));
        DONE(cu.MemsetD8Async(part->work[i].at, AFTER, part->work[i].room, stream));
        if (part->work[i].place == FROM_POOL) {
            DONE(cu.MemFreeAsync(part->work[i].at, stream));
            part->work[i].at = 0;
        }
    }
}

/* ---- The call ---- */

struct call_of {
    const char *in;
    char *out;
    size_t count, size;
    ncclDataType_t type;
    ncclComm_t comm;
    cudaStream_t stream;
};

static ncclResult_t worse(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess ? b : a;
}

static ncclResult_t send_some(const struct call_of *call, size_t from, size_t count, int peer)
{
    return ncclSend(call->in + from * call->size, count, call->type, peer, call->comm, call->stream);
}

static ncclResult_t recv_some(const struct call_of *call, size_t to, size_t count, int peer)
{
    return ncclRecv(call->out + to * call->size, count, call->type, peer, call->comm, call->stream);
}

/* Peers come in an order of this rank's own. */
static ncclResult_t pairs(const struct task *task, const struct job *job, const struct call_of *call)
{
    ncclResult_t result = ncclSuccess;
    int n = job->nranks;
    uint64_t hash = data_hash(task->key, (uint64_t)job->rank);
    for (int i = 0; i < 2 * n; i++) {
        int at = (int)(((uint64_t)i + hash) % (2 * (uint64_t)n)), peer = hash >> 30 & 1 ? at % n : n - 1 - at % n;
        bool sends = (at < n) == (hash >> 31 & 1);
        size_t count = job->counts[sends ? 0 : 2][peer], offset = job->counts[sends ? 1 : 3][peer];
        if (!count && !task->with_zeros)
            continue;
        result = worse(result, sends ? send_some(call, offset, count, peer) : recv_some(call, offset, count, peer));
    }
    return result;
}

static ncclResult_t ring(const struct job *job, const struct call_of *call)
{
    int next = (job->rank + 1) % job->nranks, last = (job->rank + job->nranks - 1) % job->nranks;
    ncclResult_t result = send_some(call, 0, job->count, next);
    result = worse(result, recv_some(call, 0, job->count, last));
    result = worse(result, recv_some(call, job->count, job->count, job->rank));
    return worse(result, send_some(call, job->count, job->count, job->rank));
}

static ncclResult_t several(const struct task *task, const struct job *job, const struct call_of *call)
{
    ncclResult_t result = ncclGroupStart();
    result = worse(result, job->kind == JOB_EXCHANGE ? ring(job, call) : pairs(task, job, call));
    return worse(ncclGroupEnd(), result);
}

static ncclResult_t reduction(const struct task *task, const struct part *part, const struct call_of *call)
{
    const struct job *job = &part->job;
    uint64_t scalar = data_scalar(job->type, job->rank);
    ncclRedOp_t op = (ncclRedOp_t)job->op;
    ncclResult_t result = ncclSuccess;
    if (job->op == DATA_PREMUL)
        result = ncclRedOpCreatePreMulSum(
            &op, task->device_scalar ? (void *)(uintptr_t)(part->aux + part->scalar) : &scalar, call->type,
            task->device_scalar ? ncclScalarDevice : ncclScalarHostImmediate, call->comm);
    if (result != ncclSuccess)
        return result;
    if (job->kind == JOB_ALLREDUCE)
        result = ncclAllReduce(call->in, call->out, call->count, call->type, op, call->comm, call->stream);
    else if (job->kind == JOB_REDUCE)
        result = ncclReduce(call->in, call->out, call->count, call->type, op, job->root, call->comm, call->stream);
    else
        result = ncclReduceScatter(call->in, call->out, call->count, call->type, op, call->comm, call->stream);
    return job->op == DATA_PREMUL ? worse(ncclRedOpDestroy(op, call->comm), result) : result;
}

ncclResult_t task_issue(struct actor *actor, struct task *task, int gpu)
{
    const struct part *part = &task->part[gpu];
    const struct job *job = &part->job;
    int second = job->memory[1] != NULL;
    struct call_of c = {.in = (char *)(uintptr_t)part->work[0].at + (job->send - job->memory[0]),
                        .out = (char *)(uintptr_t)part->work[second].at + (job->recv - job->memory[second]),
                        .count = job->count,
                        .size = data_size(job->type),
                        .type = (ncclDataType_t)job->type,
                        .comm = actor->comm[task->family][gpu],
                        .stream = (cudaStream_t)stream_of(actor, task, gpu)};
    switch (job->kind) {
    case JOB_BROADCAST:
        return ncclBroadcast(c.in, c.out, c.count, c.type, job->root, c.comm, c.stream);
    case JOB_ALLGATHER:
        return ncclAllGather(c.in, c.out, c.count, c.type, c.comm, c.stream);
    case JOB_GATHER:
        return ncclGather(c.in, c.out, c.count, c.type, job->root, c.comm, c.stream);
    case JOB_SCATTER:
        return ncclScatter(c.in, c.out, c.count, c.type, job->root, c.comm, c.stream);
    case JOB_ALLTOALL:
        return ncclAlltoAll(c.in, c.out, c.count, c.type, c.comm, c.stream);
    case JOB_ALLTOALLV:
    case JOB_EXCHANGE:
        return several(task, job, &c);
    default:
        return reduction(task, part, &c);
    }
}

/* ---- After it ---- */

void task_blank(struct actor *actor, struct task *task, int gpu, CUstream stream)
{
    struct part *part = &task->part[gpu];
    for (int i = 0; i < 2 && part->job.memory[i]; i++)
        DONE(cu.MemsetD8Async(part->aux + part->after[i], 0x11, part->work[i].room, stream));
}

void task_check(struct actor *actor, struct task *task)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        struct part *part = &task->part[gpu];
        if (!plays(actor, &task->ranks, gpu) || task->given_up)
            continue;
        select_gpu(actor, gpu);
        for (int i = 0; i < 2 && part->job.memory[i]; i++)
            DONE(cu.MemcpyDtoH(part->job.memory[i], part->aux + part->after[i], part->work[i].room));
        if (!job_check(&part->job))
            wrong(actor, "a wrong result", gpu);
        atomic_fetch_add(&run.shared->tasks, 1);
        atomic_fetch_add(&run.shared->bytes, part->job.bytes[0] + part->job.bytes[1]);
    }
}

void task_free(struct actor *actor, struct task *task)
{
    for (int gpu = actor->first; gpu < actor->first + actor->count; gpu++) {
        struct part *part = &task->part[gpu];
        if (!plays(actor, &task->ranks, gpu))
            continue;
        select_gpu(actor, gpu);
        end_work(actor, &part->work[0]);
        end_work(actor, &part->work[1]);
        DONE(cu.MemFree(part->aux));
        job_free(&part->job);
    }
    free(task);
}
