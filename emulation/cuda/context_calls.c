/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that make, end and choose contexts. */
#include "cuda/call.h"
#include "cuda/context.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

static void context_end(CUcontext context)
{
    context_drain(context);
    context->active = false;
    while (context->streams)
        stream_close(context->streams);
    context->legacy = NULL;
    memory_free_context(context);
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice ordinal)
{
    CUcontext context = context_make(ordinal, flags);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = context;
    return context_push(context);
}

static bool live(CUcontext context)
{
    state_lock();
    bool is = context_is_live(context);
    state_unlock();
    return is;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice ordinal)
{
    struct emulated_device *device;
    CALL(CALL_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    if (device->primary.active) {
        device->primary.refs++;
    } else {
        context_start(&device->primary, ordinal, device->primary.flags);
        device->primary.primary = true;
    }
    *out = &device->primary;
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
    struct emulated_device *device;
    CALL(CALL_INIT);
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    CUresult result = device->primary.active && device->primary.refs ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && !--device->primary.refs)
        context_end(&device->primary);
    state_unlock();
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
    struct emulated_device *device;
    CALL(CALL_INIT);
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    unsigned refs = device->primary.refs, flags = device->primary.flags;
    if (device->primary.active) {
        context_end(&device->primary);
        context_start(&device->primary, ordinal, flags);
        device->primary.primary = true;
        device->primary.refs = refs;
    }
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active)
{
    struct emulated_device *device;
    CALL(CALL_INIT);
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    *flags = device->primary.flags;
    *active = device->primary.active;
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags)
{
    struct emulated_device *device;
    CALL(CALL_INIT);
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    device->primary.flags = flags;
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice ordinal)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_get(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    CUresult result = create(out, flags, ordinal);
    state_unlock();
    return result;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    state_lock();
    bool is_made = context_is_made(context);
    if (is_made) {
        context_end(context);
        context_unmake(context);
    }
    state_unlock();
    return is_made ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CALL(CALL_INIT);
    return live(context) ? context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CALL(CALL_INIT);
    return context_pop(out);
}

/* Replaces the top of the stack; NULL takes it away. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    CALL(CALL_INIT);
    if (context && !live(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    context_pop(NULL);
    return context ? context_push(context) : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    CALL(CALL_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context_current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *out)
{
    CALL(CALL_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = context_current()->device;
    return CUDA_SUCCESS;
}
