/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a TCP lane: connect, greet, and go down. */
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "transport/socket.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/receive.h"
#include "transport/tcp/send.h"
#include "transport/tcp/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int tcp_addresses(const struct wire_process *process)
{
    return socket_addresses(process->tcp, WIRE_ADDRESSES);
}

/* Which of our interfaces the socket's address is of: the routes may have chosen. */
static void find_device(struct tcp_lane *lane)
{
    const struct tcp_transport *tcp = tcp_of(lane);
    const struct wire_process *self = tcp->base.self;
    struct net_address mine, other;
    socklen_t size = sizeof mine;
    char text[NET_TEXT], its[NET_TEXT];
    if (getsockname(lane->source.fd, &mine.any, &size) != 0)
        return;
    net_set_port(&mine, 0);
    for (int i = 0; i < tcp_addresses(self); i++) {
        if (!socket_address(&self->tcp[i], &other))
            continue;
        net_set_port(&other, 0);
        if (strcmp(net_format(&mine, text), net_format(&other, its)) != 0)
            continue;
        lane->base.lane.device = (unsigned)i;
        if (lane->host != self->host)
            lane->interface = tcp->listening[i].interface;
    }
}

static void tcp_lane_lane_ready(struct poll_source *source, uint32_t events)
{
    struct tcp_lane *lane = container_of(source, struct tcp_lane, source);
    if (events & EPOLLOUT)
        tcp_flush(lane);
    if (!carrier_dead(&lane->base) && (events & ~EPOLLOUT))
        tcp_receive(lane);
}

/* The lane has a socket with a process at either end. */
static bool tcp_lane_begin(struct tcp_lane *lane, int fd)
{
    lane->source.fd = fd;
    if (poller_add(lane->base.lane.transport->inner, &lane->source, EPOLLIN) != TUTTI_SUCCESS)
        return false;
    lane->events = EPOLLIN;
    lane->base.up = true;
    find_device(lane);
    tcp_lane_touch(lane);
    return true;
}

static void tcp_lane_connecting_failed(struct connector *connector, const char *what, int error)
{
    tcp_fail(container_of(connector, struct tcp_lane, connector), what, error);
}

static void tcp_lane_answered(struct connector *connector)
{
    struct tcp_lane *lane = container_of(connector, struct tcp_lane, connector);
    struct socket_welcome welcome;
    memcpy(&welcome, connector->answer, sizeof welcome);
    if (!socket_answers(&welcome, lane->index, lane->peer))
        tcp_fail(lane, "someone else answers at the peer's address", 0);
    else if (welcome.magic == SOCKET_DECLINE_MAGIC)
        tcp_fail(lane, "the peer is connecting this lane itself", EALREADY);
    else if (!tcp_lane_begin(lane, connector_take(connector)))
        tcp_fail(lane, "cannot watch the connection", ENOMEM);
    else
        lane->base.lane.transport->owner.up(&lane->base.lane);
}

static struct tcp_lane *tcp_lane_lane_new(struct transport *transport, void *user, uint16_t index, uint32_t epoch)
{
    struct tcp_lane *lane = calloc(1, sizeof *lane);
    unsigned char *in = malloc(TCP_INPUT);
    if (!lane || !in) {
        free(lane);
        free(in);
        return NULL;
    }
    carrier_init(&lane->base, transport, user);
    list_init(&lane->node);
    list_init(&lane->hot);
    list_init(&lane->blocked);
    lane->source = (struct poll_source){.fd = -1, .ready = tcp_lane_lane_ready};
    lane->connector = (struct connector){
        .transport = transport, .source.fd = -1, .answered = tcp_lane_answered, .failed = tcp_lane_connecting_failed};
    lane->in = in;
    lane->index = index;
    lane->epoch = epoch;
    list_push(&((struct tcp_transport *)transport)->lanes, &lane->node);
    return lane;
}

/*
 * Sends from our own interface of the same index, so that lanes spread over our NICs as over the peer's. Only a wish:
 * every other attempt leaves the choice to the routes, for networks where the two do not reach each other.
 */
static void bind_source(int fd, const struct wire_process *self, uint16_t index, uint32_t epoch,
                        const struct net_address *to)
{
    struct net_address from;
    int count = tcp_addresses(self);
    if (count < 2 || epoch / 2 % 2 == 0 || !socket_address(&self->tcp[index % count], &from))
        return;
    socket_bind_source(fd, &from, to);
}

