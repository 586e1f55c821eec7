/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on windows that a kernel carries out: those in CUDA graphs, and all that this rank calls once it has some. */
#ifndef TUTTI_EXECUTOR_GPU_PUTS_KERNEL_H
#define TUTTI_EXECUTOR_GPU_PUTS_KERNEL_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct gpu;
struct window_item;

/* Can a kernel do that? The sentence says what it does not reach. */
tutti_result_t puts_kernel_check(struct gpu *gpu, const struct window_item *items, int count);
/* This rank captures its first one: from here on kernels count its signals and its waits. */
void puts_kernel_begin(struct gpu *gpu);
/* Between order_begin() and order_end(). What is asked of peers comes first; then come the waits. */
tutti_result_t puts_kernel_issue(struct gpu *gpu, const struct window_item *items, int count, CUstream stream);

#endif
