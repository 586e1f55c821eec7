/* SPDX-License-Identifier: Apache-2.0 */
/* Which buffers of peers are mapped here, and which of these are to be closed. */
#ifndef TUTTI_EXECUTOR_GPU_IMPORTED_H
#define TUTTI_EXECUTOR_GPU_IMPORTED_H

#include "base/list.h"
#include "device/cuda/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* A peer's buffer that is mapped here. */
struct import {
    struct list node; /* in the list of those to be closed */
    int peer, offer;
    uint32_t number; /* of the offer */
    struct cuda_handle handle;
    CUdeviceptr address;
    bool told; /* kernels were told of it, perhaps long ago: kernels that graphs replay may still store to it */
};
#define IMPORT_NO_OFFER (-1) /* no kernel was told of it */

/* Where a buffer is that the peer knows to be mapped. */
CUdeviceptr imported_address(const struct gpu *gpu, int peer, uint32_t offer);
/* Under the lock of old imports: from here on the import is to be closed, and no message uses it. */
void imported_make_old(struct gpu *gpu, struct import *import);
/* Takes an old import out of the list; NULL: there is none. */
struct import *imported_next_old(struct gpu *gpu);
/* The import in that place is used no more, and becomes old. */
void imported_put_off(struct gpu *gpu, int peer, const struct cuda_handle *handle, CUdeviceptr address);
/* The executor is closed: all imports, old or not, go to `out`. Nothing is unmapped yet. */
void imported_take_all(struct gpu *gpu, struct list *out);
/* Unmaps an import in a pause, and frees it. */
void imported_unmap(struct cuda_device *device, int rank, struct import *import);

#endif
