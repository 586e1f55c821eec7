/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP transport as a whole: its listening sockets, and who is polled when. */
#include "transport/tcp/tcp.h"
#include "base/error.h"
#include "base/param.h"
#include "transport/socket.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/ports.h"
#include "transport/tcp/receive.h"
#include "transport/tcp/send.h"
#include "transport/tcp/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define MOST_EACH  1    /* more lanes than this are asked all at once, by epoll */
#define COOL_AFTER 2000 /* polls without traffic */
#define LOOK_EVERY 32   /* polls */
#define AGE_EVERY  256  /* polls */

static void tcp_close(struct transport *transport)
{
    struct tcp_transport *tcp = (struct tcp_transport *)transport;
    for (int i = 0; i < WIRE_ADDRESSES; i++)
        acceptor_close(&tcp->listening[i]);
    tcp_ports_close(tcp);
    acceptor_fini(&tcp->acceptor);
    transport_fini(transport);
    free(tcp);
}

static tutti_result_t tcp_open(const struct transport_ops *ops, const struct transport_owner *owner,
                               struct poller *poller, struct wire_process *self, struct transport **out)
{
    struct tcp_transport *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for transport tcp");
    for (int i = 0; i < WIRE_ADDRESSES; i++)
        tcp->listening[i].source.fd = -1;
    tcp->ports.fd = -1;
    list_init(&tcp->lanes);
    list_init(&tcp->hot);
    list_init(&tcp->blocked);
    acceptor_init(&tcp->acceptor, &tcp->base, sizeof(struct wire_hello), tcp_greeted);
    tutti_result_t result = transport_init(&tcp->base, &transport_tcp, owner, poller, tcp_lane_reap);
    if (result == TUTTI_SUCCESS)
        result = socket_listen(&tcp->acceptor, tcp->listening, self->tcp, WIRE_ADDRESSES);
    if (result != TUTTI_SUCCESS) {
        tcp_close(&tcp->base);
        return result;
    }
    for (int i = 0; i < WIRE_ADDRESSES && tcp->listening[i].source.fd >= 0; i++)
        if (!if_indextoname((unsigned)tcp->listening[i].interface, tcp->nic[i].name)) /* it is gone already */
            *tcp->nic[i].name = 0;
    tcp_ports_open(tcp);
    tcp->base.self = self;
    *out = &tcp->base;
    return TUTTI_SUCCESS;
}

static int tcp_reach(struct transport *transport, const struct wire_process *peer)
{
    return tcp_addresses(peer) ? 100 : -1;
}

static int tcp_lanes(struct transport *transport, const struct wire_process *peer)
{
    int lanes = (int)param_int(PARAM_TCP_LANES), addresses = tcp_addresses(peer);
    return lanes > addresses ? lanes : addresses;
}

static bool tcp_nic(struct transport *transport, unsigned device, struct transport_nic *out)
{
    const struct tcp_transport *tcp = (const struct tcp_transport *)transport;
    if (device >= WIRE_ADDRESSES || tcp->listening[device].source.fd < 0)
        return false;
    *out = tcp->nic[device];
    return true;
}

/* Lanes whose socket was full: try again. */
static int flush_blocked(struct tcp_transport *tcp)
{
    struct list turn, *node;
    int done = 0;
    if (list_empty(&tcp->blocked))
        return 0;
    transport_take(&turn, &tcp->blocked);
    while ((node = list_pop(&turn)))
        done += tcp_flush(list_entry(node, struct tcp_lane, blocked));
    return done;
}

/* Asks the hot lanes, each `polls` older than before. */
static int receive_hot(struct tcp_transport *tcp, unsigned polls)
{
    struct list turn, *node;
    int done = 0;
    transport_take(&turn, &tcp->hot);
    tcp->hot_count = 0;
    while ((node = list_pop(&turn))) {
        struct tcp_lane *lane = list_entry(node, struct tcp_lane, hot);
        lane->silent_polls += polls;
        if (lane->silent_polls > COOL_AFTER)
            continue;
        list_push(&tcp->hot, &lane->hot);
        tcp->hot_count++;
        done += tcp_receive(lane);
    }
    return done;
}

static int tcp_poll(struct transport *transport)
{
    struct tcp_transport *tcp = (struct tcp_transport *)transport;
    if (transport->depth)
        return 0;
    transport_enter(transport);
    int done = flush_blocked(tcp);
    if (tcp->hot_count <= MOST_EACH)
        done += receive_hot(tcp, 1);
    else if (++tcp->crowded_polls % AGE_EVERY == 0)
        done += receive_hot(tcp, AGE_EVERY);
    else
        done += transport_look(transport);
    if (++transport->idle_polls >= LOOK_EVERY)
        done += transport_look(transport);
    done += transport_settle(transport);
    transport_leave(transport);
    return done;
}

static bool tcp_arm(struct transport *transport)
{
    struct tcp_transport *tcp = (struct tcp_transport *)transport;
    if (!list_empty(&transport->failing))
        return false;
    transport->armed = true;
    list_each(node, &tcp->blocked)
    {
        tcp_lane_watch(list_entry(node, struct tcp_lane, blocked), EPOLLIN | EPOLLOUT);
    }
    return true;
}

static void tcp_disarm(struct transport *transport)
{
    transport->armed = false;
}

const struct transport_ops transport_tcp = {
    .name = "tcp",
    .caps = 0,
    .max_msg = TCP_MAX_MSG,
    .sent = WIRE_COUNTER_SENT_TCP,
    .received = WIRE_COUNTER_RECEIVED_TCP,
    .window = 4,
    .open = tcp_open,
    .close = tcp_close,
    .reach = tcp_reach,
    .lanes = tcp_lanes,
    .nic = tcp_nic,
    .lane_open = tcp_lane_open,
    .lane_close = tcp_lane_close,
    .msg = tcp_msg,
    .put = tcp_put,
    .give_up = tcp_give_up,
    .register_memory = transport_no_register,
    .deregister_memory = transport_no_deregister,
    .announce = transport_no_announce,
    .share = transport_no_share,
    .moved = tcp_moved,
    .owes = tcp_owes,
    .poll = tcp_poll,
    .arm = tcp_arm,
    .disarm = tcp_disarm,
};
