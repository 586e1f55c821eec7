/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of every call. */
#include "cuda/call.h"
#include "cuda/context.h"
#include "cuda/graph.h"

static CUresult check(unsigned need)
{
    CUcontext context = (need & CALL_CONTEXT) == CALL_CONTEXT ? context_current() : NULL;
    if ((need & CALL_CONTEXT) == CALL_CONTEXT && !context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context && !context_is_live(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context && context->error)
        return context->error;
    return need & CALL_UNSAFE && capture_forbids() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static void stay_behind(unsigned need)
{
    CUcontext context = context_current();
    if (!context || !(need & CALL_BEHIND || (need & CALL_CONTEXT) == CALL_CONTEXT))
        return;
    while (context_is_live(context) && context->held)
        state_wait();
}

CUresult call_enter(const char *name, unsigned need)
{
    bool sticky;
    if (need & CALL_INIT && !state_is_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (state_in_callback(false, false) && (need & CALL_INIT))
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = fault_due(name, &sticky);
    state_lock();
    if (result && sticky && context_current())
        context_fail(context_current(), result);
    stay_behind(need);
    if (!result)
        result = check(need);
    state_unlock();
    return result;
}
