/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation needs of which ranks, told on the mailbox. When a rank is gone, the others see there how far it
 * has come. */
#ifndef TUTTI_EXECUTOR_GPU_STEP_H
#define TUTTI_EXECUTOR_GPU_STEP_H

#include <stdbool.h>
#include <stdint.h>

struct call;
struct gpu;
struct mailbox_step;
struct p2p_item;
struct way_needs;

/* An operation: one collective, several of a list, which are a step together, messages, or calls on windows. needs: of
 * a collective's schedule. */
void step_begin(struct gpu *gpu);
void step_collective(struct gpu *gpu, const struct call *call, const struct way_needs *needs);
void step_p2p(struct gpu *gpu, const struct p2p_item *items, int count);
/* For signals of that rank: signals_take(). */
void step_waits(struct gpu *gpu, int peer);
/* The call has returned. `kernel`: one comes last. */
void step_issued(struct gpu *gpu, uint32_t ticket, bool kernel, bool whole);
/* The first step of this rank that is not over, outside of graphs; NULL: all are over. *from: where that step was at
 * the last look. */
const struct mailbox_step *step_first(const struct gpu *gpu, uint64_t *from);
/* Has rank `peer` finished all that this rank's step needs of it? Has it issued all of that? */
bool step_is_served(const struct gpu *gpu, const struct mailbox_step *step, int peer);
bool step_is_met(const struct gpu *gpu, const struct mailbox_step *step, int peer);
/* Has that rank's host begun the step, and its GPU not ended it? */
bool step_is_under_way(const struct gpu *gpu, const struct mailbox_step *step, int peer);

#endif
