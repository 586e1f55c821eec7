/* SPDX-License-Identifier: Apache-2.0 */
/* How lanes come up, go down and come back; and how a link is lost. */
#ifndef TUTTI_LINK_LANES_H
#define TUTTI_LINK_LANES_H

#include "link/domain.h"

/* Does this side connect again a lane that was up, and does its attempt stay where both connect at once? */
bool lanes_begin_here(const struct link *link);
/* The lane works, from now on or again. */
void lane_up(struct link_lane *lane);
/* The lane does not work, for whatever reason: this end is closed, and the peer is told if the lane was up. */
void lane_down(struct link_lane *lane, tutti_result_t why);
/* Nothing more goes to the lane while others can take it; or it may be used as before. */
void lane_suspect(struct link_lane *lane, bool suspect);
/* The peer says that its end is closed; it has closed it after we did, and said what it has. */
void lane_down_at_peer(struct link *link, unsigned index, uint32_t epoch);
void lane_down_confirmed(struct link *link, unsigned index, uint32_t epoch);
/* The lane, which is down, is connected again if that is due and this side's to do. */
void lane_retry(struct link_lane *lane, uint64_t now);
/* Returns when it wants to be called again. */
uint64_t lanes_tick(struct link *link, uint64_t now);

/* Upcalls of transports. */
void lanes_carrier_up(struct lane *carrier);
void lanes_carrier_down(struct lane *carrier, tutti_result_t why);

extern const struct link_upcalls lanes_upcalls;

#endif
