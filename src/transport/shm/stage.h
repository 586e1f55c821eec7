/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processors for one payload. A peer that reads by cross-memory attach copies alone, and slowly, for the kernel
 * looks every page up. Meanwhile a sender that has a processor to spare copies the sources of pulls that the peer has
 * not come to into stages, in shared memory. The peer finds them there, or reads by itself: neither depends on the
 * other.
 */
#ifndef TUTTI_TRANSPORT_SHM_STAGE_H
#define TUTTI_TRANSPORT_SHM_STAGE_H

#include "transport/shm/shm.h"

/* The sender copies a part of a pull ahead. 0: there is nothing to be copied, or no stage for it. */
int shm_stage_ahead(struct shm_lane *lane);
/* The peer is done with the pull. */
void shm_stage_free(struct shm_lane *lane, uint32_t number);

/* The receiver begins to read a pull: from here on the sender copies no more of it. */
void shm_stage_pass(struct shm_lane *lane, uint32_t number);
/* How many bytes, from the start, the receiver must read by itself. The others lie at *rest. */
uint64_t shm_stage_find(const struct shm_lane *lane, const struct ring_pull *pull, uint32_t number, const void **rest);

#endif
