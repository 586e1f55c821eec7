/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads in a device's memory. Their caller keeps host memory of the same length to spare, for lanes that cannot
 * reach the device: a send is asked to come there, and what these lanes bring is stored there. What hardware has
 * stored on the device counts as arrived when the device sees it. Until then the end of a lane takes it back, and it
 * comes once more.
 */
#ifndef TUTTI_LINK_SPARE_H
#define TUTTI_LINK_SPARE_H

#include "link/domain.h"

/* Where bytes of a receive go that this process or the system copies. */
struct place spare_target(const struct link_recv *recv);
/* The same for a payload that comes in one piece, and is copied now. NULL: it is a device's, without spare memory. */
void *spare_whole(struct link_recv *recv);

/* Of any receive, before all else. */
void spare_clear(struct link_recv *recv);
/* A receive that gets a credit. */
void spare_begin(struct link_recv *recv);
/* A segment of it has arrived. stored: by the hardware, by its key. */
void spare_came(struct link_recv *recv, const struct link_lane *lane, uint32_t index, bool stored);
/* All have. True: the device sees them. False: it will, or the receive has lost some. TUTTI_SUCCESS but for memory that
 * is not registered any more. */
tutti_result_t spare_flush(struct link *link, struct link_recv *recv, bool *seen);
/* Of the receive that is found by a token of flushed(): the device sees all of it. NULL: not yet, or nobody asks. */
struct link_recv *spare_flushed(struct link_domain *domain, uint64_t token, struct link **link);
/* What nobody can take back: the bitmap without what the device may not see yet. */
uint64_t spare_have(const struct link_recv *recv, uint64_t bitmap);
/* The lane has ended. */
void spare_lane_gone(struct link *link, unsigned lane_index);
void spare_end(struct link_recv *recv);

/* A send on a device that lanes of the link do not carry from there. */
bool spare_is_needed(const struct link_send *send);

#endif
