/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric as data: what the file says (spec), and the nodes, links and addresses that follow from it.
 *
 *   address of NIC k of host h on leaf l     10.l.h.(2k+1)/31   fd10:l:h:k::1/127    the leaf's end is one less
 *   address of uplink u of leaf l            172.16.l.(2u)/31   fd20:l:u::/127       the spine's end is one more
 *
 * A port is named node.port (h0.n1, l0.h0n1, l0.u1, s1.l0u1). A link has the name of its lower port: h0.n1, l0.u1.
 */
#ifndef TUTTI_WIRING_TOPOLOGY_H
#define TUTTI_WIRING_TOPOLOGY_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

#define LAB_MAX_HOSTS   250
#define LAB_MAX_NICS    16
#define LAB_MAX_LEAVES  64
#define LAB_MAX_SPINES  64
#define LAB_MAX_UPLINKS 64 /* of one leaf */
#define LAB_NAME_BYTES  33

/* A range of RoCE's UDP source ports; a `split` divides it over the uplinks. */
#define LAB_PORT_FIRST 0xC000
#define LAB_PORT_LAST  0xFFFF

enum lab_role { LAB_HOST, LAB_LEAF, LAB_SPINE };
enum lab_wiring { LAB_RACK, LAB_RAIL };

/* Steers UDP packets of a leaf: those of a DSCP and source port range to one uplink, or split evenly over all. */
struct lab_policy {
    int leaf;   /* -1: every leaf */
    int dscp;   /* -1: any */
    int dport;  /* -1: any */
    int uplink; /* -1: split */
    int first, last;
};

/* A rate for the links whose names match a shell pattern. */
struct lab_override {
    char pattern[40];
    uint64_t rate;
};

struct lab_spec {
    char name[LAB_NAME_BYTES];
    int hosts, nics, leaves, spines, uplinks; /* uplinks: from each leaf to each spine */
    enum lab_wiring wiring;
    uint64_t rate; /* bits per second, 0: not shaped */
    int mtu, ipv6, hash_seed;
    int queue; /* bytes, 0: by the rate */
    int policy_count, override_count;
    struct lab_policy *policies;
    struct lab_override *overrides;
};

struct lab_node {
    enum lab_role role;
    int index; /* number among nodes of its role */
    char name[16];
};

struct lab_end {
    int node;
    char port[16]; /* not longer than the kernel allows */
    char ip4[16], ip6[40], mac[18];
};

/* lower: the end nearer to the hosts. */
struct lab_link {
    bool uplink;
    int number; /* NIC of the host, or uplink of the leaf */
    char name[28];
    struct lab_end lower, upper;
    uint64_t rate;
};

struct lab_topology {
    struct lab_spec spec; /* owned */
    int node_count, link_count;
    struct lab_node *nodes;
    struct lab_link *links;
};

/* Takes over the spec (also on failure). */
tutti_result_t topology_build(struct lab_spec *spec, struct lab_topology *out);
void topology_free(struct lab_topology *topology);
void spec_free(struct lab_spec *spec);

int topology_uplinks(const struct lab_spec *spec); /* of one leaf */
int topology_leaf_of(const struct lab_spec *spec, int host, int nic);
int topology_spine_of(const struct lab_spec *spec, int uplink);

/* Indices into nodes[] and links[]. */
int topology_node(const struct lab_topology *topology, enum lab_role role, int index);
int topology_host_link(const struct lab_topology *topology, int host, int nic);
int topology_uplink(const struct lab_topology *topology, int leaf, int uplink);

/* -1: the node is unknown */
int topology_find_node(const struct lab_topology *topology, const char *name);
/* Does a link's name, or the name of its upper port, match a shell pattern? */
bool topology_link_matches(const struct lab_topology *topology, int link, const char *pattern);

/* The source ports of share `index` of `count` in a policy's range. */
void topology_split(const struct lab_policy *policy, int index, int count, int *first, int *last);

#endif
