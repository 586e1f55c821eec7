/* SPDX-License-Identifier: Apache-2.0 */
/* The link of a process to itself. */
#ifndef TUTTI_LINK_SELF_H
#define TUTTI_LINK_SELF_H

#include "link/domain.h"

/* The two have met. False: it is short, or they do not fit; nothing was done. */
bool self_begin(struct link *link, struct link_send *send, struct link_recv *recv);
/* Copies a piece. Returns how much was done. */
int self_poll(struct link_domain *domain);
/* The two fit, and memory of one is not what its call says: both end with that. */
void self_refuse(struct link_domain *domain, struct link_send *send, struct link_recv *recv);
/* The send, or the receive, is withdrawn: the other waits again. */
void self_part_send(struct link *link, struct link_send *send);
void self_part_recv(struct link *link, const struct link_recv *recv);

#endif
