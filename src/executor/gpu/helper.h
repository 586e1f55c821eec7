/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that acts on news of peers. */
#ifndef TUTTI_EXECUTOR_GPU_HELPER_H
#define TUTTI_EXECUTOR_GPU_HELPER_H

#include "tutti/tutti.h"

struct gpu;

tutti_result_t helper_start(struct gpu *gpu);
void helper_stop(struct gpu *gpu);

#endif
