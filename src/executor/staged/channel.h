/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and teams of a rank. */
#ifndef TUTTI_EXECUTOR_STAGED_CHANNEL_H
#define TUTTI_EXECUTOR_STAGED_CHANNEL_H

#include "executor/staged/staged.h"

/* Makes nothing that can fail. */
void channels_prepare(struct staged *staged);
/* Collective. */
tutti_result_t channels_open(struct staged *staged);
/* Collective: parts of the channels' teams. members: this rank among them, the same on all of them. */
tutti_result_t channels_open_rails(struct staged *staged, const int *members, int count);
/* Ends the threads, and gives back what channels_open() made. */
void channels_close(struct staged *staged);
/* Under the lock: the job's next turn. */
void channel_give(struct channel *channel, struct job *job);

#endif
