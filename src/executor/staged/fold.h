/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions that the GPU makes of what is staged: processors only move what others contribute. */
#ifndef TUTTI_EXECUTOR_STAGED_FOLD_H
#define TUTTI_EXECUTOR_STAGED_FOLD_H

#include "executor/staged/staged.h"

/* How the job goes; longest: as of slice_cut(). The same on all ranks. */
enum fold fold_choose(const struct staged *staged, const struct job *job, size_t longest);
/* Elements of a block that a slice holds. */
size_t fold_room(const struct staged *staged, const struct job *job);
/* Where input and output of a slice lie in it. */
void fold_place(const struct channel *channel, const struct job *job, struct slice *slice);
/* The block of the input that this rank's GPU reads where it lies: it is not copied; -1: there is none. */
int fold_stays(const struct channel *channel, const struct job *job);
/* Sends what this rank contributes to the GPUs that reduce it. Not waited for. */
tutti_result_t fold_issue(struct channel *channel, const struct job *job, struct slice *slice);
/* Reduces what has come. FOLD_WHOLE: to the user's memory. FOLD_PARTS: to the slice, where its input was, and the parts
 * go to all ranks that want them. */
tutti_result_t fold_end(struct channel *channel, const struct job *job, struct slice *slice);

#endif