/* Begins to connect; a failure is the lane's, of which the owner learns by down(). */
static tutti_result_t tcp_lane_start(struct tcp_lane *lane, const struct wire_process *peer)
{
    struct transport *transport = lane->base.lane.transport;
    struct net_address to;
    int count = tcp_addresses(peer);
    if (!count || !socket_address(&peer->tcp[lane->index % count], &to))
        return error_set(TUTTI_INVALID_ARGUMENT, "the peer has no TCP address");
    int fd = fork_socket(to.any.sa_family, SOCK_STREAM);
    if (fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make a socket for TCP lane %u: %s", lane->index, strerror(errno));
    socket_tune(fd);
    socket_be_quick(fd, transport, peer);
    bind_source(fd, transport->self, lane->index, lane->epoch, &to);
    if (!connector_start(&lane->connector, fd, &to)) {
        int error = errno;
        close(fd);
        tcp_fail(lane, "cannot connect", error);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t tcp_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                             uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    struct tcp_lane *lane = tcp_lane_lane_new(transport, user, index, epoch);
    if (!lane)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for TCP lane %u", index);
    struct wire_hello *hello = (struct wire_hello *)lane->in; /* nothing is received before it is said */
    *hello = transport_hello(transport, peer, index, epoch, known, session);
    lane->connector.greeting = hello;
    lane->connector.greeting_size = sizeof *hello;
    lane->connector.size = sizeof(struct socket_welcome);
    memcpy(lane->peer, peer->uuid, sizeof lane->peer);
    lane->host = peer->host;
    tutti_result_t result = tcp_lane_start(lane, peer);
    if (result != TUTTI_SUCCESS) {
        tcp_lane_reap(&lane->base.lane);
        return result;
    }
    *out = &lane->base.lane;
    return TUTTI_SUCCESS;
}

void tcp_lane_close(struct lane *lane)
{
    tcp_lane_silence(tcp_lane_of(lane));
    carrier_close(&tcp_lane_of(lane)->base);
}

void tcp_lane_reap(struct lane *base)
{
    struct tcp_lane *lane = tcp_lane_of(base);
    list_remove(&lane->node);
    tcp_forget_queue(lane);
    if (lane->source.fd >= 0)
        close(lane->source.fd);
    free(lane->in);
    free(lane);
}

static bool tcp_lane_answer(const struct tcp_lane *lane, uint32_t magic)
{
    struct socket_welcome welcome = socket_answer(lane->base.lane.transport, magic, lane->index);
    return socket_send_whole(lane->source.fd, &welcome, sizeof welcome);
}

/* The owner decides before the peer hears anything: a lane that is not taken is never up there. */
static void tcp_lane_introduce(struct tcp_lane *lane, const struct wire_hello *hello)
{
    struct transport *transport = lane->base.lane.transport;
    bool taken = transport->owner.accepted(transport->owner.context, &lane->base.lane, hello);
    if (carrier_dead(&lane->base))
        return;
    lane->welcome_due = false;
    if (!taken) {
        tcp_lane_answer(lane, SOCKET_DECLINE_MAGIC);
        tcp_lane_close(&lane->base.lane);
    } else if (!tcp_lane_answer(lane, SOCKET_WELCOME_MAGIC)) {
        tcp_fail(lane, "cannot send the welcome", errno);
    } else {
        tcp_flush(lane);
    }
}

void tcp_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS])
{
    struct transport *transport = acceptor->transport;
    struct wire_hello hello;
    struct tcp_lane *lane;
    (void)fds; /* TCP carries none */
    memcpy(&hello, greeting, sizeof hello);
    if (!transport_believes(transport, &hello)) {
        log_info("a stranger connected to transport tcp without the secret: closed");
        close(fd);
        return;
    }
    socket_tune(fd);
    socket_be_quick(fd, transport, &hello.from);
    if (!(lane = tcp_lane_lane_new(transport, NULL, hello.lane, hello.epoch))) {
        close(fd);
        return;
    }
    lane->welcome_due = true;
    memcpy(lane->peer, hello.from.uuid, sizeof lane->peer);
    lane->host = hello.from.host;
    if (tcp_lane_begin(lane, fd))
        tcp_lane_introduce(lane, &hello);
    else
        tcp_lane_reap(&lane->base.lane);
}
