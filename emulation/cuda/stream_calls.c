/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on streams. */
#include "cuda/call.h"
#include "cuda/stream.h"

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = stream_new(context_current(), flags, priority > 0 ? 0 : priority < -5 ? -5 : priority, out);
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    CALL(CALL_CONTEXT);
    return create(out, flags, 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    CALL(CALL_CONTEXT);
    return create(out, flags, priority);
}

static CUresult destroy(CUstream handle)
{
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (!result && (stream->legacy || stream->per_thread))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        stream_close(stream);
    return result;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    CALL(CALL_INIT);
    state_lock();
    CUresult result = destroy(handle);
    state_unlock();
    return result;
}

/* The legacy stream is busy while one is that it would wait for. */
static bool is_idle(CUstream stream)
{
    bool idle = !stream->last || stream->last->done;
    for (CUstream s = stream->legacy ? stream->context->streams : NULL; s && idle; s = s->next)
        idle = s->flags & CU_STREAM_NON_BLOCKING || !s->last || s->last->done;
    return idle;
}

static CUresult query(CUstream handle, bool wait)
{
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result)
        return result;
    CUcontext context = stream->context;
    if (stream->capture) {
        capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->legacy && capture_blocks_legacy(context, true))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (wait && stream->legacy && (result = stream_after(stream, NULL)))
        return result;
    if (wait)
        stream_wait(stream);
    if (context->error)
        return context->error;
    return wait || is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamQuery(CUstream handle)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    state_lock();
    CUresult result = query(handle, false);
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    state_lock();
    CUresult result = query(handle, true);
    state_unlock();
    return result;
}

/* Copies one fact about a stream out. */
static CUresult ask(CUstream handle, struct CUstream_st *out)
{
    CUstream stream;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result)
        *out = *stream;
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    struct CUstream_st stream;
    CALL(CALL_INIT);
    CUresult result = flags ? ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *flags = stream.flags;
    return result;
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    struct CUstream_st stream;
    CALL(CALL_INIT);
    CUresult result = priority ? ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *priority = stream.priority;
    return result;
}

EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    struct CUstream_st stream;
    CALL(CALL_INIT);
    CUresult result = id ? ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *id = stream.id;
    return result;
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    struct CUstream_st stream;
    CALL(CALL_INIT);
    CUresult result = context ? ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *context = stream.context;
    return result;
}

EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    struct CUstream_st stream;
    CALL(CALL_INIT);
    CUresult result = device ? ask(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *device = stream.context->device;
    return result;
}

static CUresult submit(CUstream handle, struct work *work)
{
    CUstream stream;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result) {
        work->context = stream->context;
        result = stream_submit(stream, work, NULL);
    }
    state_unlock();
    return result;
}

EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn f, void *data)
{
    CALL(CALL_INIT);
    struct work work = {.kind = WORK_HOST, .ops = &host_work, .host = {f, data}};
    return f ? submit(handle, &work) : CUDA_ERROR_INVALID_VALUE;
}

/* Nothing migrates here. */
EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t length, unsigned flags)
{
    CALL(CALL_INIT);
    return CUDA_SUCCESS;
}
