/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces that lanes go by, and what other processes of the host do by them. */
#ifndef TUTTI_LINK_NICS_H
#define TUTTI_LINK_NICS_H

#include "base/board.h"
#include "link/domain.h"

/* By which the lane goes, which is up. */
struct path_nic *nics_find(struct link_domain *domain, const struct lane *carrier);
/* The interface's name on the board. */
uint64_t nics_name(const struct transport_nic *about);
/* A segment is about to be chosen a lane: every few times what others do is looked at. */
void nics_look(struct link_domain *domain, uint64_t now);
void nics_close(struct link_domain *domain);
/* What others do by it; and when that is known of all, whether this process's own one is slow. */
void nics_note(struct path_nic *nic, const struct board_sum *sum, uint64_t now);
void nics_compare(struct path_nic *nics, int count);
/* This process owns it, of several of its kind. */
bool nics_is_chosen(const struct link_domain *domain, const struct path_nic *nic);
/* The interfaces of a transport that is to carry segments: this process owns one of them from now on. */
void nics_list(struct link_domain *domain, int transport);
/* What the message says of our lanes; and what the peer's message says of its own. */
void nics_say(const struct link *link, struct wire_message *head);
/* The message is on its way, or kept until it can be. */
static inline void nics_said(struct link *link, const struct wire_message *head)
{
    link->nics.told = head->idle;
}
void nics_hear(struct link *link, const struct wire_message *head);
/* A segment of a payload in this slot has come. Returns true if the peer should be told that the interface of another
 * lane is idle here, or is no more. */
bool nics_came(struct link_lane *lane, uint32_t slot, uint64_t now);
/* A segment that went by its owner's interface is put; it has landed. */
void nics_serves(struct path_nic *nic, uint64_t now);
void nics_served(struct path_nic *nic, uint64_t length, uint64_t posted, uint64_t when);
/* Does the peer say that nobody needs the interface at its end? */
static inline bool nics_is_idle(const struct link_lane *lane)
{
    return lane->link->nics.idle >> lane->peer_bit & 1 || param_int(PARAM_BORROW_WHILE) == PATH_WHILE_ANY;
}

/* Is one of these interfaces up, and does nobody else of this host want it for what it sends, or for what comes? */
bool nics_any_idle(struct link_domain *domain, const struct transport_ops *ops, uint32_t devices, bool comes);

/* What a policy is told of a payload. */
struct path_payload nics_payload(const struct link *link, struct place place, enum path_class class, uint64_t left);

/* `bytes` bytes are under way on the lane, or are no more. borrows: another process owns the interface. */
void nics_begin(struct link_lane *lane, uint64_t bytes, bool borrows);
void nics_end(struct link_lane *lane, uint64_t bytes, bool borrows);
/* A segment that borrowed the interface took this time, ns, and is still under way by the words above. */
void nics_borrowed(struct link_lane *lane, uint64_t took);

#endif
