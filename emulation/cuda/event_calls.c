/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of events. */
#include "cuda/call.h"
#include "cuda/stream.h"

#include <stdlib.h>

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    CALL(CALL_CONTEXT);
    if (!out || flags & ~7u || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUevent event = calloc(1, sizeof(*event));
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->refs = 1;
    event->flags = flags;
    event->context = context_current();
    *out = event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    CALL(CALL_INIT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    event_unref(event);
    state_unlock();
    return CUDA_SUCCESS;
}

/* A recording, or a wait, that graphs repeat: the event is told of each launch, or asked at each. */
static CUresult event_outside(enum work_kind kind, CUevent event, CUstream stream)
{
    struct work work = {.kind = kind, .ops = &event_work, .context = stream->context, .event = event};
    event_ref(event);
    return stream_submit(stream, &work, NULL);
}

static CUresult record(CUevent event, CUstream handle, unsigned flags)
{
    CUstream stream;
    struct stream_op *op = NULL;
    CUresult result = stream_find(handle, &stream);
    if (result)
        return result;
    if (stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return flags & CU_EVENT_RECORD_EXTERNAL ? event_outside(WORK_RECORD, event, stream)
                                                : capture_record(stream, event);
    struct work work = {.kind = WORK_EMPTY, .context = stream->context};
    result = stream_submit(stream, &work, &op);
    if (!result)
        event_set(event, op);
    return result;
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    CALL(CALL_INIT);
    if (!event || flags & ~1u)
        return event ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    CUresult result = record(event, stream, flags);
    state_unlock();
    return result;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CALL(CALL_INIT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    CUresult result = record(event, stream, 0);
    state_unlock();
    return result;
}

static CUresult query(CUevent event, bool wait)
{
    struct stream_op *op = event->op;
    if (event->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!op)
        return CUDA_SUCCESS;
    op_ref(op);
    if (wait)
        op_wait(op);
    CUresult result = event->context->error ? event->context->error : op->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    op_unref(op);
    return result;
}

static CUresult event_ask(CUevent event, bool waits)
{
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    CUresult result = query(event, waits);
    state_unlock();
    return result;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    return event_ask(event, false);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    return event_ask(event, true);
}

static CUresult elapsed(float *ms, CUevent start, CUevent end)
{
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->op || !end->op)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!start->op->done || !end->op->done)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(end->op->finished_ns - start->op->finished_ns) / 1e6);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    CALL(CALL_INIT);
    if (!ms || !start || !end)
        return ms ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = elapsed(ms, start, end);
    state_unlock();
    return result;
}

static CUresult await(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result)
        return result;
    if (stream->capture && flags & CU_EVENT_WAIT_EXTERNAL)
        return event_outside(WORK_AWAIT, event, stream);
    if (stream->capture || event->capture)
        return capture_await(stream, event);
    if (stream->context->error)
        return stream->context->error;
    return event->op ? stream_after(stream, event->op) : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CALL(CALL_INIT);
    if (!event || flags & ~1u)
        return event ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    CUresult result = await(stream, event, flags);
    state_unlock();
    return result;
}
