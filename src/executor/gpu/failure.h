/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor has failed of. */
#ifndef TUTTI_EXECUTOR_GPU_FAILURE_H
#define TUTTI_EXECUTOR_GPU_FAILURE_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* The team's failure; asked before every issue, and while waiting for a peer's host. */
tutti_result_t gpu_failure(struct gpu *gpu);
/* The result to report when memory of this peer could not be reached. The peer may be gone, or may have aborted and
 * freed the memory: its news may come a little later. Success stays. */
tutti_result_t gpu_explain(struct gpu *gpu, int peer, tutti_result_t result);
/* The team's failure, also if so far only the mailbox tells of it: streams may have been let go already, with undefined
 * data. Peers tell before they let go what waits for words or data. */
tutti_result_t gpu_hear_failure(struct gpu *gpu);
/* Tells peers, which may hear of it in no other way, what this rank's team has failed of, if it has failed. */
void gpu_tell_failure(struct gpu *gpu);
/* An error if one of these ranks takes part no more: that rank will not take what this one sends. */
tutti_result_t gpu_needs(struct gpu *gpu, uint32_t ranks);

#endif
