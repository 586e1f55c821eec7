/* SPDX-License-Identifier: Apache-2.0 */
/* What a pointer points at, and how memory of one process becomes addressable in another. No call changes the context.
 */
#ifndef TUTTI_DEVICE_CUDA_MEMORY_H
#define TUTTI_DEVICE_CUDA_MEMORY_H

#include "device/cuda/device.h"

enum cuda_kind {
    CUDA_HOST,   /* unknown to the driver: malloc, mmap, stack */
    CUDA_PINNED, /* host memory that the driver allocated or registered */
    CUDA_DEVICE,
    CUDA_MANAGED /* moves between host and devices */
};

struct cuda_range {
    enum cuda_kind kind;
    int ordinal;      /* of the device that owns it; -1 for CUDA_HOST */
    CUdeviceptr base; /* the allocation, or the mapped piece of a reservation, that the pointer lies in */
    size_t size;
    uint64_t id; /* of the allocation: changes when memory is freed and allocated again at the same address */
    bool vmm;    /* mapped by cuMemMap: shared by descriptor, not by IPC handle */
};

/* Never fails for host pointers: kind CUDA_HOST, base the pointer, size 0. Without a driver all pointers are.
 * TUTTI_DEVICE_ERROR when the driver does not answer any more, as after a fault of a kernel. */
tutti_result_t cuda_range_of(const void *pointer, struct cuda_range *out);

/* Travels between processes of one host, of one build. A VMM handle goes with its descriptor (SCM_RIGHTS). */
struct cuda_handle {
    uint32_t how;     /* CUDA_BY_IPC, CUDA_BY_DESCRIPTOR */
    uint32_t pieces;  /* mappings behind the range: 1 */
    uint64_t size;    /* bytes of the range */
    uint64_t id;      /* the range's */
    uint64_t base;    /* of the range, where it was exported */
    uint64_t process; /* the process that exported it: IPC handles cannot be opened where they were made */
    uint64_t serial;  /* of its exports: of two of other memory at one base the higher is of what is there now */
    uint8_t ipc[64];
};

enum { CUDA_BY_IPC = 1, CUDA_BY_DESCRIPTOR = 2 };

/* *fd: the caller's to send and close; -1 unless by descriptor. TUTTI_INVALID_USAGE, and what to do, for memory that
 * cannot be shared: host, pinned and managed memory, and mapped memory that was made without a descriptor handle type.
 */
tutti_result_t cuda_export(const struct cuda_range *range, struct cuda_handle *out, int *fd);

/* A descriptor of the range for adapters (dma-buf), the caller's to close, and the pages that it stands for: whole
 * ones, of which the last may reach beyond the range. The range's device is current. False: the memory has none. */
bool cuda_export_pages(const struct cuda_range *range, CUdeviceptr *base, size_t *size, int *fd);

/* Maps memory of another process for `device`; *out is where the range's base is here. `fd` stays the caller's. */
tutti_result_t cuda_import(struct cuda_device *device, const struct cuda_handle *handle, int fd, CUdeviceptr *out);
tutti_result_t cuda_unimport(struct cuda_device *device, const struct cuda_handle *handle, CUdeviceptr address);

/* Zeroed device memory that can be exported: by descriptor where the device has that, else by IPC handle. Where there
 * is none left, but relays have slots on this GPU, waits up to 200 ms for that. */
tutti_result_t cuda_memory_alloc(struct cuda_device *device, size_t size, CUdeviceptr *out);
tutti_result_t cuda_memory_free(struct cuda_device *device, CUdeviceptr address);

/* cuMemAlloc() of the current context, which waits in the same way. */
CUresult cuda_memory_take(const struct cuda_driver *driver, size_t size, CUdeviceptr *out);

/* Memory on the GPU of another ordinal, which needs no context there, and which only `device` addresses. *size: what is
 * asked for, and then what it is. It is not zeroed. */
tutti_result_t cuda_memory_beside(struct cuda_device *device, int ordinal, size_t *size, CUdeviceptr *out);
tutti_result_t cuda_memory_leave(struct cuda_device *device, CUdeviceptr address, size_t size);

#endif
