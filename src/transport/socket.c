/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections of lanes: listening, addresses, tuning, greetings. */
#include "transport/socket.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#define BACKLOG 4096

static void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

static long read_limit(const char *path)
{
    long limit = 0;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%ld", &limit) != 1)
            limit = 0;
        fclose(file);
    }
    return limit;
}

/* A size that the system would cut is not set at all: buffers that grow by themselves then do better. */
static void set_buffer(int fd, int force, int plain, const char *limit, int bytes)
{
    if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof bytes) != 0 && read_limit(limit) >= bytes)
        set(fd, SOL_SOCKET, plain, bytes);
}

void socket_tune(int fd)
{
    int timeout = (int)param_int(PARAM_TIMEOUT), seconds = timeout / 3000 > 1 ? timeout / 3000 : 1;
    int buffer = (int)param_int(PARAM_TCP_BUFFER);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds < 32767 ? seconds : 32767);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds < 32767 ? seconds : 32767);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, timeout);
    if (!buffer)
        return;
    set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, "/proc/sys/net/core/wmem_max", buffer);
    set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, "/proc/sys/net/core/rmem_max", buffer);
}

/*
 * To the same host nothing is congested that a sender could spare. Congestion control that paces (BBR, the default of
 * some systems) takes a third more processor time there and holds streams back. Reno, which every Linux has and lets
 * anyone choose, never waits.
 */
void socket_be_quick(int fd, const struct transport *transport, const struct wire_process *peer)
{
    if (peer->host == transport->self->host)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

void socket_bind_source(int fd, const struct net_address *from, const struct net_address *to)
{
    struct net_address any = *from;
    int late = 1;
    char text[NET_TEXT];
    if (from->any.sa_family != to->any.sa_family || net_is_loopback(from) != net_is_loopback(to))
        return;
    net_set_port(&any, 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late);
    if (bind(fd, &any.any, net_size(&any)) != 0)
        log_info("cannot send from our address %s: %s; leaving it to the routes", net_format(&any, text),
                 strerror(errno));
}

bool socket_send_whole(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t took = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (took < 0 && errno != EINTR)
            return false;
        done += took > 0 ? (size_t)took : 0;
    }
    return true;
}

struct socket_welcome socket_answer(const struct transport *transport, uint32_t magic, uint16_t lane)
{
    struct socket_welcome welcome = {.magic = magic, .version = WIRE_HELLO_VERSION, .lane = lane};
    memcpy(welcome.uuid, transport->self->uuid, sizeof welcome.uuid);
    return welcome;
}

bool socket_answers(const struct socket_welcome *welcome, uint16_t lane, const uint8_t *peer)
{
    return (welcome->magic == SOCKET_WELCOME_MAGIC || welcome->magic == SOCKET_DECLINE_MAGIC) &&
           welcome->version == WIRE_HELLO_VERSION && welcome->lane == lane && wire_same_process(welcome->uuid, peer);
}

bool socket_address(const struct wire_address *from, struct net_address *to)
{
    memset(to, 0, sizeof *to);
    if (from->family == 4) {
        to->v4.sin_family = AF_INET;
        memcpy(&to->v4.sin_addr, from->bytes, 4);
    } else if (from->family == 6) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_scope_id = from->scope;
        memcpy(&to->v6.sin6_addr, from->bytes, 16);
    } else {
        return false;
    }
    net_set_port(to, from->port);
    return true;
}

static void to_wire(const struct net_address *address, struct wire_address *out)
{
    *out = (struct wire_address){.port = net_port(address)};
    if (address->any.sa_family == AF_INET) {
        out->family = 4;
        memcpy(out->bytes, &address->v4.sin_addr, 4);
    } else {
        out->family = 6;
        out->scope = address->v6.sin6_scope_id;
        memcpy(out->bytes, &address->v6.sin6_addr, 16);
    }
}

int socket_addresses(const struct wire_address *addresses, int most)
{
    int count = 0;
    while (count < most && addresses[count].family)
        count++;
    return count;
}

bool socket_listen_at(struct acceptor *acceptor, struct acceptor_socket *listening, const struct net_address *at,
                      const char *name, struct wire_address *out)
{
    struct net_address bound = *at;
    char text[NET_TEXT];
    int fd;
    if (net_listen(&bound, BACKLOG, &fd) != TUTTI_SUCCESS)
        return false;
    socket_tune(fd); /* connections inherit the buffers, and the window scale that goes with them */
    if (acceptor_open(acceptor, listening, fd) != TUTTI_SUCCESS)
        return false;
    log_info("transport %s listens at %s (%s)", acceptor->transport->ops->name, net_format(&bound, text), name);
    to_wire(&bound, out);
    return true;
}

tutti_result_t socket_listen(struct acceptor *acceptor, struct acceptor_socket *listening, struct wire_address *out,
                             int most)
{
    struct net_interface faces[WIRE_ADDRESSES];
    int count = 0, opened = 0;
    tutti_result_t result = net_interfaces(faces, WIRE_ADDRESSES, &count);
    if (result != TUTTI_SUCCESS)
        return result;
    memset(out, 0, (size_t)most * sizeof *out);
    for (int i = 0; i < count && opened < most; i++)
        if (socket_listen_at(acceptor, &listening[opened], &faces[i].address, faces[i].name, &out[opened]))
            listening[opened++].interface = (int)if_nametoindex(faces[i].name);
    return opened ? TUTTI_SUCCESS : TUTTI_INVALID_USAGE;
}
