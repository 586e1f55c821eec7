/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a TCP lane. */
#ifndef TUTTI_TRANSPORT_TCP_LANE_H
#define TUTTI_TRANSPORT_TCP_LANE_H

#include "transport/tcp/tcp.h"

tutti_result_t tcp_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                             uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out);
void tcp_lane_close(struct lane *lane);
void tcp_lane_reap(struct lane *lane);
void tcp_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]);
/* How many the process listens on. */
int tcp_addresses(const struct wire_process *process);

#endif
