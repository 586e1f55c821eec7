/* SPDX-License-Identifier: Apache-2.0 */
/* Making a GPU executor, and ending it. */
#ifndef TUTTI_EXECUTOR_GPU_OPEN_H
#define TUTTI_EXECUTOR_GPU_OPEN_H

#include "tutti/tutti.h"

struct executor_config;
struct gpu;
struct team;

/* Collective. mailbox: a descriptor; -1: ranks share no memory. */
tutti_result_t gpu_open(struct team *team, const struct executor_config *config, int mailbox, struct gpu **out);
/* Waits for this rank's work unless the team has failed. Does not wait for peers: memory that they may still write to
 * is freed when they have closed theirs. NULL is allowed. */
void gpu_close(struct gpu *gpu);

#endif
