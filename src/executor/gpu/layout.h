/* SPDX-License-Identifier: Apache-2.0 */
/* Where things lie in a window: words of kernels, pieces of staged messages, and what only its owner touches. */
#ifndef TUTTI_EXECUTOR_GPU_LAYOUT_H
#define TUTTI_EXECUTOR_GPU_LAYOUT_H

#include "device/cuda/driver.h"

#include <stddef.h>
#include <stdint.h>

struct gpu;
struct kernel_mappings;

/* Where what only the owner touches begins. */
size_t layout_mappings_begin(const struct gpu *gpu);
/* Where kernels look up what this rank has mapped; NULL: windows are in host memory. */
struct kernel_mappings *layout_mappings(const struct gpu *gpu);
/* Where a piece from `peer` lies in rank `rank`'s window. */
CUdeviceptr layout_stage(const struct gpu *gpu, int rank, int peer, uint32_t piece);

#endif
