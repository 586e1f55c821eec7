/* SPDX-License-Identifier: Apache-2.0 */
/* Large payloads at the sender's end. */
#ifndef TUTTI_LINK_OUTGOING_H
#define TUTTI_LINK_OUTGOING_H

#include "link/early.h"

/* The credit has come. */
void outgoing_start(struct link *link, struct link_send *send, const struct wire_message *head,
                    const struct early_credit *early);
/* The send goes by its grant, which stands. */
void outgoing_again(struct link *link, struct link_send *send);
/* Puts what lanes have room for. */
void outgoing_pump(struct link *link);
/* Lanes read its source no longer. What they had taken but not begun never reaches the peer, who learns why by other
 * ways. */
void outgoing_give_up(struct link *link, struct link_send *send);
void outgoing_release(struct link *link, struct link_send *send);
void outgoing_fail_all(struct link *link, tutti_result_t result);
/* The peer has everything of `slot`; `reports` as of flight_hear(). */
void outgoing_done(struct link *link, uint32_t slot, const void *reports, size_t length);
/* The key of the memory of `slot` has ended. */
void outgoing_revoked(struct link *link, uint32_t slot);
/* Which segments of `slot` the peer has. */
void outgoing_have(struct link *link, uint32_t slot, const void *bitmap, size_t length);
/* The lane is closed here: its puts read no source any more. */
void outgoing_lane_gone(struct link *link, unsigned lane_index);
/* Both ends of the lane are closed and the peer has said what it has: the rest of that lane's segments go out again. */
/* A send with a credit lies in its spare memory now. */
void outgoing_spilled(struct link *link, struct link_send *send);
void outgoing_put_again(struct link *link, unsigned lane_index);

/* Upcalls of transports. */
void outgoing_sent(struct lane *carrier, uint64_t token);
void outgoing_unreadable(struct lane *carrier, uint64_t token);

#endif
