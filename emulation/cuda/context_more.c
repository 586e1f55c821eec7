/* SPDX-License-Identifier: Apache-2.0 */
/* What else can be asked of a context: synchronisation, limits, peers. */
#include "cuda/call.h"
#include "cuda/graph.h"

EXPORT CUresult cuCtxSynchronize(void)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    state_lock();
    CUcontext context = context_current();
    bool captured = capture_blocks_context(context);
    if (!captured)
        context_hold(context);
    CUresult error = captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : context->error;
    state_unlock();
    return error;
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags)
{
    CALL(CALL_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context_current()->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CALL(context ? CALL_INIT : CALL_CONTEXT);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = (context ? context : context_current())->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    CALL(CALL_INIT);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CALL(CALL_CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CALL(CALL_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = limit == CU_LIMIT_STACK_SIZE ? 1024 : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CALL(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    CALL(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    CALL(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

static CUresult change_peer(CUcontext peer, bool enable)
{
    CUcontext own = context_current();
    if (!context_is_live(peer) || peer->device == own->device)
        return peer == own || !context_is_live(peer) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_DEVICE;
    if (!config_get()->peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    unsigned bit = 1u << peer->device;
    if (enable == !!(own->peers & bit))
        return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    own->peers ^= bit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = change_peer(peer, true);
    state_unlock();
    return result;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    state_lock();
    CUresult result = change_peer(peer, false);
    state_unlock();
    return result;
}
