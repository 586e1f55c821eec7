/* SPDX-License-Identifier: Apache-2.0 */
/* Large payloads at the receiver's end. */
#ifndef TUTTI_LINK_INCOMING_H
#define TUTTI_LINK_INCOMING_H

#include "link/domain.h"

/* Tells the peer where the payload may land. */
void incoming_credit(struct link *link, struct link_recv *recv);
/* The slot and what belongs to it are free again. */
void incoming_release(struct link *link, struct link_recv *recv);
/* The same where a segment may be on its way: the slot is never given out again, so that it lands nowhere. */
void incoming_burn(struct link *link, struct link_recv *recv);
/* Ends it, and with an error its slot. */
void incoming_finish(struct link *link, struct link_recv *recv, tutti_result_t result);
/* A parked one expects the next payload, which may be there. */
void incoming_again(struct link *link, struct link_recv *recv);
void incoming_fail_parked(struct link *link, tutti_result_t result);
/* Tells the peer which segments have come. */
void incoming_say_have(struct link *link);

/* Upcalls of transports. */
struct place incoming_target(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length);
void incoming_arrived(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length);
void incoming_unwritable(struct lane *carrier, uint32_t imm, uint64_t offset, size_t length);
void incoming_flushed(void *context, uint64_t token);

#endif
