/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets, signals and waits for them, in the order of streams. */
#ifndef TUTTI_EXECUTOR_GPU_PUTS_H
#define TUTTI_EXECUTOR_GPU_PUTS_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct gpu;
struct window_item;

/* As in engine/executor.h. */
tutti_result_t gpu_puts(struct gpu *gpu, const struct window_item *items, int count, CUstream stream);

#endif
