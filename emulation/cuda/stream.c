/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a stream and the thread that works it off. */
#include "cuda/stream.h"
#include "cuda/memory.h"
#include "cuda/private.h"

#include "base/clock.h"

#include <stdlib.h>

static unsigned long long last_id;

/* An operation holds others only until they are done: else each would keep all before it. */
static void op_finish(struct stream_op *op)
{
    op->done = true;
    op->finished_ns = clock_ns();
    work_clear(&op->work);
    state_changed();
}

static void op_start(struct stream_op *op)
{
    for (; op->after_count; op_unref(op->after[op->after_count]))
        op_wait(op->after[--op->after_count]);
}

static int queue_of(const struct CUstream_st *stream)
{
    return (int)(stream->id % (unsigned long long)config_get()->connections);
}

/* In a queue that streams share, work begins in the order in which it was put there. */
static void queue_wait(const struct CUstream_st *stream, const struct stream_op *op)
{
    while (config_get()->connections && stream->context->queues[queue_of(stream)].begun != op->place)
        state_wait();
}

static void queue_pass(const struct CUstream_st *stream)
{
    if (!config_get()->connections)
        return;
    stream->context->queues[queue_of(stream)].begun++;
    state_changed();
}

/* Work that has begun only when what it waits for is there. */
static bool begins_late(const struct work *work)
{
    return work->kind == WORK_MEMOPS;
}

static void stream_free(CUstream stream)
{
    op_unref(stream->last);
    pthread_cond_destroy(&stream->more);
    free(stream);
}

static void *work_off(void *data)
{
    CUstream stream = data;
    private_allow(true);
    pthread_setname_np(pthread_self(), "emulated-gpu");
    state_lock();
    while (stream->head || !stream->closing) {
        struct stream_op *op = stream->head;
        if (!op) {
            state_wait_for(&stream->more);
            continue;
        }
        bool late = begins_late(&op->work);
        op_start(op);
        queue_wait(stream, op);
        if (!late)
            queue_pass(stream);
        state_unlock();
        work_run(&op->work);
        state_lock();
        if (late)
            queue_pass(stream);
        stream->head = op->next;
        stream->queued--;
        op_finish(op);
        op_unref(op);
    }
    stream_free(stream);
    state_unlock();
    return NULL;
}

CUresult stream_new(CUcontext context, unsigned flags, int priority, CUstream *out)
{
    CUstream stream = calloc(1, sizeof(*stream));
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_cond_init(&stream->more, NULL);
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++last_id;
    stream->next = context->streams;
    context->streams = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

void stream_close(CUstream stream)
{
    CUstream *at = &stream->context->streams;
    capture_leave(stream);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->closing = true;
    if (stream->running)
        pthread_cond_signal(&stream->more);
    else
        stream_free(stream);
}

static bool start_thread(CUstream stream)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (stream->running)
        return true;
    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    stream->running = !pthread_create(&thread, &attributes, work_off, stream);
    pthread_attr_destroy(&attributes);
    return stream->running;
}

static void must_follow(struct stream_op *op, struct stream_op *before)
{
    if (!before || before->done)
        return;
    op_ref(before);
    op->after[op->after_count++] = before;
}

/* The legacy default stream and the blocking streams of a context wait for each other. */
static void add_implicit(CUstream stream, struct stream_op *op)
{
    CUcontext context = stream->context;
    if (!stream->legacy && context->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING))
        must_follow(op, context->legacy->last);
    for (CUstream s = stream->legacy ? context->streams : NULL; s; s = s->next)
        if (s != stream && !(s->flags & CU_STREAM_NON_BLOCKING))
            must_follow(op, s->last);
}

static size_t count_streams(CUcontext context)
{
    size_t count = 0;
    for (CUstream s = context->streams; s; s = s->next)
        count++;
    return count;
}

static void append(CUstream stream, struct stream_op *op)
{
    op->refs += 2; /* of the queue and of `last` */
    if (config_get()->connections)
        op->place = stream->context->queues[queue_of(stream)].given++;
    if (stream->head)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    stream->queued++;
    op_unref(stream->last);
    stream->last = op;
    pthread_cond_signal(&stream->more);
}

static CUresult enqueue(CUstream stream, struct work *work, struct stream_op *before, struct stream_op **out)
{
    size_t most = 2 + (stream->legacy ? count_streams(stream->context) : 0);
    struct stream_op *op = calloc(1, sizeof(*op));
    if (op && !(op->after = calloc(most, sizeof(*op->after)))) {
        free(op);
        op = NULL;
    }
    if (!op || !start_thread(stream)) {
        if (op)
            free(op->after);
        free(op);
        work_clear(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->work = *work;
    must_follow(op, before);
    add_implicit(stream, op);
    append(stream, op);
    if (out) {
        op_ref(op);
        *out = op;
    }
    return CUDA_SUCCESS;
}

CUresult stream_submit(CUstream stream, struct work *work, struct stream_op **op)
{
    CUresult result = stream->context->error;
    if (stream->capture)
        return capture_add(stream, work);
    if (!result && stream->legacy && capture_blocks_legacy(stream->context, true))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (result) {
        work_clear(work);
        return result;
    }
    while (stream->queued >= STREAM_ROOM)
        state_wait();
    return enqueue(stream, work, work->kind == WORK_GRAPH ? work->graph->last : NULL, op);
}

CUresult stream_after(CUstream stream, struct stream_op *op)
{
    struct work work = {.kind = WORK_EMPTY, .context = stream->context};
    return enqueue(stream, &work, op, NULL);
}

void stream_wait(CUstream stream)
{
    struct stream_op *op = stream->last;
    if (!op)
        return;
    op_ref(op);
    op_wait(op);
    op_unref(op);
}

static CUresult default_stream(CUcontext context, bool per_thread, CUstream *out)
{
    CUstream stream = per_thread ? context->streams : context->legacy;
    while (per_thread && stream && !(stream->per_thread && pthread_equal(stream->owner, pthread_self())))
        stream = stream->next;
    CUresult result = stream ? CUDA_SUCCESS : stream_new(context, 0, 0, &stream);
    if (result)
        return result;
    stream->legacy = !per_thread;
    stream->per_thread = per_thread;
    stream->owner = pthread_self();
    if (!per_thread)
        context->legacy = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult stream_find(CUstream handle, CUstream *out)
{
    CUcontext context = context_current();
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return context ? default_stream(context, handle == CU_STREAM_PER_THREAD, out) : CUDA_ERROR_INVALID_CONTEXT;
    for (CUcontext c = context_next(NULL); c; c = context_next(c))
        for (CUstream s = c->streams; s; s = s->next)
            if (s == handle) {
                *out = s;
                return CUDA_SUCCESS;
            }
    return CUDA_ERROR_INVALID_HANDLE;
}
