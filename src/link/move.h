/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that are opened anew because their packets are to have another source port. */
#ifndef TUTTI_LINK_MOVE_H
#define TUTTI_LINK_MOVE_H

#include "link/domain.h"

/* Upcall of transports: the lane keeps its port while it lives, though another is wanted. */
void move_wanted(struct lane *carrier);
/* The peer puts nothing more on the lane of this epoch, and wants it opened anew. */
void move_asked(struct link *link, unsigned index, uint32_t epoch);
/* The next step of a lane that is up. True: it is to be closed now. */
bool move_look(struct link_lane *lane, uint64_t now);
/* Both ends know that the lane, which is up, is about to be opened anew: its end is no failure. */
bool move_is_agreed(const struct link_lane *lane);
/* The lane is closed, and to be connected again at once. */
void move_closed(struct link_lane *lane, uint64_t now);
/* The lane has failed for a reason of its own. */
void move_forget(struct link_lane *lane);
/* The lane was closed to be opened anew, and should have come up again by now: from here on it is one that failed. */
bool move_is_late(struct link_lane *lane, uint64_t now);
/* The lane is up. True: it was opened anew, and had not failed. */
bool move_arrived(struct link_lane *lane, uint64_t now);

#endif
