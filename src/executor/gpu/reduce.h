/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by kernels. */
#ifndef TUTTI_EXECUTOR_GPU_REDUCE_H
#define TUTTI_EXECUTOR_GPU_REDUCE_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct call;
struct flow;
struct gpu;
struct plan;
struct prepared;

tutti_result_t reduce_issue(struct gpu *gpu, const struct call *call, const struct plan *plan, const struct flow *flow,
                            const struct prepared *prepared, CUstream stream);

#endif
