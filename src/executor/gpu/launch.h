/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of an operation. */
#ifndef TUTTI_EXECUTOR_GPU_LAUNCH_H
#define TUTTI_EXECUTOR_GPU_LAUNCH_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/kernels.h"
#include "tutti/tutti.h"

struct gpu;
struct kernel_launch;

/* Between order_begin() and order_end(): with parameters that begin with `what`, which this fills in. */
tutti_result_t launch_kernel(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_team *what, CUstream stream);

#endif
