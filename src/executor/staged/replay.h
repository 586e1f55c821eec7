/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What graphs hold: recipes, of which each launch of a graph makes a job. All operations of a communicator follow one
 * another on the GPU, so one kernel at a time asks.
 */
#ifndef TUTTI_EXECUTOR_STAGED_REPLAY_H
#define TUTTI_EXECUTOR_STAGED_REPLAY_H

#include "executor/staged/staged.h"

/* The job of the kernel that asks: in front of all others, whose kernels have not come. The kernel has been answered.
 * NULL: there was no memory, the kernel has been told that its job is over, and the team has failed. By the first
 * channel's thread, under the lock, while a kernel asks. */
struct job *replay_take(struct staged *staged);
/* When no graph is launched any more. */
void replay_close(struct staged *staged);

#endif
