/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes. A leaf reaches the prefix of another leaf over all its uplinks (ECMP). A spine reaches the prefix over all
 * its links to that leaf. A host leaves by the NIC whose address it sends from. Rules: a leaf's policies pick a table
 * with one uplink.
 */
#include "lab/plan.h"

#include <stdio.h>
#include <sys/socket.h>

#define TABLE_FIRST    100  /* of NIC or uplink 0 */
#define PRIORITY_FIRST 1000 /* of rules; before the main table's */

static const char *address(const struct lab_end *end, bool v6)
{
    return v6 ? end->ip6 : end->ip4;
}

/* The prefix of all NICs of a leaf, or of all its uplinks. */
static void prefix_of(int leaf, bool uplinks, bool v6, char *out, size_t size)
{
    if (v6)
        snprintf(out, size, "fd%d:%d::/32", uplinks ? 20 : 10, leaf);
    else if (uplinks)
        snprintf(out, size, "172.16.%d.0/24", leaf);
    else
        snprintf(out, size, "10.%d.0.0/16", leaf);
}

static void host_routes(const struct lab_topology *topology, int host, const struct plan_state *state, bool v6,
                        struct text *out)
{
    for (int k = 0; k < topology->spec.nics; k++) {
        int at = topology_host_link(topology, host, k);
        const struct lab_link *link = &topology->links[at];
        const char *gateway = address(&link->upper, v6);
        if (!state[at].lower_up || !state[at].upper_up)
            continue;
        text_add(out, "route replace default via %s dev %s table %d\n", gateway, link->lower.port, TABLE_FIRST + k);
        text_add(out, "route replace default via %s dev %s metric %d\n", gateway, link->lower.port, TABLE_FIRST + k);
    }
}

/* Whether the spine at the end of an uplink still has a way to leaf `target`. */
static bool spine_reaches(const struct lab_topology *topology, const struct plan_state *state, int spine, int target)
{
    for (int u = 0; u < topology_uplinks(&topology->spec); u++)
        if (topology_spine_of(&topology->spec, u) == spine && state[topology_uplink(topology, target, u)].lower_up)
            return true;
    return false;
}

static bool uplink_serves(const struct lab_topology *topology, const struct plan_state *state, int leaf, int uplink,
                          int target)
{
    return state[topology_uplink(topology, leaf, uplink)].lower_up &&
           spine_reaches(topology, state, topology_spine_of(&topology->spec, uplink), target);
}

/* `hops`: " nexthop via ..." for each way that is left. */
static void add_multipath(const char *prefix, const struct text *hops, struct text *out)
{
    if (hops->length)
        text_add(out, "route replace %s%s\n", prefix, hops->data);
    else
        text_add(out, "route replace unreachable %s\n", prefix);
    out->failed |= hops->failed;
}

static void leaf_to_leaf(const struct lab_topology *topology, int leaf, int target, const char *prefix,
                         const struct plan_state *state, bool v6, struct text *out)
{
    struct text hops = {0};
    for (int u = 0; u < topology_uplinks(&topology->spec); u++) {
        const struct lab_link *link = &topology->links[topology_uplink(topology, leaf, u)];
        if (uplink_serves(topology, state, leaf, u, target))
            text_add(&hops, " nexthop via %s dev %s", address(&link->upper, v6), link->lower.port);
    }
    add_multipath(prefix, &hops, out);
    text_free(&hops);
}

/* A table with one uplink for each; "throw" sends a packet on to the next rule, in the end to ECMP over what is left.
 */
static void steered_tables(const struct lab_topology *topology, int leaf, int target, const char *prefix,
                           const struct plan_state *state, bool v6, struct text *out)
{
    for (int u = 0; u < topology_uplinks(&topology->spec); u++) {
        const struct lab_link *link = &topology->links[topology_uplink(topology, leaf, u)];
        if (uplink_serves(topology, state, leaf, u, target))
            text_add(out, "route replace %s via %s dev %s table %d\n", prefix, address(&link->upper, v6),
                     link->lower.port, TABLE_FIRST + u);
        else
            text_add(out, "route replace throw %s table %d\n", prefix, TABLE_FIRST + u);
    }
}

static bool has_policy(const struct lab_spec *spec, int leaf)
{
    for (int i = 0; i < spec->policy_count; i++)
        if (spec->policies[i].leaf < 0 || spec->policies[i].leaf == leaf)
            return true;
    return false;
}

static void leaf_routes(const struct lab_topology *topology, int leaf, const struct plan_state *state, bool v6,
                        struct text *out)
{
    char prefix[40];
    for (int target = 0; target < topology->spec.leaves; target++) {
        if (target == leaf)
            continue;
        prefix_of(target, false, v6, prefix, sizeof prefix);
        leaf_to_leaf(topology, leaf, target, prefix, state, v6, out);
        if (has_policy(&topology->spec, leaf))
            steered_tables(topology, leaf, target, prefix, state, v6, out);
        prefix_of(target, true, v6, prefix, sizeof prefix);
        leaf_to_leaf(topology, leaf, target, prefix, state, v6, out);
    }
}

