/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets and addresses as text. */
#include "base/fork.h"
#include "base/net.h"
#include "base/error.h"
#include "base/param.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

socklen_t net_size(const struct net_address *address)
{
    if (address->any.sa_family == AF_INET)
        return sizeof address->v4;
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : 0;
}

uint16_t net_port(const struct net_address *address)
{
    return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

void net_set_port(struct net_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

bool net_is_loopback(const struct net_address *address)
{
    if (address->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

bool net_is_wildcard(const struct net_address *address)
{
    if (address->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
    return address->v4.sin_addr.s_addr == 0;
}

bool net_same_host(const struct net_address *a, const struct net_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET6)
        return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

const char *net_format(const struct net_address *address, char out[NET_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        snprintf(out, NET_TEXT, "[%s]:%u", host, net_port(address));
    } else if (address->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(out, NET_TEXT, "%s:%u", host, net_port(address));
    } else {
        snprintf(out, NET_TEXT, "(no address)");
    }
    return out;
}

struct host_port {
    char host[256];
    char port[8];
};

/* Splits at the last colon; brackets around an IPv6 address are taken off. */
static bool net_split(const char *text, struct host_port *out)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1] || strlen(colon + 1) >= sizeof out->port)
        return false;
    const char *host = text;
    size_t length = (size_t)(colon - text);
    if (*host == '[') {
        if (length < 3 || colon[-1] != ']')
            return false;
        host++;
        length -= 2;
    } else if (memchr(host, ':', length)) {
        return false;
    }
    if (length >= sizeof out->host || colon[1] == '+' || colon[1] == '-')
        return false;
    memcpy(out->host, host, length);
    out->host[length] = 0;
    strcpy(out->port, colon + 1);
    char *end;
    long port = strtol(out->port, &end, 10);
    return !*end && port >= 0 && port <= 65535;
}

static int wanted_family(void)
{
    static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
    return families[param_int(PARAM_SOCKET_FAMILY)];
}

bool net_is_numeric(const char *text)
{
    struct host_port parts;
    struct in6_addr ignored;
    return net_split(text, &parts) &&
           (inet_pton(AF_INET, parts.host, &ignored) == 1 || inet_pton(AF_INET6, parts.host, &ignored) == 1);
}

tutti_result_t net_parse(const char *what, const char *text, struct net_address *out)
{
    struct host_port parts;
    if (!net_split(text, &parts))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "%s=%.200s is not an address: want host:port, 10.0.0.1:4711 or [fd00::1]:4711", what, text);
    struct addrinfo hints = {.ai_family = wanted_family(), .ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(parts.host, parts.port, &hints, &found);
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "%s=%.200s: cannot find the address of host \"%.100s\": %s%s", what, text,
                         parts.host, gai_strerror(error),
                         wanted_family() == AF_UNSPEC ? "" : "; TUTTI_SOCKET_FAMILY narrows the choice");
    memset(out, 0, sizeof *out);
    if (found->ai_addrlen <= sizeof *out)
        memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (out->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&out->v6.sin6_addr))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "%s=%.200s is a link-local address, which means another interface on each host: give an IPv4 "
                         "address, or an IPv6 address that is valid on all hosts, such as fd00::1",
                         what, text);
    return net_size(out) ? TUTTI_SUCCESS
                         : error_set(TUTTI_SYSTEM_ERROR, "%s=%.200s: the address is neither IPv4 nor IPv6", what, text);
}

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

static const char *bind_advice(int error)
{
    if (error == EADDRINUSE)
        return "; another program has this port";
    return error == EADDRNOTAVAIL ? "; this host does not have that address" : "";
}

/* SO_REUSEADDR lets a listener take over a port that is only bound, or whose old connections are dying. */
tutti_result_t net_reserve(struct net_address *at, int *out)
{
    char text[NET_TEXT];
    int fd = fork_socket(at->any.sa_family, SOCK_STREAM);
    if (fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make a socket to listen on %s: %s", net_format(at, text),
                         strerror(errno));
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->any.sa_family == AF_INET6 && net_is_wildcard(at))
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    struct net_address bound;
    if (bind(fd, &at->any, net_size(at)) < 0 || !net_local(fd, &bound)) {
        int error = errno;
        close(fd);
        return error_set(TUTTI_SYSTEM_ERROR, "cannot listen on %s: %s%s", net_format(at, text), strerror(error),
                         bind_advice(error));
    }
    *at = bound;
    *out = fd;
    return TUTTI_SUCCESS;
}

tutti_result_t net_listen(struct net_address *at, int backlog, int *out)
{
    char text[NET_TEXT];
    tutti_result_t result = net_reserve(at, out);
    if (result != TUTTI_SUCCESS || listen(*out, backlog) == 0)
        return result;
    int error = errno;
    close(*out);
    *out = -1;
    return error_set(TUTTI_SYSTEM_ERROR, "cannot listen on %s: %s%s", net_format(at, text), strerror(error),
                     bind_advice(error));
}

int net_connect(const struct net_address *to)
{
    int fd = fork_socket(to->any.sa_family, SOCK_STREAM);
    if (fd < 0)
        return -1;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (connect(fd, &to->any, net_size(to)) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int net_connect_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

int net_accept(int fd)
{
    int got = fork_accept(fd);
    if (got >= 0)
        set_option(got, IPPROTO_TCP, TCP_NODELAY, 1);
    return got;
}

bool net_local(int fd, struct net_address *out)
{
    socklen_t size = sizeof *out;
    memset(out, 0, sizeof *out);
    return getsockname(fd, &out->any, &size) == 0;
}
