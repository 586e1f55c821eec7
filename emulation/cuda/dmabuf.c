/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for adapters: descriptors of it, and the flush of what they have written. */
#include "cuda/call.h"
#include "cuda/memory.h"

#include "file_part.h"

#include <dlfcn.h>
#include <unistd.h>

/* Where the range begins in its file; -1: it has none that adapters reach. */
static int file_of(const struct range *range, uint64_t *start)
{
    *start = range->kind == RANGE_MAPPED ? range->offset : 0;
    return range->kind == RANGE_MAPPED ? range->allocation->fd : range->kind == RANGE_DEVICE ? range->fd : -1;
}

/* Lock held. One file has all of the bytes, in order: mapped neighbours count when they are neighbours there, too. */
static CUresult find_part(char *base, size_t size, int *fd, uint64_t *start)
{
    uint64_t piece_start;
    for (size_t at = 0; at < size;) {
        struct range *range = range_find(base + at);
        if (!range)
            return CUDA_ERROR_INVALID_VALUE;
        int piece = file_of(range, &piece_start);
        piece_start += (uint64_t)(base + at - range->base);
        if (piece < 0 || (at && (piece != *fd || piece_start != *start + at)))
            return CUDA_ERROR_NOT_SUPPORTED;
        *fd = piece;
        if (!at)
            *start = piece_start;
        at = ((size_t)(range->base + range->size - base) + PAGE - 1) / PAGE * PAGE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                              unsigned long long flags)
{
    int file = -1, fd = -1;
    uint64_t start = 0;
    CALL(CALL_INIT);
    if (!handle || !address || !size || address % PAGE || size % PAGE || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags || !config_get()->dmabuf)
        return CUDA_ERROR_NOT_SUPPORTED;
    state_lock();
    CUresult result = find_part((char *)(uintptr_t)address, size, &file, &start);
    if (!result) {
        fd = memory_file_again(file);
        if (fd >= 0)
            held_lock(fd); /* used while somebody has the descriptor, or a mapping of it */
        result = fd >= 0 && !part_set(fd, start, size) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    }
    state_unlock();
    if (result && fd >= 0)
        close(fd);
    if (!result)
        *(int *)handle = fd;
    return result;
}

/* softverbs keeps writes back when it is told to; without it there is nothing to wait for. */
static void flush(const char *name)
{
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void (*call)(const char *) = NULL;
    *(void **)&call = dlsym(library ? library : RTLD_DEFAULT, "softverbs_flush");
    if (call)
        call(name);
    if (library)
        dlclose(library);
}

EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                           CUflushGPUDirectRDMAWritesScope scope)
{
    char name[40];
    CALL(CALL_CONTEXT);
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER && scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    memory_file_name(context_current()->device, name, sizeof(name));
    flush(name);
    return CUDA_SUCCESS;
}
