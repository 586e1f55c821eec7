/* SPDX-License-Identifier: Apache-2.0 */
/* Which TCP lanes are asked for news, and the end of one that fails. */
#ifndef TUTTI_TRANSPORT_TCP_WATCH_H
#define TUTTI_TRANSPORT_TCP_WATCH_H

#include "transport/tcp/tcp.h"

/* The lane has traffic: polls ask it directly. */
void tcp_lane_touch(struct tcp_lane *lane);
void tcp_lane_watch(struct tcp_lane *lane, uint32_t events);
/* No more events, polls or deadlines for this lane. */
void tcp_lane_silence(struct tcp_lane *lane);
/* The lane fails: nothing more is sent or received, and down() follows. */
tutti_result_t tcp_fail(struct tcp_lane *lane, const char *what, int error);

#endif
