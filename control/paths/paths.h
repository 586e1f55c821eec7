/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source ports that load the uplinks of a fabric alike: the plan, the switches' configuration, and whether counters
 * agree with both. The fabric is a file of the lab's format.
 */
#ifndef PATHS_H
#define PATHS_H

#include "wiring/text.h"
#include "wiring/topology.h"

#define PATHS_ROCE_PORT 4791 /* UDP destination port of RoCEv2 */

struct paths_request {
    const struct lab_topology *topology;
    unsigned lanes; /* lanes of each NIC to each peer, 1 or more */
    int dscp;       /* DSCP of the lanes' packets; -1: any */
};

/* The number of lanes of a leaf's NICs on each of its uplinks. */
struct paths_load {
    unsigned nics, least, most, lane[LAB_MAX_UPLINKS];
};

struct paths_load paths_load(const struct paths_request *request, int leaf);

/* Prints lanes with their ports and uplinks, loads, and whether there are lanes for all uplinks. False: some uplink has
 * none. */
bool paths_plan(const struct paths_request *request, struct text *out);

/* Prints the configuration of a leaf or spine, of all if `node` is NULL. TUTTI_INVALID_ARGUMENT: the vendor or node is
 * unknown. */
tutti_result_t paths_acl(const struct paths_request *request, const char *vendor, const char *node, struct text *out);

/* Compares the plan with the bytes that leaves sent on their uplinks, as `tutti-lab counters --json` tells them. Shares
 * of a leaf's traffic may differ from the planned ones by `within` (0.02: 2% of the planned share). *agree: they do not
 * differ more. */
tutti_result_t paths_verify(const struct paths_request *request, const char *json, double within, bool *agree,
                            struct text *out);

#endif
