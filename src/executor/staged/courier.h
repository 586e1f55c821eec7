/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by a kernel, unless TUTTI_STAGE_KERNEL=0. The channels make no call of the driver then. */
#ifndef TUTTI_EXECUTOR_STAGED_COURIER_H
#define TUTTI_EXECUTOR_STAGED_COURIER_H

#include "executor/staged/staged.h"

tutti_result_t courier_open(struct staged *staged);
void courier_close(struct staged *staged);
/* What waits for the job in the user's stream. */
tutti_result_t courier_launch(struct staged *staged, const struct job *job, CUstream stream);
/* Waits until the user's stream has come to the job, or the communicator has failed and the job may not begin. */
tutti_result_t courier_meet(struct channel *channel, const struct job *job);
/* As slice_copy(); it is over when this returns. */
tutti_result_t courier_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu);

#endif
