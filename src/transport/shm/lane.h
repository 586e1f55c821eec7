/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a shared-memory lane. */
#ifndef TUTTI_TRANSPORT_SHM_LANE_H
#define TUTTI_TRANSPORT_SHM_LANE_H

#include "transport/shm/shm.h"

tutti_result_t shm_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                             uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
void shm_lane_close(struct lane *lane);
void shm_lane_reap(struct lane *lane);
void shm_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);

#endif
