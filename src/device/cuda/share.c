/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one process made addressable in another: IPC handles for what cuMemAlloc made, descriptors for what is
 * mapped. */
#include "device/cuda/memory.h"
#include "device/cuda/internal.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- This process: it cannot open its own IPC handles ---- */

static uint64_t process;
static uint32_t process_generation; /* in which it was made */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

/* Random rather than a pid, which is ambiguous between containers; made anew after a fork. 0: no randomness to be had.
 */
static uint64_t this_process(void)
{
    pthread_mutex_lock(&process_lock);
    if ((!process || process_generation != fork_generation) &&
        random_bytes(&process, sizeof process) == TUTTI_SUCCESS) {
        process |= 1;
        process_generation = fork_generation;
    }
    uint64_t mine = process_generation == fork_generation ? process : 0;
    pthread_mutex_unlock(&process_lock);
    return mine;
}

/* ---- export ---- */

static tutti_result_t cannot_share(const struct cuda_range *range, const char *why)
{
    return error_note(
        TUTTI_INVALID_USAGE,
        "share the %zu bytes at 0x%llx of GPU %d with other processes: %s; allocate with tutti_device_mem_alloc() or "
        "cudaMalloc()",
        range->size, range->base, range->ordinal, why);
}

static tutti_result_t export_descriptor(const struct cuda_driver *driver, const struct cuda_range *range, int *fd)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    int got_fd = -1;
    if (!driver->MemExportToShareableHandle || !driver->MemGetAllocationPropertiesFromHandle)
        return cannot_share(range, "this driver cannot share mapped memory");
    CUresult got = driver->MemRetainAllocationHandle(&handle, (void *)(uintptr_t)range->base);
    if (got != CUDA_SUCCESS)
        return cuda_check(got, "find the allocation behind mapped memory");
    memset(&prop, 0, sizeof prop);
    got = driver->MemGetAllocationPropertiesFromHandle(&prop, handle);
    bool shareable = prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (got == CUDA_SUCCESS && shareable)
        got = driver->MemExportToShareableHandle(&got_fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    driver->MemRelease(handle);
    if (got == CUDA_SUCCESS && !shareable)
        return cannot_share(
            range, "it was made by cuMemCreate() without the handle type for file descriptors (PyTorch's expandable "
                   "segments do that)");
    *fd = got_fd;
    return cuda_check(got, "export mapped memory as a file descriptor");
}

