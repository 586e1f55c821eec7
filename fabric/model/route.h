/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which links a flow takes. Switches send only to where the destination can be reached, over links that are up.
 *
 *   ECMP       each switch hashes the five-tuple; an adapter draws the source port
 *   steered    the source port says the uplink (CTCCL section 3.2, equations 1 to 4: path/dnlb.h), and the spine sends
 *              down by the uplink of the same number, as with the virtual routers of section 4.1
 *   allocated  a master that knows all loads gives each flow the least loaded way (C4 section 3.2)
 *
 * The two ports of a bonded NIC: ECMP hashes over them too, at both ends; the others send from left to left and from
 * right to right.
 */
#ifndef TUTTI_FABRIC_ROUTE_H
#define TUTTI_FABRIC_ROUTE_H

#include "model/fabric.h"

#include <stddef.h>

enum route_way { ROUTE_ECMP, ROUTE_STEERED, ROUTE_ALLOCATED, ROUTE_WAYS };
extern const char *const route_names[ROUTE_WAYS];

#define ROUTE_LINKS 8 /* of a flow, at most */

struct route_flow {
    int32_t from, to; /* GPUs */
    int lane, lanes;  /* number among the lanes of this pair of GPUs */
    double bytes;
};

struct router {
    const struct fabric *fabric;
    enum route_way way;
    uint64_t seed;           /* of hashes and source ports */
    double *load, *capacity; /* of links: bytes to which this router has given a way */
    double *spine_load;      /* over the core, both directions */
    int32_t *turn;           /* which of a spine's links to the core comes next, each direction */
};

tutti_result_t router_open(const struct fabric *fabric, enum route_way way, uint64_t seed, struct router *out);
void router_close(struct router *router);

/* Forgets all flows that the router has given ways. */
void router_forget(struct router *router, int32_t count, const uint32_t *first, const int32_t *link);

/* Finds the links of a flow, up to ROUTE_LINKS. Returns their number; 0: between the same GPU; -1: there is no way. */
int router_path(struct router *router, const struct route_flow *flow, int32_t *links);

/* Gives `count` flows their ways together: a router that allocates looks at each again when all have one. link: room
 * for ROUTE_LINKS each; first[count + 1] as in struct maxmin. Returns -1, or the number of a flow without a way. */
int32_t router_paths(struct router *router, const struct route_flow *flows, int32_t count, uint32_t *first,
                     int32_t *link);

#endif
