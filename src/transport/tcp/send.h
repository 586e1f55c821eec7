/* SPDX-License-Identifier: Apache-2.0 */
/* Sending on a TCP lane. */
#ifndef TUTTI_TRANSPORT_TCP_SEND_H
#define TUTTI_TRANSPORT_TCP_SEND_H

#include "transport/tcp/tcp.h"

tutti_result_t tcp_msg(struct lane *lane, const struct iovec *parts, int count);
tutti_result_t tcp_put(struct lane *lane, const struct put *put);
void tcp_give_up(struct lane *lane, uint64_t token);
uint64_t tcp_moved(struct lane *lane);
uint64_t tcp_owes(struct lane *lane);
/* Sends what the socket takes. From poll and handlers only. Returns how many frames were done. */
int tcp_flush(struct tcp_lane *lane);
void tcp_forget_queue(struct tcp_lane *lane);

#endif
