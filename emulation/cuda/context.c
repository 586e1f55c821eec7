/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the primary one of each device, others, and the stack of each thread. */
#include "cuda/context.h"

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

void context_start(CUcontext context, int device, unsigned flags)
{
    *context = (struct CUctx_st){.device = device, .flags = flags, .refs = 1, .active = true, .id = ++last_id};
}

CUresult context_push(CUcontext context)
{
    if (depth == STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *out)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

CUcontext context_make(int device, unsigned flags)
{
    size_t slot = 0;
    while (slot < MADE_MAX && made[slot])
        slot++;
    CUcontext context = slot < MADE_MAX ? malloc(sizeof(*context)) : NULL;
    if (context) {
        context_start(context, device, flags);
        made[slot] = context;
    }
    return context;
}

static size_t slot_of(CUcontext context)
{
    size_t slot = 0;
    while (slot < MADE_MAX && (!context || made[slot] != context))
        slot++;
    return slot;
}

bool context_is_made(CUcontext context)
{
    return slot_of(context) < MADE_MAX;
}

void context_unmake(CUcontext context)
{
    made[slot_of(context)] = NULL;
    if (context_current() == context)
        depth--;
    free(context);
}
