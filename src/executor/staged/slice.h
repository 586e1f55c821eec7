/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, in slices. */
#ifndef TUTTI_EXECUTOR_STAGED_SLICE_H
#define TUTTI_EXECUTOR_STAGED_SLICE_H

#include "executor/staged/staged.h"

/* longest: elements of a block on the rail, of all rails, whose blocks are the longest. All take the channels which
 * that rail needs. */
void slice_cut(const struct staged *staged, struct job *job, size_t longest);
/* The one block that the first channel copies from the GPU's memory first. Returns its bytes; 0: there is none, or
 * several are copied. */
size_t slice_first(struct channel *channel, const struct job *job, const void **gpu);
tutti_result_t slice_run(struct channel *channel, const struct job *job);
/* Copies between the GPU and host memory on one of the channel's streams. */
tutti_result_t slice_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu);
/* The same within the memory of the GPU. */
tutti_result_t slice_move(struct channel *channel, void *to, const void *from, size_t bytes);

#endif
