/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by a kernel, unless TUTTI_STAGE_KERNEL=0. The channels make no call of the driver then. */
#ifndef TUTTI_EXECUTOR_STAGED_COURIER_H
#define TUTTI_EXECUTOR_STAGED_COURIER_H

#include "executor/staged/staged.h"

tutti_result_t courier_open(struct staged *staged);
void courier_close(struct staged *staged);
/* Of a kernel, at most, for a call of that length. For long calls two are too few to fill the way to the host's
 * memory. The user's limit counts. */
unsigned courier_blocks(const struct staged *staged, uint64_t bytes);
/* Puts the kernel that waits for the job into the user's stream. */
tutti_result_t courier_launch(struct staged *staged, const struct job *job, CUstream stream);
/* Puts the kernel into the graph that is being captured on the stream. At each launch the kernel asks for a job like
 * this one. */
tutti_result_t courier_capture(struct staged *staged, const struct job *recipe, CUstream stream);
/* Waits until the user's stream has come to the job, or the communicator has failed and the job may not begin.
 * TUTTI_IN_PROGRESS: a graph's kernel has come before, and asks. The kernel brings the bytes of the GPU's memory if
 * they are few. */
tutti_result_t courier_meet(struct channel *channel, const struct job *job, const void *gpu, size_t bytes);
bool courier_brings(size_t bytes);
/* What the first channel's kernel brought when it was met, as a copy from the GPU's memory. */
void courier_fetch(const struct channel *channel, void *host, size_t bytes);
/* A kernel of a graph waits for its job. */
bool courier_is_asked(const struct staged *staged);
/* Returns when that ticket is stored, or the GPU has failed. */
void courier_await_ticket(struct staged *staged, uint32_t ticket);
/* us between two looks for a kernel. waited: ns for which it has been waited for. */
unsigned courier_pause(uint64_t waited);
/* ns for which nobody looks at a copy of these bytes: half of what the copy takes, if that is long. pace: ns that the
 * latest copies took for 1 MiB; 0: not known. */
uint64_t courier_rest(uint64_t pace, size_t bytes);
/* The pace after a copy. took: ns. */
uint64_t courier_pace(uint64_t pace, size_t bytes, uint64_t took);
/* As slice_copy(); the copy is over when this returns. */
tutti_result_t courier_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu);

/* A copy between two places in memory that the GPU reaches. */
tutti_result_t courier_move(struct channel *channel, void *to, const void *from, size_t bytes);

/* The reduction of one block of each rank of the job's team, by the job's operator. `to` and `own` are memory of the
 * GPU, or a slice's; rank p's block is at p * bytes behind `from`, in a slice. For jobs that fold. */
struct courier_fold {
    void *to;
    const void *from, *own;
    size_t bytes;
    int nranks, rank;
};
tutti_result_t courier_fold(struct channel *channel, const struct courier_fold *fold);
/* A copy to a slice, of which each element is multiplied by that one. For jobs that fold. */
tutti_result_t courier_scale(struct channel *channel, const void *gpu, void *host, size_t bytes, uint64_t scalar);

#endif
