/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that the peer copies from where they lie, at the sender's end. */
#ifndef TUTTI_LINK_LEND_H
#define TUTTI_LINK_LEND_H

#include "link/domain.h"

/* False: it is to go another way. */
bool lend_begin(struct link *link, struct link_send *send);
/* The send with this token; NULL: the token is none of a payload that is lent. */
struct link_send *lend_find(struct link *link, uint64_t token);
/* The payload is lent no longer, and the peer has copied it or will not. */
void lend_release(struct link *link, struct link_send *send);
/* The peer is to copy it no longer. */
void lend_give_up(struct link *link, struct link_send *send);

#endif
