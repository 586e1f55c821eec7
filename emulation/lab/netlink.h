/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about ports, read by rtnetlink: a socket stays in the namespace where it was opened, so one
 * socket a node serves for good, without entering the namespace again. Also adds the rules that iproute2 6.1 cannot
 * write (DSCP).
 */
#ifndef LAB_NETLINK_H
#define LAB_NETLINK_H

#include "wiring/topology.h"

#include <net/if.h>

struct netlink_port {
    char name[IFNAMSIZ];
    int index;
    bool up;      /* switched on */
    bool carrier; /* the other end is switched on, too */
    bool running; /* the kernel has taken note of that and sends packets */
    bool silent;  /* it has an address that nobody sends to, so it hears nothing */
    uint64_t tx_bytes, tx_packets, drops;
    uint64_t rate; /* bits per second, 0: not shaped */
};

/* A rule of policy routing: packets that match look up `table`. Either by source address (of hosts), or by DSCP and UDP
 * ports (of leaves; -1: any). */
struct netlink_rule {
    int family; /* AF_INET or AF_INET6 */
    int priority, table;
    const char *source; /* NULL: by ports */
    int dscp, dport, first, last;
    int mask; /* of source ports, then first == last; 0: none. Linux before 6.15 ignores it */
};

/* The second byte of a port's MAC address: 0, or this one for a port that is to hear nothing. */
#define NETLINK_DEAF 0xff

/* A socket in the caller's namespace. */
tutti_result_t netlink_open(int *out);
void netlink_close(int fd);

/* All ports but lo. At most `room`; *count says how many there are. */
tutti_result_t netlink_ports(int fd, struct netlink_port *ports, int room, int *count);

/* Adds a rule and makes sure that the kernel understood all of it. */
tutti_result_t netlink_add_rule(int fd, const struct netlink_rule *rule);

#endif
