/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving on a TCP lane. */
#ifndef TUTTI_TRANSPORT_TCP_RECEIVE_H
#define TUTTI_TRANSPORT_TCP_RECEIVE_H

#include "transport/tcp/tcp.h"

/* Reads and handles what has come. Returns how much was done. */
int tcp_receive(struct tcp_lane *lane);
/* Handles the bytes in lane->in. */
int tcp_handle_input(struct tcp_lane *lane);

#endif
