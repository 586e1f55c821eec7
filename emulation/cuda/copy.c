/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills, in stream order or at once (which means: in the legacy default stream, and waited for). */
#include "cuda/call.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CLEAR_FROM ((size_t)1 << 20)

/* Mapped memory that no device has access to: an illegal address there, a fault of the whole process here. */
static bool reachable(const void *address)
{
    state_lock();
    struct range *range = range_find(address);
    bool can = !range || range->kind != RANGE_MAPPED || range->access;
    state_unlock();
    return can;
}

static void copy_run(const struct work *work)
{
    const struct work_copy *copy = &work->copy;
    config_hold(work->context->device);
    const char *from = copy->staged ? copy->staged : copy->src;
    if (!reachable(copy->dst) || !reachable(from)) {
        context_fail(work->context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memmove(copy->dst + z * copy->dst_slice + y * copy->dst_pitch,
                    from + z * copy->src_slice + y * copy->src_pitch, copy->width);
}

static bool bytes_alike(const struct work_set *set)
{
    const unsigned char *byte = (const unsigned char *)&set->value;
    return memcmp(byte, byte + 1, set->element - 1) == 0;
}

/* Scratch of some ten megabytes is cleared for each communicator, and little of it used: its file gives the pages back,
 * and new ones are zero. */
static void clear(char *bytes, size_t size)
{
    size_t head = -(uintptr_t)bytes % PAGE, whole = size < CLEAR_FROM ? 0 : (size - head) / PAGE * PAGE;
    if (!whole || madvise(bytes + head, whole, MADV_REMOVE) != 0) {
        memset(bytes, 0, size);
        return;
    }
    memset(bytes, 0, head);
    memset(bytes + head + whole, 0, size - head - whole);
}

/* Byte by byte this would be most of what some tests do, with sanitizers. */
static void set_run(const struct work *work)
{
    const struct work_set *set = &work->set;
    bool alike = bytes_alike(set);
    for (size_t y = 0; y < set->height; y++) {
        char *row = set->dst + y * set->pitch;
        if (alike && !set->value)
            clear(row, set->width * set->element);
        else if (alike)
            memset(row, (int)(set->value & 0xff), set->width * set->element);
        for (size_t x = 0; !alike && x < set->width; x++)
            memcpy(row + x * set->element, &set->value, set->element);
    }
}

static bool copy_clone(struct work *to, const struct work *from)
{
    to->copy.staged = NULL;
    return !from->copy.staged;
}

static void copy_clear(struct work *work)
{
    free(work->copy.staged);
}

static const struct work_ops copy_work = {.clone = copy_clone, .clear = copy_clear, .run = copy_run};
const struct work_ops set_work = {.run = set_run};

static bool is_pageable(const void *address)
{
    return !range_find(address);
}

/* Pageable memory may change as soon as the call returns, and what goes to pageable memory is there when it returns. */
static CUresult stage(CUstream stream, struct work *work, bool *wait)
{
    if (stream->capture)
        return CUDA_SUCCESS;
    *wait = is_pageable(work->copy.dst);
    if (*wait || !is_pageable(work->copy.src) || work->copy.height != 1)
        return CUDA_SUCCESS;
    work->copy.staged = malloc(work->copy.width);
    if (!work->copy.staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(work->copy.staged, work->copy.src, work->copy.width);
    return CUDA_SUCCESS;
}

/* Memory of another device: what cuMemAlloc made each reaches, if need be through the host; of a pool, or mapped, what
 * it was given access to. */
static bool reaches(int device, const void *address)
{
    const struct range *range = range_find(address);
    if (range && range->kind == RANGE_MAPPED)
        return !range->access || range->access >> device & 1; /* nobody has access: it fails when it runs */
    return !range || range->device == device || !(range->flags & RANGE_POOLED);
}

static bool is_of_device(const void *address)
{
    const struct range *range = range_find(address);
    return range && (range->kind == RANGE_DEVICE || range->kind == RANGE_IMPORTED || range->kind == RANGE_MAPPED);
}

/* Lock held. A copy between devices by one of them alone. */
static bool may_copy(int device, const struct work_copy *copy)
{
    return !is_of_device(copy->dst) || !is_of_device(copy->src) ||
           (reaches(device, copy->dst) && reaches(device, copy->src));
}

static CUresult submit_to(CUstream stream, struct work *work, bool wait)
{
    struct stream_op *op = NULL;
    work->context = stream->context;
    if (work->kind == WORK_COPY && !work->copy.by_both && !may_copy(stream->context->device, &work->copy))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = work->kind == WORK_COPY && !wait ? stage(stream, work, &wait) : CUDA_SUCCESS;
    if (!result)
        result = stream_submit(stream, work, &op);
    if (!result && wait && op)
        op_wait(op);
    op_unref(op);
    return result ? result : stream->context->error;
}

static CUresult submit(CUstream handle, struct work *work, bool wait)
{
    CUstream stream;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result)
        result = submit_to(stream, work, wait);
    state_unlock();
    return result;
}

static CUresult copy_between(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, bool wait, bool both)
{
    struct work work = {.kind = WORK_COPY,
                        .ops = &copy_work,
                        .copy = {.by_both = both,
                                 .dst = (char *)(uintptr_t)dst,
                                 .src = (char *)(uintptr_t)src,
                                 .width = size,
                                 .height = 1,
                                 .depth = 1}};
    if (!size)
        return CUDA_SUCCESS;
    return dst && src ? submit(stream, &work, wait) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream, bool wait)
{
    return copy_between(dst, src, size, stream, wait, false);
}

/* Each end by its own context. */
static CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t size,
                          CUstream stream, bool wait)
{
    state_lock();
    bool live = context_is_live(dst_context) && context_is_live(src_context);
    bool good = live && reaches(dst_context->device, (void *)(uintptr_t)dst) &&
                reaches(src_context->device, (void *)(uintptr_t)src);
    state_unlock();
    if (!good)
        return live ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    return copy_between(dst, src, size, stream, wait, true);
}

EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy(dst, src, size, NULL, true);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy(dst, (uintptr_t)src, size, NULL, true);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy((uintptr_t)dst, src, size, NULL, true);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy(dst, src, size, NULL, true);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                             size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy_peer(dst, dst_context, src, src_context, size, NULL, true);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy(dst, src, size, stream, false);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy(dst, (uintptr_t)src, size, stream, false);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy((uintptr_t)dst, src, size, stream, false);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy(dst, src, size, stream, false);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                                  size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy_peer(dst, dst_context, src, src_context, size, stream, false);
}

