/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: the threads of some channels carry out what a user's stream comes to. */
#ifndef TUTTI_EXECUTOR_STAGED_JOB_H
#define TUTTI_EXECUTOR_STAGED_JOB_H

#include "executor/staged/staged.h"

/* With its lists. */
void job_free(struct job *job);
/* Under the lock: one channel is through with the job. Jobs that are complete end, in order. */
void job_left(struct staged *staged, struct job *job, bool failed);

#endif
