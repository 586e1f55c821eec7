/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the primary one of each device, others, and the stack of each thread. */
#include "context.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

#define STACK_MAX 64

static struct CUctx_st *made[CONFIG_DEVICES_MAX * 4]; /* by cuCtxCreate */
static unsigned long long last_id;
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

#define MADE_MAX (sizeof(made) / sizeof(*made))

CUcontext context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static CUcontext context_at(size_t i)
{
    size_t devices = (size_t)config_get()->devices;
    if (i < devices)
        return device_get((int)i)->primary.active ? &device_get((int)i)->primary : NULL;
    return i < devices + MADE_MAX ? made[i - devices] : NULL;
}

CUcontext context_next(CUcontext after)
{
    size_t end = (size_t)config_get()->devices + MADE_MAX, i = 0;
    while (after && i < end && context_at(i) != after)
        i++;
    for (i += after != NULL; i < end; i++)
        if (context_at(i))
            return context_at(i);
    return NULL;
}

bool context_is_live(CUcontext context)
{
    for (CUcontext c = context_next(NULL); c; c = context_next(c))
        if (c == context)
            return true;
    return false;
}

CUresult context_fail(CUcontext context, CUresult error)
{
    if (context && !context->error)
        context->error = error;
    return error;
}

/* The list may change while the lock is let go: start over until nothing is left to wait for. */
void context_drain(CUcontext context)
{
    bool waited = true;
    while (waited) {
        waited = false;
        for (CUstream s = context->streams; s && !waited; s = s->next)
            if (s->last && !s->last->done) {
                stream_wait(s);
                waited = true;
            }
    }
}

/* As a driver may: no work can be handed to the context meanwhile. */
void context_hold(CUcontext context)
{
    bool alone = config_get()->block;
    while (context->held)
        state_wait();
    context->held = alone;
    context_drain(context);
    context->held = false;
    if (alone)
        state_changed();
}

void context_drain_device(int ordinal)
{
    for (CUcontext c = context_next(NULL); c; c = context_next(c))
        if (c->device == ordinal)
            context_drain(c);
}

static void context_start(CUcontext context, int device, unsigned flags)
{
    *context = (struct CUctx_st){.device = device, .flags = flags, .refs = 1, .active = true, .id = ++last_id};
}

static void context_end(CUcontext context)
{
    context_drain(context);
    context->active = false;
    while (context->streams)
        stream_close(context->streams);
    context->legacy = NULL;
    memory_free_context(context);
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice ordinal)
{
    struct device *device;
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
    struct device *device;
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
    struct device *device;
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
    struct device *device;
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
    struct device *device;
    CALL(CALL_INIT);
    if (!(device = device_get(ordinal)))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    device->primary.flags = flags;
    state_unlock();
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice ordinal)
{
    size_t slot = 0;
    while (slot < MADE_MAX && made[slot])
        slot++;
    CUcontext context = slot < MADE_MAX ? malloc(sizeof(*context)) : NULL;
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context_start(context, ordinal, flags);
    made[slot] = context;
    *out = context;
    return push(context);
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
    size_t slot = 0;
    while (slot < MADE_MAX && (!context || made[slot] != context))
        slot++;
    if (slot < MADE_MAX) {
        context_end(context);
        made[slot] = NULL;
        if (context_current() == context)
            depth--;
        free(context);
    }
    state_unlock();
    return slot < MADE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static bool live(CUcontext context)
{
    state_lock();
    bool is = context_is_live(context);
    state_unlock();
    return is;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CALL(CALL_INIT);
    return live(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CALL(CALL_INIT);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack; NULL takes it away. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    CALL(CALL_INIT);
    if (context && !live(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    depth -= depth > 0;
    return context ? push(context) : CUDA_SUCCESS;
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
