/* SPDX-License-Identifier: Apache-2.0 */
/* This rank's operations follow one another, whatever streams they are issued on. */
#ifndef TUTTI_EXECUTOR_GPU_ORDER_H
#define TUTTI_EXECUTOR_GPU_ORDER_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/kernels.h"
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;
struct kernel_launch;

tutti_result_t order_begin(struct gpu *gpu, CUstream stream, bool collective);
tutti_result_t order_end(struct gpu *gpu, CUstream stream, tutti_result_t issued);
/* Between the two: a kernel, with parameters that begin with `what`, which this fills in. */
tutti_result_t order_launch(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                            struct kernel_team *what, CUstream stream);
/* What is staged: a ticket that the host tells of, or 0. */
uint32_t order_staged(struct gpu *gpu);
/* Peers wait for what does not come. Returns the failure. */
tutti_result_t order_fail(struct gpu *gpu, tutti_result_t result);
/* What comes on `stream` follows what is on `before`: for a group on several streams. */
tutti_result_t gpu_follow(struct gpu *gpu, CUstream stream, CUstream before);
/* Whether other threads may issue calls on the stream in the caller's stead: not what is captured, or the caller's own
 * stream. */
bool gpu_any_thread(struct gpu *gpu, CUstream stream);

#endif
