/* SPDX-License-Identifier: Apache-2.0 */
/* Which TCP lanes are asked for news, and the end of one that fails. */
#include "transport/tcp/watch.h"

#include <string.h>

void tcp_lane_touch(struct tcp_lane *lane)
{
    struct tcp_transport *tcp = tcp_of(lane);
    lane->silent_polls = 0;
    if (list_empty(&lane->hot)) {
        list_push(&tcp->hot, &lane->hot);
        tcp->hot_count++;
    }
}

void tcp_lane_watch(struct tcp_lane *lane, uint32_t events)
{
    if (lane->events == events)
        return;
    lane->events = events;
    poller_change(lane->base.lane.transport->inner, &lane->source, events);
}

void tcp_lane_silence(struct tcp_lane *lane)
{
    struct tcp_transport *tcp = tcp_of(lane);
    connector_close(&lane->connector);
    if (!list_empty(&lane->hot)) {
        list_remove(&lane->hot);
        tcp->hot_count--;
    }
    list_remove(&lane->blocked);
    if (lane->events)
        poller_remove(tcp->base.inner, &lane->source);
    lane->events = 0;
}

tutti_result_t tcp_fail(struct tcp_lane *lane, const char *what, int error)
{
    tcp_lane_silence(lane);
    return carrier_fail(&lane->base, carrier_why(&lane->base, error), "TCP lane %u: %s%s%s", lane->index, what,
                        error ? ": " : "", error ? strerror(error) : "");
}