static tutti_result_t export_ipc(const struct cuda_driver *driver, const struct cuda_range *range,
                                 struct cuda_handle *out)
{
    CUipcMemHandle handle;
    struct cuda_device *device;
    char why[300], text[200];
    tutti_result_t result = cuda_device_acquire(range->ordinal, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_enter(device);
    CUresult got = driver->IpcGetMemHandle(&handle, range->base);
    cuda_leave();
    cuda_device_release(device);
    if (got != CUDA_SUCCESS) {
        snprintf(why, sizeof why, "the driver gives no IPC handle: %s (memory of cudaMallocAsync() has none)",
                 cuda_result_text(got, text, sizeof text));
        return cannot_share(range, why);
    }
    memcpy(out->ipc, handle.reserved, sizeof out->ipc);
    return TUTTI_SUCCESS;
}

static const char *const kinds[] = {
    [CUDA_HOST] = "host", [CUDA_PINNED] = "pinned", [CUDA_DEVICE] = "device", [CUDA_MANAGED] = "managed"};

tutti_result_t cuda_export(const struct cuda_range *range, struct cuda_handle *out, int *fd)
{
    const struct cuda_driver *driver;
    *fd = -1;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    if (range->kind != CUDA_DEVICE)
        return error_set(TUTTI_INVALID_USAGE,
                         "share memory at 0x%llx with other processes: it is %s memory, not a GPU's; allocate "
                         "with tutti_device_mem_alloc() or cudaMalloc()",
                         range->base, kinds[range->kind]);
    static _Atomic uint64_t exports;
    *out = (struct cuda_handle){.how = range->vmm ? CUDA_BY_DESCRIPTOR : CUDA_BY_IPC,
                                .pieces = 1,
                                .size = range->size,
                                .id = range->id,
                                .base = range->base,
                                .process = this_process(),
                                .serial = atomic_fetch_add_explicit(&exports, 1, memory_order_relaxed) + 1};
    return range->vmm ? export_descriptor(driver, range, fd) : export_ipc(driver, range, out);
}

/* ---- import ---- */

static tutti_result_t import_descriptor(const struct cuda_driver *driver, struct cuda_device *device,
                                        const struct cuda_handle *from, int fd, CUdeviceptr *out)
{
    CUmemGenericAllocationHandle handle;
    struct cuda_relaxed relaxed;
    if (!device->vmm || !driver->MemImportFromShareableHandle)
        return error_set(TUTTI_INVALID_USAGE,
                         "map memory of another process on GPU %d: its driver cannot map descriptors", device->ordinal);
    cuda_relaxed_enter(device, &relaxed);
    CUresult got =
        driver->MemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (got == CUDA_SUCCESS) {
        got = cuda_map(driver, device, handle, from->size, out);
        driver->MemRelease(handle);
    }
    cuda_relaxed_leave(&relaxed);
    return cuda_note(got, "map a descriptor of another process's device memory");
}

static bool cuda_share_ours(const struct cuda_handle *handle)
{
    return handle->process && handle->process == this_process();
}

/* Memory of this very process is where it is; a device other than its owner only needs access. */
static tutti_result_t import_own(struct cuda_device *device, const struct cuda_handle *from, CUdeviceptr *out)
{
    struct cuda_range range;
    tutti_result_t result = cuda_range_of((void *)(uintptr_t)from->base, &range);
    if (result == TUTTI_SUCCESS && (range.kind != CUDA_DEVICE || range.id != from->id))
        result = error_set(TUTTI_INVALID_USAGE, "use the device memory at 0x%llx: it was freed after it was exported",
                           (unsigned long long)from->base);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_peer(device, range.ordinal);
    if (result == TUTTI_SUCCESS)
        *out = from->base;
    return result;
}

static tutti_result_t import_ipc(const struct cuda_driver *driver, struct cuda_device *device,
                                 const struct cuda_handle *from, CUdeviceptr *out)
{
    CUipcMemHandle handle;
    struct cuda_relaxed relaxed;
    if (cuda_share_ours(from))
        return import_own(device, from, out);
    memcpy(handle.reserved, from->ipc, sizeof handle.reserved);
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = driver->IpcOpenMemHandle(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    cuda_relaxed_leave(&relaxed);
    return cuda_note(got, "open an IPC handle of another process's device memory");
}

tutti_result_t cuda_import(struct cuda_device *device, const struct cuda_handle *handle, int fd, CUdeviceptr *out)
{
    const struct cuda_driver *driver;
    CUdeviceptr address = 0;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    if (handle->pieces != 1 || !handle->size || (handle->how == CUDA_BY_DESCRIPTOR) != (fd >= 0))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "map memory of another process: the handle (kind %u, %u pieces, %llu bytes, %s "
                         "descriptor) makes no sense",
                         handle->how, handle->pieces, (unsigned long long)handle->size, fd >= 0 ? "with" : "no");
    if (handle->how == CUDA_BY_DESCRIPTOR)
        result = import_descriptor(driver, device, handle, fd, &address);
    else if (handle->how == CUDA_BY_IPC)
        result = import_ipc(driver, device, handle, &address);
    else
        result =
            error_set(TUTTI_INVALID_ARGUMENT, "map memory of another process: handle of unknown kind %u", handle->how);
    if (result == TUTTI_SUCCESS)
        *out = address;
    return result;
}

tutti_result_t cuda_unimport(struct cuda_device *device, const struct cuda_handle *handle, CUdeviceptr address)
{
    const struct cuda_driver *driver;
    struct cuda_relaxed relaxed;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || (handle->how == CUDA_BY_IPC && cuda_share_ours(handle)))
        return result;
    cuda_relaxed_enter(device, &relaxed);
    CUresult got = handle->how == CUDA_BY_DESCRIPTOR ? cuda_unmap(driver, address, handle->size)
                                                     : driver->IpcCloseMemHandle(address);
    cuda_relaxed_leave(&relaxed);
    return cuda_check(got, "unmap another process's device memory");
}
