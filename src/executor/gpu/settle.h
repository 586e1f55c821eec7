/* SPDX-License-Identifier: Apache-2.0 */
/* What peers may still store to users' memory when a communicator has failed. docs/executor.md. */
#ifndef TUTTI_EXECUTOR_GPU_SETTLE_H
#define TUTTI_EXECUTOR_GPU_SETTLE_H

#include "tutti/tutti.h"

#include <stdbool.h>

struct gpu;

/* By the helper, before it lets go this rank's kernels and streams. */
void settle_reached(struct gpu *gpu);
/* When this rank's own work has ended, after a failure or before its end: waits, for a bounded time, until peers store
 * no more to users' memory. An error says to which memory they may still store. */
tutti_result_t gpu_settle(struct gpu *gpu, bool ends);

/* No peer puts into this rank's windows any more, from now on; waits, for a bounded time, for puts that lie in streams.
 */
tutti_result_t settle_windows(struct gpu *gpu);

#endif
