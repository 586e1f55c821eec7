/* SPDX-License-Identifier: Apache-2.0 */
/* Which links there are, and which lanes each is to have. */
#ifndef TUTTI_LINK_LINKS_H
#define TUTTI_LINK_LINKS_H

#include "link/domain.h"

/* Made, and not started. */
tutti_result_t links_make(struct link_domain *domain, const struct wire_process *peer, uint64_t session,
                          struct link **out);
/* The lane of this index, which the link has from now on. */
struct link_lane *links_lane(struct link *link, unsigned index);
/* Asks the policy which lanes there are to be. */
void links_plan(struct link *link);
/* Upcall of transports. */
int links_source(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                 uint16_t index);
int links_steered(void *context, const uint8_t *peer, uint16_t index, uint16_t has);

#endif
