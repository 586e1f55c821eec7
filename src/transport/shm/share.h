/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of this process and of peers. */
#ifndef TUTTI_TRANSPORT_SHM_SHARE_H
#define TUTTI_TRANSPORT_SHM_SHARE_H

#include "transport/shm/shm.h"

/* Tells the peer of regions that it does not know, and of those of its own that are mapped here. */
void shm_announce(struct shm_transport *shm, struct shm_peer *peer);
/* Tells peers which regions are freed. */
void shm_tell_frees(struct shm_transport *shm);
/* What a full socket did not take is said again. */
void shm_say_again(struct transport_timer *again);
void shm_peer_region(struct shm_peer *peer, uint32_t id, uint64_t size, int fd);
void shm_peer_drop(struct shm_peer *peer, uint32_t id);
void shm_peer_maps(struct shm_peer *peer, uint32_t id);
/* The peer's end: nothing of it is mapped any more, nor of ours there. */
void shm_peer_forget_regions(struct shm_peer *peer, const struct shm_transport *shm);
/* In the peer's region; NULL if it is not mapped here or does not hold [from, from + length). */
const char *shm_peer_map(struct shm_peer *peer, uint32_t id, uint64_t from, uint64_t length);
/* Has the peer our region mapped? Else it is told of it. */
bool shm_peer_has(struct shm_lane *lane, uint32_t region);
void shm_announce_region(struct transport *transport, const void *address);

#endif
