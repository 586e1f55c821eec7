/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of users' memory where it lies. */
#ifndef TUTTI_EXECUTOR_GPU_PEER_REDUCE_H
#define TUTTI_EXECUTOR_GPU_PEER_REDUCE_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct call;
struct gpu;
struct kernel_reduce;
struct plan;
struct prepared;

/* A reduction of memory that is not symmetric. */
tutti_result_t peer_reduce_prepare(struct gpu *gpu, const struct call *call, struct prepared *out);
tutti_result_t peer_reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan,
                                 const struct prepared *prepared, const struct kernel_reduce *reduce, CUstream stream);

#endif
