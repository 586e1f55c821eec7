/* SPDX-License-Identifier: Apache-2.0 */
/* Which lane carries messages. */
#ifndef TUTTI_LINK_CONTROL_H
#define TUTTI_LINK_CONTROL_H

#include "link/parts.h"

/* What is refused on this one says something of the peer: on others, only of them. */
bool control_tells_of_peer(const struct link_lane *lane);
/* Other lanes carry data alone: they neither keep a link nor lose one. */
bool control_carries(const struct link_lane *lane);
/* Lanes have come or gone: the best one. All that the peer has not acknowledged goes again over a new one: it takes
 * what follows on what it has, by whatever lane that comes, and nothing else. */
void control_choose(struct link *link);

#endif
