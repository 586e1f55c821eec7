/* SPDX-License-Identifier: Apache-2.0 */
/* Makes named nodes, links and addresses from numbers of hosts, leaves and spines. */
#include "wiring/topology.h"
#include "base/error.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int topology_uplinks(const struct lab_spec *spec)
{
    return spec->spines * spec->uplinks;
}

/* rack: all NICs of a host on one leaf. rail: NIC k of every host of a group on the k-th leaf of that group. */
int topology_leaf_of(const struct lab_spec *spec, int host, int nic)
{
    if (spec->wiring == LAB_RACK)
        return host * spec->leaves / spec->hosts;
    int groups = spec->leaves / spec->nics;
    return host * groups / spec->hosts * spec->nics + nic;
}

int topology_spine_of(const struct lab_spec *spec, int uplink)
{
    return uplink / spec->uplinks;
}

int topology_node(const struct lab_topology *topology, enum lab_role role, int index)
{
    const struct lab_spec *spec = &topology->spec;
    return index + (role > LAB_HOST ? spec->hosts : 0) + (role > LAB_LEAF ? spec->leaves : 0);
}

int topology_host_link(const struct lab_topology *topology, int host, int nic)
{
    return host * topology->spec.nics + nic;
}

int topology_uplink(const struct lab_topology *topology, int leaf, int uplink)
{
    const struct lab_spec *spec = &topology->spec;
    return spec->hosts * spec->nics + leaf * topology_uplinks(spec) + uplink;
}

int topology_find_node(const struct lab_topology *topology, const char *name)
{
    for (int i = 0; i < topology->node_count; i++)
        if (strcmp(topology->nodes[i].name, name) == 0)
            return i;
    return -1;
}

bool topology_link_matches(const struct lab_topology *topology, int link, const char *pattern)
{
    const struct lab_link *found = &topology->links[link];
    char upper[40];
    snprintf(upper, sizeof upper, "%s.%s", topology->nodes[found->upper.node].name, found->upper.port);
    return fnmatch(pattern, found->name, 0) == 0 || fnmatch(pattern, upper, 0) == 0;
}

/* Equal shares of `step` ports; where the range does not divide evenly, shares differ by one port. */
void topology_split(const struct lab_policy *policy, int index, int count, int *first, int *last)
{
    int size = policy->last - policy->first + 1;
    *first = policy->first + index * size / count;
    *last = policy->first + (index + 1) * size / count - 1;
}

/* The MAC address holds the IPv4 address, so that a capture can be read without a table. */
static void end_set(struct lab_end *end, int node, const int octets[4], const char *ip6)
{
    end->node = node;
    snprintf(end->ip4, sizeof end->ip4, "%d.%d.%d.%d", octets[0] & 255, octets[1] & 255, octets[2] & 255,
             octets[3] & 255);
    snprintf(end->mac, sizeof end->mac, "02:00:%02x:%02x:%02x:%02x", octets[0] & 255, octets[1] & 255, octets[2] & 255,
             octets[3] & 255);
    snprintf(end->ip6, sizeof end->ip6, "%s", ip6);
}

static void build_host_link(struct lab_topology *topology, int host, int nic)
{
    struct lab_link *link = &topology->links[topology_host_link(topology, host, nic)];
    int leaf = topology_leaf_of(&topology->spec, host, nic);
    char ip6[40];
    link->number = nic;
    snprintf(link->name, sizeof link->name, "h%d.n%d", host, nic);
    snprintf(link->lower.port, sizeof link->lower.port, "n%d", nic);
    snprintf(link->upper.port, sizeof link->upper.port, "h%dn%d", host & 0xff, nic & 0xff);
    snprintf(ip6, sizeof ip6, "fd10:%d:%d:%d::1", leaf, host, nic);
    end_set(&link->lower, topology_node(topology, LAB_HOST, host), (int[]){10, leaf, host, 2 * nic + 1}, ip6);
    snprintf(ip6, sizeof ip6, "fd10:%d:%d:%d::", leaf, host, nic);
    end_set(&link->upper, topology_node(topology, LAB_LEAF, leaf), (int[]){10, leaf, host, 2 * nic}, ip6);
}

static void build_uplink(struct lab_topology *topology, int leaf, int uplink)
{
    struct lab_link *link = &topology->links[topology_uplink(topology, leaf, uplink)];
    int spine = topology_spine_of(&topology->spec, uplink);
    char ip6[40];
    link->uplink = true;
    link->number = uplink;
    snprintf(link->name, sizeof link->name, "l%d.u%d", leaf, uplink);
    snprintf(link->lower.port, sizeof link->lower.port, "u%d", uplink);
    snprintf(link->upper.port, sizeof link->upper.port, "l%du%d", leaf & 0xff, uplink & 0xff);
    snprintf(ip6, sizeof ip6, "fd20:%d:%d::", leaf, uplink);
    end_set(&link->lower, topology_node(topology, LAB_LEAF, leaf), (int[]){172, 16, leaf, 2 * uplink}, ip6);
    snprintf(ip6, sizeof ip6, "fd20:%d:%d::1", leaf, uplink);
    end_set(&link->upper, topology_node(topology, LAB_SPINE, spine), (int[]){172, 16, leaf, 2 * uplink + 1}, ip6);
}

static void build_nodes(struct lab_topology *topology)
{
    const int counts[] = {topology->spec.hosts, topology->spec.leaves, topology->spec.spines};
    struct lab_node *node = topology->nodes;
    for (int role = LAB_HOST; role <= LAB_SPINE; role++)
        for (int i = 0; i < counts[role]; i++, node++) {
            node->role = (enum lab_role)role;
            node->index = i;
            snprintf(node->name, sizeof node->name, "%c%d", "hls"[role], i);
        }
}

static void build_rates(struct lab_topology *topology)
{
    const struct lab_spec *spec = &topology->spec;
    for (int i = 0; i < topology->link_count; i++) {
        topology->links[i].rate = spec->rate;
        for (int o = 0; o < spec->override_count; o++)
            if (topology_link_matches(topology, i, spec->overrides[o].pattern))
                topology->links[i].rate = spec->overrides[o].rate;
    }
}

tutti_result_t topology_build(struct lab_spec *spec, struct lab_topology *out)
{
    *out = (struct lab_topology){.spec = *spec};
    *spec = (struct lab_spec){0};
    const struct lab_spec *own = &out->spec;
    out->node_count = own->hosts + own->leaves + own->spines;
    out->link_count = own->hosts * own->nics + own->leaves * topology_uplinks(own);
    out->nodes = calloc((size_t)out->node_count, sizeof *out->nodes);
    out->links = calloc((size_t)out->link_count, sizeof *out->links);
    if (!out->nodes || !out->links) {
        topology_free(out);
        return error_note(TUTTI_SYSTEM_ERROR, "out of memory for a fabric");
    }
    build_nodes(out);
    for (int h = 0; h < own->hosts; h++)
        for (int k = 0; k < own->nics; k++)
            build_host_link(out, h, k);
    for (int l = 0; l < own->leaves; l++)
        for (int u = 0; u < topology_uplinks(own); u++)
            build_uplink(out, l, u);
    build_rates(out);
    return TUTTI_SUCCESS;
}

void spec_free(struct lab_spec *spec)
{
    free(spec->policies);
    free(spec->overrides);
    *spec = (struct lab_spec){0};
}

void topology_free(struct lab_topology *topology)
{
    spec_free(&topology->spec);
    free(topology->nodes);
    free(topology->links);
    *topology = (struct lab_topology){0};
}
