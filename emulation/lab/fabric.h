/* SPDX-License-Identifier: Apache-2.0 */
/* A lab that runs: made, read, changed, removed. */
#ifndef LAB_FABRIC_H
#define LAB_FABRIC_H

#include "lab/netlink.h"
#include "wiring/text.h"
#include "wiring/topology.h"

/* A lab that is up: its topology, and a netlink socket in each node. */
struct lab_fabric {
    struct lab_topology topology;
    int *sockets;
    struct netlink_port *scratch; /* room for the ports of any node */
};

/* Both ends of a link, as the kernel sees them. */
struct fabric_link {
    struct netlink_port lower, upper;
};

/* Makes the lab that `yaml` describes; what a crash left of one of that name is removed first. One that lives is ended
 * only if `replace`, which is said on stderr, and if it is the same user's; else TUTTI_INVALID_USAGE. If it fails,
 * nothing stays. */
tutti_result_t fabric_up(const struct lab_topology *topology, const struct text *yaml, bool replace);
/* Of a lab that is up; -1 if they cannot be counted. */
int fabric_processes(const char *name);
/* Ends the lab's processes and removes everything. Not an error if parts are gone already. */
tutti_result_t fabric_down(const char *name);

tutti_result_t fabric_open(const char *name, struct lab_fabric *out);
void fabric_close(struct lab_fabric *fabric);

/* links[topology.link_count] */
tutti_result_t fabric_read(struct lab_fabric *fabric, struct fabric_link *links);

/* As fabric_read, once all links that are switched on at both ends carry packets: the kernel takes a moment to see it,
 * and a packet or an IPv6 route before that is lost. */
tutti_result_t fabric_settle(struct lab_fabric *fabric, struct fabric_link *links);

/* Where a link is cut. LEAF: seen, and routes avoid it. SPINE, HOST: that end alone. SILENT: no end sees it. */
enum fabric_cut { FABRIC_AT_LEAF, FABRIC_AT_SPINE, FABRIC_AT_HOST, FABRIC_SILENT };

/* All links that match the pattern; an error if none does. */
tutti_result_t fabric_link_down(struct lab_fabric *fabric, const char *pattern, enum fabric_cut cut);
tutti_result_t fabric_link_up(struct lab_fabric *fabric, const char *pattern);
tutti_result_t fabric_rate(struct lab_fabric *fabric, const char *pattern, uint64_t rate);

#endif
