/* SPDX-License-Identifier: Apache-2.0 */
/* Calls become jobs. */
#ifndef TUTTI_EXECUTOR_STAGED_ISSUE_H
#define TUTTI_EXECUTOR_STAGED_ISSUE_H

#include "executor/staged/staged.h"

/* Stream-ordered, without waiting: a thread of the rank carries them out one after another. Not while capturing a
 * graph. ticket: the operation's. The host stores the ticket when the operation is over, as a stream that writes it
 * would hold up others. 0: a stream stores it. */
tutti_result_t issue_collective(struct staged *staged, const struct call *call, uint32_t ticket, CUstream stream);
/* A call on the ranks of this one's rail, as a step of a call of all ranks. */
struct issue_step {
    const struct call *call, *of;
    size_t longest; /* elements of a block of the call, or of a message, on the rail that has the longest */
    int spread;     /* as messages: which of spread_steps(); -1: in slices */
};
tutti_result_t issue_on_rail(struct staged *staged, const struct issue_step *step, uint32_t ticket, CUstream stream);
tutti_result_t issue_messages(struct staged *staged, const struct p2p_item *items, int count, uint32_t ticket,
                              CUstream stream);
/* An exchange whose lengths are read when the stream comes to it. */
tutti_result_t issue_dynamic(struct staged *staged, const struct dynamic_call *call, uint32_t ticket, CUstream stream);
/* Calls on windows, of a stream that is being captured. */
tutti_result_t issue_asked(struct staged *staged, const struct window_item *items, int count, CUstream stream);

#endif
