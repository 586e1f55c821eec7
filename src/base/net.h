/* SPDX-License-Identifier: Apache-2.0 */
/* Socket helpers: addresses as text, which interface to use, non-blocking TCP sockets. Names are resolved only by
 * net_parse. */
#ifndef TUTTI_BASE_NET_H
#define TUTTI_BASE_NET_H

#include "tutti/tutti.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define NET_TEXT 64 /* bytes that hold any formatted address: "[v6%scope]:port" */

struct net_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
};

/* Bytes of the sockaddr; 0 if the family is neither IPv4 nor IPv6. */
socklen_t net_size(const struct net_address *address);
uint16_t net_port(const struct net_address *address);
void net_set_port(struct net_address *address, uint16_t port);
bool net_is_loopback(const struct net_address *address);
bool net_is_wildcard(const struct net_address *address);
/* Same family and same host address; the ports may differ. */
bool net_same_host(const struct net_address *a, const struct net_address *b);
/* "10.0.0.1:4711" or "[fd00::1]:4711". Returns `out`. */
const char *net_format(const struct net_address *address, char out[NET_TEXT]);

/*
 * "host:port", "[v6]:port" or "a.b.c.d:port"; a name is looked up, its first address in TUTTI_SOCKET_FAMILY is taken.
 * `what` names the setting in the error sentence.
 */
tutti_result_t net_parse(const char *what, const char *text, struct net_address *out);
/* True if the host part of `text` is a numeric address, so that it means the same on every host. */
bool net_is_numeric(const char *text);

struct net_interface {
    char name[IF_NAMESIZE];
    struct net_address address; /* port 0 */
};

/*
 * The interfaces to use, best first, as TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY ask. Without a wish: those whose
 * name begins with ib; else all others; else bridges of containers and virtual machines; else loopback. IPv6 link-local
 * addresses are never taken: they mean nothing on another host. *count is at most `room`. An error if there is none.
 */
tutti_result_t net_interfaces(struct net_interface *out, int room, int *count);

/* Does `name` satisfy the wish? "eth,ib": begins with one; "=eth0": is one; "^docker,lo": begins with none; "^=eth0":
 * is none. */
bool net_name_wanted(const char *wish, const char *name);
/* The group an interface belongs to when there is no wish: lower is better. */
int net_name_class(const char *name, bool loopback);

/* A non-blocking, close-on-exec listening TCP socket. `at` may have port 0; *at becomes the address bound. */
tutti_result_t net_listen(struct net_address *at, int backlog, int *out);
/* Ports for ranks to meet at: below the 32768 where client ports begin on Linux. */
#define NET_PORT_FIRST 20000u
#define NET_PORT_COUNT 12000u
/* Binds a port without listening, so that nobody else gets it; net_listen takes it over. *at becomes the address bound.
 */
tutti_result_t net_reserve(struct net_address *at, int *out);
/* Starts to connect without waiting. Returns the socket, or -1 with errno. Writable means: ask net_connect_error. */
int net_connect(const struct net_address *to);
/* 0 if connected, else the errno that the connection failed with. */
int net_connect_error(int fd);
/* Accepts one connection, non-blocking and without delay. -1 with errno. */
int net_accept(int fd);
/* The address of this end. False with errno. */
bool net_local(int fd, struct net_address *out);

#endif