CUresult copy_make_3d(const CUDA_MEMCPY3D *p, struct work *work)
{
    if (!p || p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    const char *src = p->srcMemoryType == CU_MEMORYTYPE_HOST ? p->srcHost : (char *)(uintptr_t)p->srcDevice;
    char *dst = p->dstMemoryType == CU_MEMORYTYPE_HOST ? p->dstHost : (char *)(uintptr_t)p->dstDevice;
    struct work_copy copy = {.width = p->WidthInBytes,
                             .height = p->Height,
                             .depth = p->Depth,
                             .dst_pitch = p->dstPitch,
                             .src_pitch = p->srcPitch,
                             .dst_slice = p->dstPitch * p->dstHeight,
                             .src_slice = p->srcPitch * p->srcHeight};
    if (!src || !dst)
        return CUDA_ERROR_INVALID_VALUE;
    copy.src = src + p->srcXInBytes + p->srcY * copy.src_pitch + p->srcZ * copy.src_slice;
    copy.dst = dst + p->dstXInBytes + p->dstY * copy.dst_pitch + p->dstZ * copy.dst_slice;
    *work = (struct work){.kind = WORK_COPY, .ops = &copy_work, .copy = copy};
    return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool wait)
{
    struct work work;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D wide = {.srcXInBytes = p->srcXInBytes,
                          .srcY = p->srcY,
                          .srcMemoryType = p->srcMemoryType,
                          .srcHost = p->srcHost,
                          .srcDevice = p->srcDevice,
                          .srcPitch = p->srcPitch,
                          .dstXInBytes = p->dstXInBytes,
                          .dstY = p->dstY,
                          .dstMemoryType = p->dstMemoryType,
                          .dstHost = p->dstHost,
                          .dstDevice = p->dstDevice,
                          .dstPitch = p->dstPitch,
                          .WidthInBytes = p->WidthInBytes,
                          .Height = p->Height,
                          .Depth = 1};
    CUresult result = copy_make_3d(&wide, &work);
    return result ? result : submit(stream, &work, wait);
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *params)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return copy_2d(params, NULL, true);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *params, CUstream stream)
{
    CALL(CALL_CONTEXT);
    return copy_2d(params, stream, false);
}
