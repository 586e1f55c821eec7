/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation needs of whom, told on the mailbox: how far a rank has come is seen there when it is gone. */
#ifndef TUTTI_EXECUTOR_GPU_STEP_H
#define TUTTI_EXECUTOR_GPU_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct gpu;
struct mailbox_step;
struct p2p_item;
struct way_needs;

/* An operation: one collective, several of a list, which are a step together, or messages. needs: of a collective's
 * schedule. */
void step_begin(struct gpu *gpu);
void step_collective(struct gpu *gpu, const struct call *call, const struct way_needs *needs);
void step_p2p(struct gpu *gpu, const struct p2p_item *items, int count);
/* The call has returned. `kernel`: one comes last. */
void step_issued(struct gpu *gpu, uint32_t ticket, bool kernel, bool whole);
/* The first that is not over of this rank's, outside of graphs; NULL: all are. *from: where it was when last looked
 * for. */
const struct mailbox_step *step_first(const struct gpu *gpu, uint64_t *from);
/* Has rank `peer` finished all that this rank's step needs of it? Has it issued that? */
bool step_is_served(const struct gpu *gpu, const struct mailbox_step *step, int peer);
bool step_is_met(const struct gpu *gpu, const struct mailbox_step *step, int peer);
/* Has that rank's host begun it, and its GPU not ended it? */
bool step_is_under_way(const struct gpu *gpu, const struct mailbox_step *step, int peer);

#endif
