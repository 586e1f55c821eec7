/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a peer's acceptor. */
#include "transport/connector.h"
#include "base/param.h"
#include "transport/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CONNECT_MS 2500 /* TCP asks again after 1, 3, 7, 15 s, and a network that is back would be found as late */
/* Of TUTTI_TIMEOUT: the peer may be busy, and if an answer was lost there is time to ask again. */
#define ANSWER_PART 4

/* An end that the peer did not make says nothing of the peer: somebody on the way, or here, cut the connection. */
static bool peer_ended(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == TCP_CLOSE_WAIT;
}

static void read_answer(struct connector *connector)
{
    ssize_t got =
        recv(connector->source.fd, connector->answer + connector->got, connector->size - connector->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        int error = got < 0 ? errno : peer_ended(connector->source.fd) ? 0 : ECONNABORTED;
        connector->failed(connector, "the peer did not take our greeting", error);
        return;
    }
    connector->got += (size_t)got;
    if (connector->got == connector->size)
        connector->answered(connector);
}

static void await_answer(struct connector *connector)
{
    connector->connected = true;
    transport_timer_clear(connector->transport, &connector->deadline);
    transport_timer_set(connector->transport, &connector->deadline, param_int(PARAM_TIMEOUT) / ANSWER_PART);
}

static void say_greeting(struct connector *connector)
{
    int error = net_connect_error(connector->source.fd);
    if (error)
        connector->failed(connector, "cannot connect", error);
    else if (!socket_send_whole(connector->source.fd, connector->greeting, connector->greeting_size))
        connector->failed(connector, "cannot send the greeting", errno);
    else if (poller_change(connector->transport->inner, &connector->source, EPOLLIN) != TUTTI_SUCCESS)
        connector->failed(connector, "cannot wait for the answer", 0);
    else
        await_answer(connector);
}

static void connector_ready(struct poll_source *source, uint32_t events)
{
    struct connector *connector = container_of(source, struct connector, source);
    (void)events;
    if (connector->connected)
        read_answer(connector);
    else
        say_greeting(connector);
}

static void connector_deadline_passed(struct transport_timer *timer)
{
    struct connector *connector = container_of(timer, struct connector, deadline);
    connector->failed(connector, connector->connected ? "the peer does not answer our greeting" : "cannot connect",
                      ETIMEDOUT);
}

bool connector_start(struct connector *connector, int fd, const struct net_address *to)
{
    list_init(&connector->deadline.node);
    connector->deadline.expired = connector_deadline_passed;
    if (connect(fd, &to->any, net_size(to)) != 0 && errno != EINPROGRESS)
        return false;
    connector->source = (struct poll_source){.fd = fd, .ready = connector_ready};
    if (poller_add(connector->transport->inner, &connector->source, EPOLLOUT) != TUTTI_SUCCESS) {
        connector->source.fd = -1;
        errno = ENOMEM;
        return false;
    }
    int64_t patience = param_int(PARAM_TIMEOUT);
    transport_timer_set(connector->transport, &connector->deadline, patience < CONNECT_MS ? patience : CONNECT_MS);
    return true;
}

int connector_take(struct connector *connector)
{
    int fd = connector->source.fd;
    transport_timer_clear(connector->transport, &connector->deadline);
    poller_remove(connector->transport->inner, &connector->source);
    connector->source.fd = -1;
    return fd;
}

void connector_close(struct connector *connector)
{
    if (connector->source.fd >= 0)
        close(connector_take(connector));
}
