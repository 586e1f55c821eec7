/* SPDX-License-Identifier: Apache-2.0 */
/* What is under way on lanes, and when it landed. */
#ifndef TUTTI_LINK_FLIGHT_H
#define TUTTI_LINK_FLIGHT_H

#include "link/domain.h"

/* A segment is about to be put. False: no memory. */
bool flight_begin(struct link_lane *lane, const struct link_send *send, const struct put *put, uint64_t now);
/* The lane needs its source no longer. */
void flight_sent(struct link_lane *lane, uint64_t token, uint64_t now);
/* The segment was refused or given up. */
void flight_give_up(struct link_lane *lane, uint64_t token);
/* The lane is down. */
void flight_drop_all(struct link_lane *lane);
/* The peer says what has landed: an array of struct wire_landed. */
void flight_hear(struct link *link, const void *reports, size_t length);
/* The peer has all of `slot`: for segments of which no report came. */
void flight_all_landed(struct link *link, uint32_t slot);
/* The first flight that may not be sent yet, so that a message may overtake it. A probe carries it, and its answer
 * brings it back: what was before it has landed, whatever reports say, or do not, which may be lost with a peer's clock
 * that stood still. */
uint64_t flight_unsent(const struct link_lane *lane);
void flight_answered(struct link_lane *lane, const void *body, size_t length);
/* The peer says when a small message of ours came: struct wire_timed. */
void flight_timed(struct link *link, const void *body, size_t length);
/* A segment has arrived on the lane, just now: to be said. */
void flight_arrived(struct link_lane *lane, uint32_t imm);
/* Says what has arrived, if that is due. all: before a sleep. */
void flight_tell(struct link_domain *domain, bool all);
/* A lane is down, and reports may have gone with it: the latest are said again. */
void flight_tell_again(struct link *link);
/* Says DONE, and with it what else has landed. */
void flight_done(struct link *link, uint32_t slot);

#endif
