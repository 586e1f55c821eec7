/* SPDX-License-Identifier: Apache-2.0 */
/* What peers may still store to users' memory when a communicator has failed. docs/executor.md. */
#ifndef TUTTI_EXECUTOR_GPU_SETTLE_H
#define TUTTI_EXECUTOR_GPU_SETTLE_H

#include "tutti/tutti.h"

#include <stdint.h>

struct gpu;

/* Memory of this rank's user that peers may store to in a step: bytes, and where the first of it begins. `given`: these
 * ranks know where, for good; `invited`: what they know is taken back when this rank gives up. */
struct opened {
    uint64_t begin, bytes;
    uint32_t given, invited;
};

/* Of the call that is being issued: it begins; where peers are let store. */
void settle_call(struct gpu *gpu);
void settle_given(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes);
void settle_invited(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes);
/* It has become that step. */
void settle_issued(struct gpu *gpu, uint64_t step);
/* By the helper, before it lets go this rank's kernels and streams. */
void settle_reached(struct gpu *gpu);
/* When this rank's own work has ended after a failure: waits, for a bounded time, until peers store no more to users'
 * memory. An error: which of it they may. */
tutti_result_t gpu_settle(struct gpu *gpu);

#endif
