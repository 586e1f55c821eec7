/* SPDX-License-Identifier: Apache-2.0 */
/* Links and addresses of this network namespace from the kernel, over netlink. */
#ifndef VERBS_NETLINK_H
#define VERBS_NETLINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netlink_link {
    int index, hardware;
    unsigned mtu;
    bool up; /* switched on, and with a carrier */
    uint8_t mac[6];
    char name[IF_NAMESIZE];
};

struct netlink_address {
    int index;
    bool v6;
    uint8_t bytes[16];
};

/* Calls `each` for every link or usable address. 0 or errno. */
int netlink_links(void (*each)(const struct netlink_link *link, void *arg), void *arg);
int netlink_addresses(void (*each)(const struct netlink_address *address, void *arg), void *arg);

/* UDP packets. Addresses of IPv4 are the first four bytes. */
struct netlink_flow {
    int index; /* of the interface that they leave by */
    bool v6;
    uint8_t traffic_class;
    uint16_t source_port, destination_port;
    const uint8_t *source, *destination;
};

/* The hardware address, of six bytes, that packets of the flow would leave to. 0 or errno: ENOENT when the kernel knows
 * none, or would not just send them by this interface. */
int netlink_next_hop(const struct netlink_flow *flow, uint8_t to[6]);

/* Whether the interface has a carrier at this moment: 1 or 0; -1: its driver does not say. `fd`: any socket. */
int netlink_carrier(int fd, const char *ifname);

/* A socket that receives a message on each change. -1 with errno. */
int netlink_monitor(void);

#endif
