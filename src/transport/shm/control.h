/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that come on the socket of a lane. */
#ifndef TUTTI_TRANSPORT_SHM_CONTROL_H
#define TUTTI_TRANSPORT_SHM_CONTROL_H

#include "transport/shm/shm.h"

/* Reads what came on all sockets of the peer, from inside a slot's handling. An end of one is left for later. */
void shm_fetch_shared(struct shm_lane *lane);
/* Reads packets until there is none. False: the peer has closed its end, and errno says why, 0 if in good order. */
bool shm_control_drain(struct shm_lane *lane);
tutti_result_t shm_share(struct lane *lane, uint64_t key, int fd);

#endif
