/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: made so that it can be shared, and freed again. */
#include "device/cuda/memory.h"
#include "device/cuda/internal.h"
#include "base/board.h"
#include "base/clock.h"
#include "base/error.h"

#include <unistd.h>

#define ASKS      20             /* times that memory which relays hold is asked for before it is said to be out */
#define ASK_US    10000          /* between two */
#define ASKED_FOR (2 * NS_PER_S) /* and relays make no more for this time */

static tutti_result_t cuda_memory_no_memory(const struct cuda_device *device, size_t size, CUresult got)
{
    char text[200];
    return error_set(TUTTI_DEVICE_ERROR, "allocate %zu bytes on GPU %d: %s", size, device->ordinal,
                     cuda_result_text(got, text, sizeof text));
}

static CUmemAllocationProp properties(CUdevice where)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, where}};
}

CUresult cuda_map(const struct cuda_driver *driver, const struct cuda_device *device,
                  CUmemGenericAllocationHandle handle, size_t size, CUdeviceptr *out)
{
    CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, device->handle}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;
    CUresult got = driver->MemAddressReserve(&address, size, 0, 0, 0);
    if (got != CUDA_SUCCESS)
        return got;
    got = driver->MemMap(address, size, 0, handle, 0);
    if (got == CUDA_SUCCESS) {
        got = driver->MemSetAccess(address, size, &who, 1);
        if (got != CUDA_SUCCESS)
            driver->MemUnmap(address, size);
    }
    if (got == CUDA_SUCCESS)
        *out = address;
    else
        driver->MemAddressFree(address, size);
    return got;
}

CUresult cuda_unmap(const struct cuda_driver *driver, CUdeviceptr address, size_t size)
{
    CUresult got = driver->MemUnmap(address, size);
    CUresult also = driver->MemAddressFree(address, size);
    return got == CUDA_SUCCESS ? also : got;
}

/* Memory of the GPU `where`, for `device`. *size: what was asked for, and what it is. The mapping keeps the memory: the
 * handle need not be kept. */
