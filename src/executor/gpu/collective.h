/* SPDX-License-Identifier: Apache-2.0 */
/* What communicators call. */
#ifndef TUTTI_EXECUTOR_GPU_COLLECTIVE_H
#define TUTTI_EXECUTOR_GPU_COLLECTIVE_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

struct call;
struct executor_call;
struct gpu;
struct p2p_item;
struct prepared;

tutti_result_t gpu_collective(struct gpu *gpu, const struct call *call, const struct prepared *prepared,
                              CUstream stream);
/* One after another; small ones in a row may be one launch. Ends with the first that fails. */
tutti_result_t gpu_collectives(struct gpu *gpu, const struct executor_call *calls, int count, CUstream stream);
/* Sends and receives of one group, at the same time. */
tutti_result_t gpu_p2p(struct gpu *gpu, const struct p2p_item *items, int count, CUstream stream);

#endif
