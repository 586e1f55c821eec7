/* SPDX-License-Identifier: Apache-2.0 */
/* Transports for data alone that nobody asked for by name: they show their worth first, host by host and peer by peer.
 * Until they have, and where they do not, the link's other transport carries the data; one line says why. */
#ifndef TUTTI_LINK_TRIAL_H
#define TUTTI_LINK_TRIAL_H

#include "link/domain.h"

/* The transport could not be opened, which error_last() explains. Said once there is a peer that it might reach. */
void trial_unusable(struct link_domain *domain, const struct transport_ops *ops, tutti_result_t why);
/* The link's lanes are planned. */
void trial_planned(const struct link *link);
/* The lanes of the link are opened: from now on there is a time for the first one. */
void trial_begin(struct link *link);
/* One of the link's lanes did not come up, and error_last() says why; one did. */
void trial_failed(struct link_lane *lane);
void trial_passed(struct link_lane *lane);
/* The lane is not tried again before this long, in ns, but then for ever; 0: as any other. */
uint64_t trial_rest(const struct link_lane *lane);
/* The verdict, once it is due. */
void trial_look(struct link *link, uint64_t now);

#endif
