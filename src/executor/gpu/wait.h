/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for all that was issued outside of graphs. */
#ifndef TUTTI_EXECUTOR_GPU_WAIT_H
#define TUTTI_EXECUTOR_GPU_WAIT_H

#include "tutti/tutti.h"

struct gpu;

tutti_result_t gpu_synchronize(struct gpu *gpu);

#endif
