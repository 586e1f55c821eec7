/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: zeroed, for users, copied. */
#ifndef TUTTI_EXECUTOR_GPU_MEMORY_H
#define TUTTI_EXECUTOR_GPU_MEMORY_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu;

tutti_result_t memory_zeroed(const struct cuda_driver *cu, size_t size, CUdeviceptr *out);
/* Of the current device, for users: peers can map it. */
tutti_result_t gpu_memory_alloc(void **out, size_t size);
tutti_result_t gpu_memory_free(void *pointer);
/* Do GPUs of this process address it, whichever it is on? Not memory of pools, mapped pieces and managed memory, as far
 * as is known. */
bool memory_is_reached(const struct gpu *gpu, const void *memory);
tutti_result_t gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);

#endif
