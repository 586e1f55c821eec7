/* SPDX-License-Identifier: Apache-2.0 */
/* How channels fail together, and what may still begin then. */
#ifndef TUTTI_EXECUTOR_STAGED_FAIL_H
#define TUTTI_EXECUTOR_STAGED_FAIL_H

#include "executor/staged/staged.h"

/* Fails the communicator and ends what the channel has under way. */
void channel_fail(struct channel *channel, tutti_result_t result);
/* This rank gives up: nothing goes on but what it has finished on all channels. */
void channels_stop(struct staged *staged);
/* The communicator's team tells the other channels' teams of its failure. Any thread, any lock. */
void channels_spread_failure(void *staged);
/* May the job begin? In a communicator that has failed, a job may if the rank that gave up had finished its first
 * slice. The job then fails by another slice, or ends well. */
bool channels_begin(const struct staged *staged, const struct job *job);
/* For a channel's own streams: there are none where there is a courier. */
tutti_result_t channel_mark(struct channel *channel, CUevent event, CUstream stream);

#endif
