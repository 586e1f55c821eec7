/* SPDX-License-Identifier: Apache-2.0 */
/* How far the peer is: packets of a lane, and the time until its adapter has acknowledged them. */
#ifndef TUTTI_TRANSPORT_VERBS_TRIP_H
#define TUTTI_TRANSPORT_VERBS_TRIP_H

#include "transport/verbs/verbs.h"

/* Sends a packet whose acknowledgement is waited for. False: the lane has failed. */
bool verbs_trip_begin(struct verbs_lane *lane);
/* Work request `slot` has ended. True: it was that packet. */
bool verbs_trip_end(struct verbs_lane *lane, uint32_t slot);
/* Of the side that connects, when the lane is usable: measures again at times that follow, and tells the peer. */
void verbs_trip_follow(struct verbs_lane *lane);
/* The peer tells what it has measured. */
void verbs_trip_told(struct verbs_lane *lane, uint32_t trip);

#endif
