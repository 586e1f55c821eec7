/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose lengths only GPUs know. */
#ifndef TUTTI_EXECUTOR_GPU_DYNAMIC_H
#define TUTTI_EXECUTOR_GPU_DYNAMIC_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct dynamic_call;
struct gpu;

tutti_result_t gpu_dynamic(struct gpu *gpu, const struct dynamic_call *call, CUstream stream);

#endif
