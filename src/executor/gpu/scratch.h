/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that peers write to: windows, and bulk, the larger scratch that is made at its first use. */
#ifndef TUTTI_EXECUTOR_GPU_SCRATCH_H
#define TUTTI_EXECUTOR_GPU_SCRATCH_H

#include "executor/gpu/mailbox.h"

#include <stdbool.h>

struct gpu;

tutti_result_t scratch_window(struct gpu *gpu);
/* Gives peers the window: by a handle, or by descriptors, which are on their way to peers when this returns. */
enum scratch_kind { SCRATCH_WINDOW, SCRATCH_BULK };
tutti_result_t scratch_describe(struct gpu *gpu, CUdeviceptr memory, enum scratch_kind kind,
                                struct mailbox_buffer *out);
tutti_result_t scratch_reach(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, enum scratch_kind kind,
                             CUdeviceptr *out, bool *imported);
/* Makes this rank's bulk, and tells the others. */
tutti_result_t scratch_post_bulk(struct gpu *gpu);
/* By the importer: makes this rank's bulk when a peer has made its own, so that a call there need not wait for one
 * here. */
void scratch_answer(struct gpu *gpu);
/* Reaches the bulk of these ranks, this one among them. */
tutti_result_t scratch_take_bulk(struct gpu *gpu, uint32_t ranks);
/* Memory in place of a user's that peers do not reach: two vectors of PEER_MOST bytes. */
tutti_result_t scratch_stand_in(struct gpu *gpu);

#endif
