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
/* What a policy is told of a payload. */
struct path_payload nics_payload(const struct link *link, struct place place, enum path_class class, uint64_t left);

/* `bytes` bytes are under way by the interface, or are no more. borrowed: they are of a payload that is nearest to
 * another interface. */
static inline void nics_begin(struct path_nic *nic, uint64_t bytes, bool borrowed)
{
    nic->outstanding += bytes;
    if (nic->use)
        atomic_fetch_add_explicit(&nic->use->outstanding, bytes, memory_order_relaxed);
    if (nic->use && borrowed)
        atomic_fetch_add_explicit(&nic->use->borrowed, bytes, memory_order_relaxed);
}

static inline void nics_end(struct path_nic *nic, uint64_t bytes, bool borrowed)
{
    nic->outstanding -= bytes;
    if (nic->use)
        atomic_fetch_sub_explicit(&nic->use->outstanding, bytes, memory_order_relaxed);
    if (nic->use && borrowed)
        atomic_fetch_sub_explicit(&nic->use->borrowed, bytes, memory_order_relaxed);
}

#endif
