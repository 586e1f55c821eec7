/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a verbs lane. */
#ifndef TUTTI_TRANSPORT_VERBS_SEND_H
#define TUTTI_TRANSPORT_VERBS_SEND_H

#include "transport/verbs/verbs.h"

tutti_result_t verbs_msg(struct lane *lane, const struct iovec *parts, int count);
tutti_result_t verbs_put(struct lane *lane, const struct put *put);
void verbs_gather(struct transport *transport, bool gathers);
void verbs_give_up(struct lane *lane, uint64_t token);
/* More chunks for what is copied. False: there is no memory, or it has all. */
bool verbs_more_chunks(struct verbs_lane *lane);
/* Sends a head without a payload, and asks for its completion. False: the lane has failed. */
bool verbs_say(struct verbs_lane *lane, enum verbs_type type);
/* Is there room for that on a lane that is in use? */
bool verbs_may_say(struct verbs_lane *lane);
/* Sends what there is room for, and tells the owner of room. From poll and handlers only. */
void verbs_move(struct verbs_lane *lane);
/* Work request `slot`, and all before it, are done. */
void verbs_sent(struct verbs_lane *lane, uint32_t slot);
void verbs_forget_queue(struct verbs_lane *lane);
uint64_t verbs_moved(struct lane *lane);
uint64_t verbs_owes(struct lane *lane);

#endif
