/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemset in its forms. */
#include "cuda/call.h"
#include "cuda/stream.h"

CUresult set_make(const CUDA_MEMSET_NODE_PARAMS *params, struct work *work)
{
    unsigned element = params ? params->elementSize : 0;
    if ((element != 1 && element != 2 && element != 4) || !params->dst || params->dst % element)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct work){.kind = WORK_SET,
                          .ops = &set_work,
                          .set = {.dst = (char *)(uintptr_t)params->dst,
                                  .pitch = params->pitch,
                                  .width = params->width,
                                  .height = params->height,
                                  .value = params->value,
                                  .element = element}};
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
                     CUstream handle, bool wait)
{
    CUDA_MEMSET_NODE_PARAMS params = {dst, pitch, value, element, width, height};
    struct work work;
    struct stream_op *op = NULL;
    CUstream stream;
    CUresult result = set_make(&params, &work);
    if (result)
        return result;
    state_lock();
    result = stream_find(handle, &stream);
    if (!result) {
        work.context = stream->context;
        result = stream_submit(stream, &work, &op);
    }
    if (!result && wait && op)
        op_wait(op);
    op_unref(op);
    state_unlock();
    return result;
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return fill(dst, 0, value, 1, count, 1, NULL, true);
}

EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t count)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return fill(dst, 0, value, 2, count, 1, NULL, true);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t count)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return fill(dst, 0, value, 4, count, 1, NULL, true);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return fill(dst, 0, value, 1, count, 1, stream, false);
}

EXPORT CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return fill(dst, 0, value, 2, count, 1, stream, false);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return fill(dst, 0, value, 4, count, 1, stream, false);
}

EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
                                  CUstream stream)
{
    CALL(CALL_CONTEXT);
    return fill(dst, pitch, value, 1, width, height, stream, false);
}

EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height,
                                   CUstream stream)
{
    CALL(CALL_CONTEXT);
    return fill(dst, pitch, value, 4, width, height, stream, false);
}
