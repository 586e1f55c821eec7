/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: allocations are files, reservations are address space without access, mappings join the
 * two. */
#include "cuda/call.h"
#include "cuda/memory.h"
#include "cuda/private.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)

static struct allocation *allocations;
static struct reservation *reservations;

static struct allocation *find_allocation(CUmemGenericAllocationHandle handle)
{
    struct allocation *a = allocations;
    while (a && (uintptr_t)a != handle)
        a = a->next;
    return a;
}

void allocation_unref(struct allocation *allocation)
{
    if (--allocation->refs)
        return;
    struct allocation **at = &allocations;
    while (*at != allocation)
        at = &(*at)->next;
    *at = allocation->next;
    if (allocation->counted)
        held_free(allocation->fd, allocation->device, allocation->size);
    else
        close(allocation->fd);
    free(allocation);
}

/* Takes the descriptor. */
static CUresult add_allocation(int fd, int device, size_t size, const CUmemAllocationProp *prop,
                               CUmemGenericAllocationHandle *out)
{
    struct allocation *allocation = fd >= 0 ? malloc(sizeof(*allocation)) : NULL;
    if (!allocation) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *allocation = (struct allocation){.refs = 1, .fd = fd, .device = device, .size = size, .next = allocations};
    if (prop)
        allocation->prop = *prop;
    allocations = allocation;
    *out = (uintptr_t)allocation;
    return CUDA_SUCCESS;
}

