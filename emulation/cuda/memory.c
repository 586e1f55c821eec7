/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is allocated in one call: of a device, pinned, registered, managed. Each allocation is followed by a page
 * that nobody may touch. */
#include "cuda/memory.h"
#include "cuda/call.h"
#include "cuda/private.h"
#include "cuda/stream.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD       PAGE
#define POISON      0xa5
#define POISON_ALL  ((size_t)1 << 20)  /* bytes; behind them each eighth page, as most is never used */
#define POISON_MOST ((size_t)64 << 20) /* of what is longer none */

static size_t round_up(size_t size)
{
    return (size + PAGE - 1) & ~((size_t)PAGE - 1);
}

/* A mapping of the file (none: -1) with a guard behind it. */
static char *map(int fd, size_t size, size_t *mapped)
{
    *mapped = round_up(size) + GUARD;
    char *base = address_take(*mapped);
    if (!base)
        return NULL;
    int flags = MAP_FIXED | MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
    int rights = PROT_READ | PROT_WRITE;
    if (mmap(base, round_up(size), rights, flags, fd, 0) != MAP_FAILED &&
        (fd < 0 || !private_protect(base, round_up(size), rights)))
        return base;
    munmap(base, *mapped);
    return NULL;
}

/* A program that takes fresh memory for zero shall see that it is not. */
static void poison(char *base, size_t size)
{
    size_t all = size < POISON_ALL ? size : POISON_ALL;
    bool could = private_allow(true);
    memset(base, POISON, all);
    for (size_t at = all; at < size; at += (size_t)8 * PAGE)
        memset(base + at, POISON, size - at < PAGE ? size - at : PAGE);
    private_allow(could);
}

static CUresult make(enum range_kind kind, size_t size, unsigned flags, void **out)
{
    CUcontext context = context_current();
    bool charged = kind != RANGE_PINNED, file = kind == RANGE_DEVICE;
    struct range range = {
        .kind = kind, .size = size, .device = context->device, .fd = -1, .context = context, .flags = flags};
    CUresult result = charged ? memory_charge(range.device, size) : CUDA_SUCCESS;
    if (result)
        return result;
    range.fd = file ? memory_file(range.device, round_up(size)) : -1;
    range.base = file && range.fd < 0 ? NULL : map(range.fd, size, &range.mapped);
    if (range.base && range_add(&range)) {
        if (kind == RANGE_DEVICE && config_get()->poison && size <= POISON_MOST)
            poison(range.base, size);
        *out = range.base;
        return CUDA_SUCCESS;
    }
    if (range.base)
        munmap(range.base, range.mapped);
    if (range.fd >= 0)
        close(range.fd);
    if (charged)
        memory_uncharge(range.device, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate(enum range_kind kind, size_t size, unsigned flags, void **out)
{
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = make(kind, size, flags, out);
    state_unlock();
    return result;
}

static CUresult allocate_at(enum range_kind kind, size_t size, unsigned flags, CUdeviceptr *out)
{
    void *address = NULL;
    CUresult result = out ? allocate(kind, size, flags, &address) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = (uintptr_t)address;
    return result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return allocate_at(RANGE_DEVICE, size, 0, out);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_at(RANGE_MANAGED, size, flags, out);
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return allocate(RANGE_PINNED, size, CU_MEMHOSTALLOC_PORTABLE, out);
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    if (flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(RANGE_PINNED, size, flags, out);
}

/* Freeing waits for the work of the context that the memory was made in, as the real call does. */
static CUresult give_back(void *address, unsigned kinds)
{
    state_lock();
    struct range *range = range_find(address);
    CUresult result =
        range && range->base == address && kinds & 1u << range->kind ? range->context->error : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        context_hold(range->context);
        if ((range = range_find(address)))
            range_release(range);
    }
    state_unlock();
    return result;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    return address ? give_back((void *)(uintptr_t)address, 1u << RANGE_DEVICE | 1u << RANGE_MANAGED) : CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *address)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    return address ? give_back(address, 1u << RANGE_PINNED) : CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    if (!address || !size || flags & ~0xfu)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUcontext context = context_current();
    struct range range = {.kind = RANGE_REGISTERED,
                          .base = address,
                          .size = size,
                          .device = context->device,
                          .fd = -1,
                          .context = context,
                          .flags = flags};
    CUresult result = range_overlaps(address, size) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
    if (!result && !range_add(&range))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    state_unlock();
    return result;
}

EXPORT CUresult cuMemHostUnregister(void *address)
{
    CALL(CALL_INIT | CALL_UNSAFE);
    CUresult result = give_back(address, 1u << RANGE_REGISTERED);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

static CUresult host_flags(void *address, unsigned *flags)
{
    state_lock();
    struct range *range = range_find(address);
    bool host = range && (range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED);
    if (host)
        *flags = range->flags;
    state_unlock();
    return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned flags)
{
    unsigned unused;
    CALL(CALL_CONTEXT);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = host_flags(address, &unused);
    if (!result)
        *out = (uintptr_t)address;
    return result;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *address)
{
    CALL(CALL_CONTEXT);
    return flags ? host_flags(address, flags) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL(CALL_CONTEXT);
    state_lock();
    held_look();
    size_t used = device_get(context_current()->device)->used;
    state_unlock();
    if (free_bytes)
        *free_bytes = config_get()->memory - used;
    if (total)
        *total = config_get()->memory;
    return CUDA_SUCCESS;
}

/* Memory in stream order: there at once, given back by the stream. */
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return allocate_at(RANGE_DEVICE, size, RANGE_POOLED, out);
}

static void free_run(const struct work *work)
{
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)work->address);
    if (range && range->kind == RANGE_DEVICE && (uintptr_t)range->base == work->address)
        range_release(range);
    state_unlock();
}

static const struct work_ops free_work = {.run = free_run};

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    CUstream stream;
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    struct work work = {.kind = WORK_FREE, .ops = &free_work, .context = context_current(), .address = address};
    CUresult result = range && range->kind == RANGE_DEVICE ? stream_find(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = stream_submit(stream, &work, NULL);
    state_unlock();
    return result;
}
