/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for adapters. */
#include "device/cuda/memory.h"

#include <unistd.h>

/* The end of a range that ends within a page is tried both ways: drivers differ in what they take. */
bool cuda_export_pages(const struct cuda_range *range, CUdeviceptr *base, size_t *size, int *fd)
{
    const struct cuda_driver *driver;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), over = range->size % page;
    if (range->kind != CUDA_DEVICE || range->base % page || cuda_driver(&driver) != TUTTI_SUCCESS ||
        !driver->MemGetHandleForAddressRange)
        return false;
    *base = range->base;
    *size = range->size - over + (over ? page : 0);
    if (driver->MemGetHandleForAddressRange(fd, *base, *size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS)
        return true;
    *size = range->size - over;
    return over && *size &&
           driver->MemGetHandleForAddressRange(fd, *base, *size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) ==
               CUDA_SUCCESS;
}