static void spine_to_leaf(const struct lab_topology *topology, int spine, int leaf, const char *prefix,
                          const struct plan_state *state, bool v6, struct text *out)
{
    struct text hops = {0};
    for (int u = 0; u < topology_uplinks(&topology->spec); u++) {
        int at = topology_uplink(topology, leaf, u);
        const struct lab_link *link = &topology->links[at];
        if (topology_spine_of(&topology->spec, u) == spine && state[at].lower_up && state[at].upper_up)
            text_add(&hops, " nexthop via %s dev %s", address(&link->lower, v6), link->upper.port);
    }
    add_multipath(prefix, &hops, out);
    text_free(&hops);
}

static void spine_routes(const struct lab_topology *topology, int spine, const struct plan_state *state, bool v6,
                         struct text *out)
{
    char prefix[40];
    for (int leaf = 0; leaf < topology->spec.leaves; leaf++) {
        prefix_of(leaf, false, v6, prefix, sizeof prefix);
        spine_to_leaf(topology, spine, leaf, prefix, state, v6, out);
        prefix_of(leaf, true, v6, prefix, sizeof prefix);
        spine_to_leaf(topology, spine, leaf, prefix, state, v6, out);
    }
}

void plan_routes(const struct lab_topology *topology, int node, const struct plan_state *state, struct text *out)
{
    const struct lab_node *self = &topology->nodes[node];
    for (int f = 0; f <= topology->spec.ipv6; f++) {
        if (self->role == LAB_HOST)
            host_routes(topology, self->index, state, f, out);
        else if (self->role == LAB_LEAF)
            leaf_routes(topology, self->index, state, f, out);
        else
            spine_routes(topology, self->index, state, f, out);
    }
}

static tutti_result_t host_rules(const struct lab_topology *topology, int host, plan_rule_fn add, void *context)
{
    for (int k = 0; k < topology->spec.nics; k++)
        for (int f = 0; f <= topology->spec.ipv6; f++) {
            const struct lab_link *link = &topology->links[topology_host_link(topology, host, k)];
            struct netlink_rule rule = {.family = f ? AF_INET6 : AF_INET,
                                        .priority = PRIORITY_FIRST + k,
                                        .table = TABLE_FIRST + k,
                                        .source = address(&link->lower, f)};
            tutti_result_t result = add(&rule, context);
            if (result != TUTTI_SUCCESS)
                return result;
        }
    return TUTTI_SUCCESS;
}

static tutti_result_t add_both(const struct lab_topology *topology, struct netlink_rule rule, int *priority,
                               plan_rule_fn add, void *context)
{
    tutti_result_t result = TUTTI_SUCCESS;
    rule.priority = (*priority)++;
    for (int f = 0; f <= topology->spec.ipv6 && result == TUTTI_SUCCESS; f++) {
        rule.family = f ? AF_INET6 : AF_INET;
        result = add(&rule, context);
    }
    return result;
}

/* Linux refuses a range that ends with port 65535; a pair of ports under a mask brings that one in. */
static tutti_result_t range_rules(const struct lab_topology *topology, struct netlink_rule rule, int *priority,
                                  plan_rule_fn add, void *context)
{
    bool to_the_end = rule.last == 65535;
    rule.last -= to_the_end;
    tutti_result_t result = rule.first <= rule.last ? add_both(topology, rule, priority, add, context) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS || !to_the_end)
        return result;
    rule.first = rule.last = rule.mask = 65534;
    return add_both(topology, rule, priority, add, context);
}

static tutti_result_t policy_rules(const struct lab_topology *topology, const struct lab_policy *policy, int *priority,
                                   plan_rule_fn add, void *context)
{
    int shares = policy->uplink < 0 ? topology_uplinks(&topology->spec) : 1;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int share = 0; share < shares && result == TUTTI_SUCCESS; share++) {
        int uplink = policy->uplink < 0 ? share : policy->uplink;
        struct netlink_rule rule = {.table = TABLE_FIRST + uplink, .dscp = policy->dscp, .dport = policy->dport};
        topology_split(policy, share, shares, &rule.first, &rule.last);
        result = range_rules(topology, rule, priority, add, context);
    }
    return result;
}

tutti_result_t plan_rules(const struct lab_topology *topology, int node, plan_rule_fn add, void *context)
{
    const struct lab_node *self = &topology->nodes[node];
    const struct lab_spec *spec = &topology->spec;
    tutti_result_t result = TUTTI_SUCCESS;
    int priority = PRIORITY_FIRST;
    if (self->role == LAB_HOST)
        return host_rules(topology, self->index, add, context);
    for (int i = 0; self->role == LAB_LEAF && result == TUTTI_SUCCESS && i < spec->policy_count; i++)
        if (spec->policies[i].leaf < 0 || spec->policies[i].leaf == self->index)
            result = policy_rules(topology, &spec->policies[i], &priority, add, context);
    return result;
}
