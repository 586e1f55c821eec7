/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process of the same user, by 64 bytes: they name the process, its descriptor, and the file that it
 * must still be. */
#include "cuda/call.h"
#include "cuda/memory.h"
#include "cuda/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31554d45u

struct handle {
    uint32_t magic, device;
    int32_t pid, fd;
    uint64_t inode, size, base;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    struct stat file;
    CALL(CALL_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    CUresult result = range && range->kind == RANGE_DEVICE && !(range->flags & RANGE_POOLED) && !fstat(range->fd, &file)
                          ? CUDA_SUCCESS
                          : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        struct handle handle = {.magic = MAGIC,
                                .device = (uint32_t)device_number(range->device),
                                .pid = getpid(),
                                .fd = range->fd,
                                .inode = file.st_ino,
                                .size = range->size,
                                .base = (uintptr_t)range->base};
        memset(out, 0, sizeof(*out));
        memcpy(out, &handle, sizeof(handle));
    }
    state_unlock();
    return result;
}

/* -1: the owner or its memory is gone, or this user may not look at it. */
static int open_file(const struct handle *handle)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file) || file.st_ino != handle->inode || (uint64_t)file.st_size < handle->size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static struct range *find_open(const struct handle *handle, CUcontext context)
{
    for (struct range *r = range_after(NULL); r; r = range_after(r))
        if (r->kind == RANGE_IMPORTED && r->context == context && r->inode == handle->inode)
            return r;
    return NULL;
}

/* Drivers of GPUs do not map two allocations of one process and address. */
static bool older_is_open(const struct handle *handle, CUcontext context)
{
    for (struct range *r = range_after(NULL); config_get()->refuse && r; r = range_after(r))
        if (r->kind == RANGE_IMPORTED && r->context == context && r->owner == handle->pid && r->origin == handle->base)
            return true;
    return false;
}

static CUresult open_handle(const struct handle *handle, CUdeviceptr *out)
{
    CUcontext context = context_current();
    struct range *range = find_open(handle, context);
    if (range) {
        range->refs++;
        *out = (uintptr_t)range->base;
        return CUDA_SUCCESS;
    }
    if (older_is_open(handle, context))
        return CUDA_ERROR_ALREADY_MAPPED;
    int fd = open_file(handle);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t mapped = (handle->size + 4095) & ~(size_t)4095;
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct range new = {.kind = RANGE_IMPORTED,
                        .base = base,
                        .size = handle->size,
                        .mapped = mapped,
                        .fd = fd,
                        .refs = 1,
                        .device = device_of_number((int)handle->device),
                        .context = context,
                        .inode = handle->inode,
                        .origin = handle->base,
                        .owner = handle->pid};
    if (base != MAP_FAILED && !private_protect(base, mapped, PROT_READ | PROT_WRITE) && range_add(&new)) {
        held_lock(fd);
        *out = (uintptr_t)base;
        return CUDA_SUCCESS;
    }
    if (base != MAP_FAILED)
        munmap(base, mapped);
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle given, unsigned flags)
{
    struct handle handle;
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    memcpy(&handle, &given, sizeof(handle));
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != MAGIC ||
        (handle.pid != getpid() && !config_get()->ipc))
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (device_of_number((int)handle.device) != context_current()->device && !config_get()->peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    state_lock();
    CUresult result = open_handle(&handle, out);
    state_unlock();
    return result;
}

static struct range *find_imported(CUdeviceptr address)
{
    struct range *range = range_find((void *)(uintptr_t)address);
    return range && range->kind == RANGE_IMPORTED && (uintptr_t)range->base == address ? range : NULL;
}

/* Waits for what this process does in the context, not for the owner of the memory. */
EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    state_lock();
    struct range *range = find_imported(address);
    if (range && range->refs == 1)
        context_hold(range->context);
    range = find_imported(address);
    if (range && !--range->refs)
        range_release(range);
    state_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    CALL(CALL_CONTEXT);
    return CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    CALL(CALL_CONTEXT);
    return CUDA_ERROR_NOT_SUPPORTED;
}
