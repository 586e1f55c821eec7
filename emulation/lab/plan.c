/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, links, settings, addresses and rates; routes and rules are in plan_routes.c. */
#include "lab/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void plan_spaces(const struct lab_topology *topology, struct text *out)
{
    const char *lab = topology->spec.name;
    for (int i = 0; i < topology->node_count; i++)
        text_add(out, "netns add %s-%s\n", lab, topology->nodes[i].name);
    for (int i = 0; i < topology->link_count; i++) {
        const struct lab_link *link = &topology->links[i];
        const struct lab_end *lower = &link->lower, *upper = &link->upper;
        text_add(out,
                 "link add %s netns %s-%s address %s mtu %d type veth peer name %s netns %s-%s address %s mtu %d\n",
                 lower->port, lab, topology->nodes[lower->node].name, lower->mac, topology->spec.mtu, upper->port, lab,
                 topology->nodes[upper->node].name, upper->mac, topology->spec.mtu);
    }
}

/* ECMP by addresses, protocol and ports as switches do it: policy 3 with these five fields. Policy 1 would not do:
 * packets of connected sockets of this kernel carry a random number for a hash, and it would take that. */
#define HASH(family) "net/" family "/fib_multipath_hash_policy 3\nnet/" family "/fib_multipath_hash_fields 55\n"

void plan_settings(const struct lab_topology *topology, int node, struct text *out)
{
    bool host = topology->nodes[node].role == LAB_HOST;
    text_add(out, "net/ipv4/conf/all/rp_filter 0\nnet/ipv4/conf/default/rp_filter 0\n");
    text_add(out, "-net/ipv6/conf/all/disable_ipv6 %d\n", !topology->spec.ipv6);
    if (host) {
        text_add(out, "net/ipv4/conf/all/ignore_routes_with_linkdown 1\n");
        text_add(out, "-net/ipv6/conf/all/ignore_routes_with_linkdown 1\n");
        return;
    }
    text_add(out, "net/ipv4/ip_forward 1\n" HASH("ipv4"));
    if (topology->spec.hash_seed)
        text_add(out, "net/ipv4/fib_multipath_hash_seed %d\n", topology->spec.hash_seed);
    if (topology->spec.ipv6)
        text_add(out, "net/ipv6/conf/all/forwarding 1\n" HASH("ipv6"));
}

/* Neighbours are fixed: no ARP in the counters, and a silent failure stays silent (no "host unreachable" after a
 * while). */
void plan_port(const struct lab_topology *topology, const struct lab_link *link, bool lower, bool deaf,
               struct text *out)
{
    const struct lab_end *own = lower ? &link->lower : &link->upper, *far = lower ? &link->upper : &link->lower;
    char mac[18];
    snprintf(mac, sizeof mac, "%s", own->mac);
    if (deaf)
        memcpy(mac + 3, "ff", 2);
    text_add(out, "link set dev %s addrgenmode none\nlink set dev %s address %s\nlink set dev %s up\n", own->port,
             own->port, mac, own->port);
    text_add(out, "addr replace %s/31 dev %s\n", own->ip4, own->port);
    text_add(out, "neigh replace %s lladdr %s dev %s nud permanent\n", far->ip4, far->mac, own->port);
    if (!topology->spec.ipv6)
        return;
    text_add(out, "addr replace %s/127 dev %s nodad\n", own->ip6, own->port);
    text_add(out, "neigh replace %s lladdr %s dev %s nud permanent\n", far->ip6, far->mac, own->port);
}

/* Switches of RDMA stop a sender before a queue is full; a queue of Linux drops. So a queue has room for what senders
 * have under way, which are windows of a MiB each; and, where many meet, for a quarter of a second: half of the time
 * after which a sender with the usual timeout (8 times 67 ms) gives up. */
static uint64_t queue_of(const struct lab_spec *spec, uint64_t rate)
{
    const uint64_t least = 2 << 20, most = 256 << 20;
    uint64_t quarter = rate / 8 / 4;
    if (spec->queue)
        return (uint64_t)spec->queue;
    return quarter < least ? least : quarter > most ? most : quarter;
}

/* The bucket holds a largest segmentation-offload packet, so that these pass whole, and at least a millisecond. */
void plan_rate(const struct lab_topology *topology, const char *port, uint64_t rate, bool shaped, struct text *out)
{
    uint64_t burst = 72 << 10;
    if (rate / 8 / 1000 > burst)
        burst = rate / 8 / 1000;
    if (rate)
        text_add(out, "qdisc replace dev %s root handle 1: tbf rate %llubit burst %llu limit %llu\n", port,
                 (unsigned long long)rate, (unsigned long long)burst,
                 (unsigned long long)queue_of(&topology->spec, rate));
    else if (shaped)
        text_add(out, "qdisc del dev %s root\n", port);
}

static tutti_result_t show_rule(const struct netlink_rule *rule, void *context)
{
    struct text *out = context;
    text_add(out, "  rule pref %d", rule->priority);
    if (rule->source) {
        text_add(out, " from %s", rule->source);
    } else {
        text_add(out, " %sudp sport %d-%d", rule->family == AF_INET ? "" : "inet6 ", rule->first, rule->last);
        if (rule->mask)
            text_add(out, " mask 0x%x", (unsigned)rule->mask);
        if (rule->dport >= 0)
            text_add(out, " dport %d", rule->dport);
        if (rule->dscp >= 0)
            text_add(out, " dscp %d", rule->dscp);
    }
    text_add(out, " lookup %d\n", rule->table);
    return TUTTI_SUCCESS;
}

static void show_node(const struct lab_topology *topology, int node, const struct plan_state *state, struct text *out)
{
    text_add(out, "\n# settings, addresses, rates, routes and rules of %s\n", topology->nodes[node].name);
    plan_settings(topology, node, out);
    for (int i = 0; i < topology->link_count; i++) {
        const struct lab_link *link = &topology->links[i];
        if (link->lower.node != node && link->upper.node != node)
            continue;
        bool lower = link->lower.node == node;
        plan_port(topology, link, lower, false, out);
        plan_rate(topology, lower ? link->lower.port : link->upper.port, link->rate, false, out);
    }
    plan_routes(topology, node, state, out);
    plan_rules(topology, node, show_rule, out);
}

tutti_result_t plan_show(const struct lab_topology *topology, struct text *out)
{
    struct plan_state *state = malloc((size_t)topology->link_count * sizeof *state + 1);
    if (!state) {
        out->failed = true;
        return text_ok(out);
    }
    for (int i = 0; i < topology->link_count; i++)
        state[i] = (struct plan_state){true, true};
    text_add(out, "# namespaces and links\n");
    plan_spaces(topology, out);
    for (int i = 0; i < topology->node_count; i++)
        show_node(topology, i, state, out);
    free(state);
    return text_ok(out);
}

/* A host's own name is its first NIC. */
void plan_hosts(const struct lab_topology *topology, struct text *out)
{
    const struct lab_spec *spec = &topology->spec;
    text_add(out, "127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for (int v6 = 0; v6 <= spec->ipv6; v6++)
        for (int h = 0; h < spec->hosts; h++)
            for (int k = 0; k < spec->nics; k++) {
                const struct lab_link *link = &topology->links[topology_host_link(topology, h, k)];
                text_add(out, "%s %s", v6 ? link->lower.ip6 : link->lower.ip4, link->name);
                if (k == 0)
                    text_add(out, " h%d", h);
                text_add(out, "\n");
            }
}
