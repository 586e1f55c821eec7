/* SPDX-License-Identifier: Apache-2.0 */
/* The links executor: runs any schedule over links, a few slices at a time, each going through its rounds at its own
 * pace. */
#ifndef TUTTI_ENGINE_ROUNDS_H
#define TUTTI_ENGINE_ROUNDS_H

#include "engine/team.h"

/* Under the team's and the engine's locks. */
tutti_result_t rounds_start(struct team *team, struct op *op);
tutti_result_t rounds_step(struct team *team, struct op *op);
/* What takes time, in pieces, under the team's lock alone. False: there was nothing of that kind. */
bool rounds_work(struct team *team, struct op *op);
/* Is there anything that rounds_step would do? */
bool rounds_may_move(const struct op *op);
/* Withdraws everything posted and gives the state back. */
void rounds_end(struct team *team, struct op *op);
void rounds_free(struct rounds *rounds);

#endif