static CUresult alloc_mapped(const struct cuda_driver *driver, const struct cuda_device *device, CUdevice where,
                             size_t *size, CUdeviceptr *out)
{
    CUmemAllocationProp what = properties(where);
    CUmemGenericAllocationHandle handle;
    size_t unit = 0;
    CUresult got = driver->MemGetAllocationGranularity(&unit, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (got != CUDA_SUCCESS)
        return got;
    if (!unit || *size > SIZE_MAX - unit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *size = (*size + unit - 1) / unit * unit;
    got = driver->MemCreate(&handle, *size, &what, 0);
    if (got != CUDA_SUCCESS)
        return got;
    got = cuda_map(driver, device, handle, *size, out);
    driver->MemRelease(handle);
    return got;
}

/* Not on the legacy stream, which waits for every other stream and is forbidden while one is captured. */
static CUresult cuda_memory_zero(const struct cuda_driver *driver, CUdeviceptr address, size_t size)
{
    CUstream stream;
    CUresult got = driver->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    if (got != CUDA_SUCCESS)
        return got;
    got = driver->MemsetD8Async(address, 0, size, stream);
    if (got == CUDA_SUCCESS && (got = driver->StreamSynchronize(stream)) != CUDA_SUCCESS)
        driver->StreamSynchronize(
            stream); /* the memory is given back: nothing may still write to it, if that can be had */
    driver->StreamDestroy(stream);
    return got;
}

static CUresult cuda_memory_release(const struct cuda_driver *driver, const struct cuda_range *range)
{
    return range->vmm ? cuda_unmap(driver, range->base, range->size) : driver->MemFree(range->base);
}

static CUresult alloc_zeroed(const struct cuda_driver *driver, const struct cuda_device *device, size_t size,
                             CUdeviceptr *out)
{
    struct cuda_range range;
    CUresult got = CUDA_ERROR_NOT_SUPPORTED;
    size_t whole = size;
    if (device->vmm)
        got = alloc_mapped(driver, device, device->handle, &whole, out);
    if (got == CUDA_ERROR_NOT_SUPPORTED || got == CUDA_ERROR_NOT_PERMITTED)
        got = driver->MemAlloc(out, size);
    if (got != CUDA_SUCCESS)
        return got;
    got = cuda_memory_zero(driver, *out, size);
    if (got != CUDA_SUCCESS && cuda_range_of((void *)(uintptr_t)*out, &range) == TUTTI_SUCCESS)
        cuda_memory_release(driver, &range);
    return got;
}

/* An allocation has failed. Relays that have slots on the GPU hear that they are to give them back. True: after a while
 * in which some may have done so. tries: so far. */
static bool relays_give_back(const uint8_t uuid[16], int tries)
{
    uint64_t now = clock_ns();
    if (tries == ASKS || !board_ask_back(board_gpu(uuid), now, now + ASKED_FOR))
        return false;
    usleep(ASK_US);
    return true;
}

CUresult cuda_memory_take(const struct cuda_driver *driver, size_t size, CUdeviceptr *out)
{
    uint8_t uuid[16];
    char bus_id[16];
    int ordinal, tries = 0;
    CUresult got = driver->MemAlloc(out, size);
    if (got != CUDA_ERROR_OUT_OF_MEMORY || cuda_device_current(&ordinal) != TUTTI_SUCCESS)
        return got;
    cuda_device_identity(ordinal, uuid, bus_id);
    while (got == CUDA_ERROR_OUT_OF_MEMORY && relays_give_back(uuid, tries++))
        got = driver->MemAlloc(out, size);
    return got;
}

tutti_result_t cuda_memory_alloc(struct cuda_device *device, size_t size, CUdeviceptr *out)
{
    const struct cuda_driver *driver;
    struct cuda_relaxed relaxed;
    CUdeviceptr address = 0;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!size)
        return error_set(TUTTI_INVALID_ARGUMENT, "allocate 0 bytes on GPU %d: want 1 byte or more", device->ordinal);
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = alloc_zeroed(driver, device, size, &address);
    for (int tries = 0; got == CUDA_ERROR_OUT_OF_MEMORY && relays_give_back(device->uuid, tries); tries++)
        got = alloc_zeroed(driver, device, size, &address);
    cuda_relaxed_leave(&relaxed);
    if (got != CUDA_SUCCESS)
        return cuda_memory_no_memory(device, size, got);
    *out = address;
    return TUTTI_SUCCESS;
}

tutti_result_t cuda_memory_free(struct cuda_device *device, CUdeviceptr address)
{
    const struct cuda_driver *driver;
    struct cuda_relaxed relaxed;
    struct cuda_range range;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || !address)
        return result;
    result = cuda_range_of((void *)(uintptr_t)address, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    if (range.kind != CUDA_DEVICE || range.base != address || range.ordinal != device->ordinal)
        return error_set(TUTTI_INVALID_ARGUMENT, "free 0x%llx on GPU %d: no allocation of this GPU begins there",
                         address, device->ordinal);
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = cuda_memory_release(driver, &range);
    cuda_relaxed_leave(&relaxed);
    return cuda_check(got, "free device memory");
}

tutti_result_t cuda_memory_beside(struct cuda_device *device, int ordinal, size_t *size, CUdeviceptr *out)
{
    const struct cuda_driver *driver;
    struct cuda_relaxed relaxed;
    CUdevice where;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!device->vmm)
        return error_note(TUTTI_INVALID_USAGE, "allocate memory on GPU %d for GPU %d: the driver maps none", ordinal,
                          device->ordinal);
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = driver->DeviceGet(&where, ordinal);
    if (got == CUDA_SUCCESS)
        got = alloc_mapped(driver, device, where, size, out);
    cuda_relaxed_leave(&relaxed);
    return cuda_note(got, "allocate memory on another GPU");
}

tutti_result_t cuda_memory_leave(struct cuda_device *device, CUdeviceptr address, size_t size)
{
    const struct cuda_driver *driver;
    struct cuda_relaxed relaxed;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = cuda_unmap(driver, address, size);
    cuda_relaxed_leave(&relaxed);
    return cuda_check(got, "free memory on another GPU");
}
