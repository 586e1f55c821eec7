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
/* As executor_devices has them. */
tutti_result_t gpu_memory_keep(int ordinal, size_t size, void **out);
void gpu_memory_keep_no_more(int ordinal, void *memory);
tutti_result_t gpu_memory_copy(int ordinal, void *to, const void *from, size_t size, tutti_stream_t stream);
tutti_result_t gpu_memory_runs(int ordinal, tutti_stream_t stream);
tutti_result_t gpu_memory_drain(int ordinal, tutti_stream_t stream);
/* Do GPUs of this process address it, whichever it is on? Not memory of pools, mapped pieces and managed memory, as far
 * as is known. */
bool memory_is_reached(const struct gpu *gpu, const void *memory);
tutti_result_t gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes);

#endif
