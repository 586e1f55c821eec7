/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that reduce nothing, as messages: where adapters reach the memory of all GPUs, nothing is copied then.
 * alltoallv, as a step, is messages in any case. */
#ifndef TUTTI_EXECUTOR_STAGED_SPREAD_H
#define TUTTI_EXECUTOR_STAGED_SPREAD_H

#include "executor/staged/staged.h"

/* In how many steps the call goes on these ranks, one behind the other; 0: it does not, but in slices. The same on
 * all of them. */
int spread_steps(const struct staged *staged, int nranks, const struct call *call);
/* This rank's messages in a step. Room: two for each rank. Returns how many. */
int spread_items(const struct team *team, const struct call *call, int step, struct p2p_item *items);
/* Bytes of the longest message of any rank, in any step. */
size_t spread_longest(int nranks, const struct call *call);
/* What this rank itself copies, before the first step. False: nothing. */
bool spread_copy(const struct team *team, const struct call *call, struct call_part *from, struct call_part *to);

#endif
