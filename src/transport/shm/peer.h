/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes to the same process have in common. */
#ifndef TUTTI_TRANSPORT_SHM_PEER_H
#define TUTTI_TRANSPORT_SHM_PEER_H

#include "transport/shm/shm.h"

struct shm_peer *shm_peer_join(struct shm_lane *lane, const uint8_t *uuid, pid_t pid, int page_fd, int bell);
/* Returns the peer if this was its last lane: shm_peer_end() follows, after what others have of it; else NULL. */
struct shm_peer *shm_peer_leave(struct shm_lane *lane);
void shm_peer_end(struct shm_peer *peer);
void shm_peer_try_attach(struct shm_peer *peer, struct attach_word word);
/* Tells the peer whether we can read its memory. */
void shm_tell_attach(struct shm_lane *lane);
/* The lane whose socket carries what concerns the peer as a whole; -1: none. */
int shm_peer_socket(const struct shm_peer *peer);

#endif