static bool good_prop(const CUmemAllocationProp *prop)
{
    return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                              CUmemAllocationGranularity_flags which)
{
    CALL(CALL_INIT);
    if (!out || !good_prop(prop))
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_get(prop->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                            unsigned long long flags)
{
    CALL(CALL_INIT | CALL_UNSAFE | CALL_BEHIND);
    if (!out || !good_prop(prop) || !size || size % GRANULARITY || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    int device = prop->location.id;
    if (!device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    state_lock();
    CUresult result = memory_charge(device, size);
    if (!result) {
        result = add_allocation(memory_file(device, size), device, size, prop, out);
        if (result)
            memory_uncharge(device, size);
        else
            allocations->counted = true;
    }
    state_unlock();
    return result;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CALL(CALL_INIT);
    state_lock();
    struct allocation *allocation = find_allocation(handle);
    if (allocation)
        allocation_unref(allocation);
    state_unlock();
    return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    CALL(CALL_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find(address);
    bool mapped = range && range->kind == RANGE_MAPPED;
    if (mapped) {
        range->allocation->refs++;
        *out = (uintptr_t)range->allocation;
    }
    state_unlock();
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CALL(CALL_INIT);
    state_lock();
    struct allocation *allocation = prop ? find_allocation(handle) : NULL;
    if (allocation)
        *prop = allocation->prop;
    state_unlock();
    return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type, unsigned long long flags)
{
    CALL(CALL_INIT);
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return type == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct allocation *allocation = find_allocation(handle);
    bool allowed = allocation && allocation->prop.requestedHandleTypes & (unsigned)type;
    int fd = allowed ? fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0) : -1;
    state_unlock();
    if (!allowed)
        return CUDA_ERROR_INVALID_VALUE;
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                               CUmemAllocationHandleType type)
{
    struct stat file;
    CALL(CALL_INIT | CALL_UNSAFE | CALL_BEHIND);
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return type == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    int fd = (int)(intptr_t)handle, device = memory_file_device(fd);
    if (device < 0 || fstat(fd, &file))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = type,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    state_lock();
    int own = memory_file_again(fd);
    if (own >= 0)
        held_lock(own);
    CUresult result = add_allocation(own, device, (size_t)file.st_size, &prop, out);
    state_unlock();
    return result;
}

/* Address space that touching faults on. */
static char *no_access(char *at, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    char *base = mmap(at, size, PROT_NONE, flags, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static char *reserve_aligned(size_t size, size_t alignment)
{
    char *base = no_access(NULL, size + alignment);
    if (!base)
        return NULL;
    char *start = (char *)(((uintptr_t)base + alignment - 1) & ~(uintptr_t)(alignment - 1));
    if (start > base)
        munmap(base, (size_t)(start - base));
    munmap(start + size, alignment - (size_t)(start - base));
    return start;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wish,
                                    unsigned long long flags)
{
    CALL(CALL_INIT);
    if (!out || !size || size % GRANULARITY || flags || alignment & (alignment - 1))
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *reservation = malloc(sizeof(*reservation));
    char *base = reservation ? reserve_aligned(size, alignment > GRANULARITY ? alignment : GRANULARITY) : NULL;
    if (!base) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    state_lock();
    *reservation = (struct reservation){base, size, reservations};
    reservations = reservation;
    state_unlock();
    *out = (uintptr_t)base;
    return CUDA_SUCCESS;
}

static CUresult unreserve(char *base, size_t size)
{
    struct reservation **at = &reservations;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    if (!*at || (*at)->size != size || range_overlaps(base, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *reservation = *at;
    *at = reservation->next;
    munmap(base, size);
    free(reservation);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    CALL(CALL_INIT);
    state_lock();
    CUresult result = unreserve((char *)(uintptr_t)address, size);
    state_unlock();
    return result;
}

static bool reserved(const char *base, size_t size)
{
    for (struct reservation *r = reservations; r; r = r->next)
        if (base >= r->base && size <= r->size && base - r->base <= (ptrdiff_t)(r->size - size))
            return true;
    return false;
}

static CUresult map(char *base, size_t size, size_t offset, struct allocation *allocation)
{
    if (!allocation || !reserved(base, size) || offset > allocation->size || size > allocation->size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (range_overlaps(base, size))
        return CUDA_ERROR_ALREADY_MAPPED;
    struct range range = {.kind = RANGE_MAPPED,
                          .base = base,
                          .size = size,
                          .device = allocation->device,
                          .fd = -1,
                          .allocation = allocation,
                          .offset = offset};
    if (mmap(base, size, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation->fd, (off_t)offset) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!range_add(&range)) {
        no_access(base, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->refs++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags)
{
    CALL(CALL_INIT | CALL_UNSAFE | CALL_BEHIND);
    if (!address || !size || (address | size | offset) % GRANULARITY || flags)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = map((char *)(uintptr_t)address, size, offset, find_allocation(handle));
    state_unlock();
    return result;
}

/* The mappings from base on make up exactly `size` bytes: the calls below take whole mappings only. */
static bool whole_mappings(char *base, size_t size)
{
    for (size_t at = 0; at < size;) {
        struct range *range = range_find(base + at);
        if (!range || range->kind != RANGE_MAPPED || range->base != base + at || range->size > size - at)
            return false;
        at += range->size;
    }
    return size != 0;
}

static CUresult unmap(char *base, size_t size)
{
    if (!whole_mappings(base, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < size;) {
        struct range *range = range_find(base + at);
        at += range->size;
        no_access(range->base, range->size);
        allocation_unref(range->allocation);
        range_release(range);
    }
    return CUDA_SUCCESS;
}

/* Unlike cuMemFree, this waits for nobody. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CALL(CALL_INIT | CALL_UNSAFE | CALL_BEHIND);
    state_lock();
    CUresult result = unmap((char *)(uintptr_t)address, size);
    state_unlock();
    return result;
}

static CUresult check_access(const CUmemAccessDesc *desc, int owner)
{
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_get(desc->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return desc->location.id == owner || config_get()->peers ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult set_access(char *base, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CUresult result = whole_mappings(base, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < size && !result;) {
        struct range *range = range_find(base + at);
        at += range->size;
        for (size_t i = 0; i < count && !result; i++) {
            unsigned bit = 1u << (desc[i].location.id & 31);
            result = check_access(&desc[i], range->device);
            if (!result)
                range->access = desc[i].flags ? range->access | bit : range->access & ~bit;
        }
        if (!result && private_protect(range->base, range->size, range->access ? PROT_READ | PROT_WRITE : PROT_NONE))
            result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    return result;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CALL(CALL_INIT | CALL_UNSAFE | CALL_BEHIND);
    if (!desc || !count)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = set_access((char *)(uintptr_t)address, size, desc, count);
    state_unlock();
    return result;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    CALL(CALL_INIT);
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !device_get(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    bool mapped = range && range->kind == RANGE_MAPPED;
    if (mapped)
        *flags =
            range->access & 1u << location->id ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    state_unlock();
    return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
