/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations of switches that steer traffic. On a leaf, packets of a share of source ports (and of our DSCP) go to
 * one uplink's far end. On a spine with several links to a leaf, the k-th links of all leaves are one virtual router.
 * So no hash chooses the way down once more. (CTCCL sections 3.1 and 4.1.) Each vendor is a table of functions.
 */
#include "paths/paths.h"

#include "base/error.h"
#include "path/dnlb.h"

#include <string.h>

/* One leaf, and one of its uplinks. */
struct leaf {
    const struct paths_request *request;
    int number;
    struct text *out;
};

struct acl_way {
    unsigned uplink; /* of the leaf */
    unsigned first, last;
    const char *next; /* address at the spine's end */
};

/* The port of a spine by which a plane reaches a leaf. */
struct acl_port {
    int plane, leaf;
    const char *name, *next; /* address at the leaf's end */
};

/* Functions that are NULL write nothing. */
struct vendor {
    const char *name, *comment; /* NULL: leaves have JSON, which knows none */
    void (*leaf_begin)(const struct leaf *leaf);
    void (*way)(const struct leaf *leaf, const struct acl_way *way);
    void (*leaf_end)(const struct leaf *leaf);
    void (*plane)(int plane, struct text *out);
    void (*plane_port)(const struct acl_port *port, struct text *out);
};

static struct acl_way way_of(const struct leaf *leaf, unsigned uplink)
{
    const struct lab_topology *topology = leaf->request->topology;
    uint16_t first, last;
    dnlb_share(uplink, (unsigned)topology_uplinks(&topology->spec), &first, &last);
    const struct lab_link *link = &topology->links[topology_uplink(topology, leaf->number, (int)uplink)];
    return (struct acl_way){.uplink = uplink, .first = first, .last = last, .next = link->upper.ip4};
}

static unsigned uplinks_of(const struct leaf *leaf)
{
    return (unsigned)topology_uplinks(&leaf->request->topology->spec);
}

/* Calls `each` for the name of each port of a leaf where a host is. */
static void host_ports(const struct leaf *leaf, const char *before, const char *after)
{
    const struct lab_topology *topology = leaf->request->topology;
    for (int i = 0; i < topology->link_count; i++) {
        const struct lab_link *link = &topology->links[i];
        if (!link->uplink && topology->nodes[link->upper.node].index == leaf->number)
            text_add(leaf->out, "%s%s%s", before, link->upper.port, after);
    }
}

static void add_dscp(const struct leaf *leaf, const char *before)
{
    if (leaf->request->dscp >= 0)
        text_add(leaf->out, "%s%d", before, leaf->request->dscp);
}

static void add_match(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, " 10 permit udp any range %u %u any eq %d", way->first, way->last, PATHS_ROCE_PORT);
    add_dscp(leaf, " dscp ");
    text_add(leaf->out, "\n");
}

/* ---- Access lists and route maps: Cisco NX-OS, Ruijie ---- */

static void cisco_begin(const struct leaf *leaf)
{
    text_add(leaf->out, "feature pbr\n");
}

static void add_route_map(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "route-map tutti permit %u\n match ip address tutti-u%u\n set ip next-hop %s\n",
             10 * (way->uplink + 1), way->uplink, way->next);
}

static void cisco_way(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "ip access-list tutti-u%u\n", way->uplink);
    add_match(leaf, way);
    add_route_map(leaf, way);
}

static void ruijie_way(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "ip access-list extended tutti-u%u\n", way->uplink);
    add_match(leaf, way);
    add_route_map(leaf, way);
}

static void route_map_end(const struct leaf *leaf)
{
    host_ports(leaf, "interface ", "\n ip policy route-map tutti\n");
}

static void cisco_plane(int plane, struct text *out)
{
    text_add(out, "vrf context tutti-%d\n", plane);
}

static void cisco_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n vrf member tutti-%d\nvrf context tutti-%d\n ip route 10.%d.0.0/16 %s\n", port->name,
             port->plane, port->plane, port->leaf, port->next);
}

static void ruijie_plane(int plane, struct text *out)
{
    text_add(out, "ip vrf tutti-%d\n", plane);
}

static void ruijie_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n ip vrf forwarding tutti-%d\nip route vrf tutti-%d 10.%d.0.0 255.255.0.0 %s\n",
             port->name, port->plane, port->plane, port->leaf, port->next);
}

/* ---- Arista EOS ---- */

static void arista_way(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "ip access-list tutti-u%u\n", way->uplink);
    add_match(leaf, way);
    text_add(leaf->out, "class-map type pbr match-any tutti-u%u\n match ip access-group tutti-u%u\n", way->uplink,
             way->uplink);
    text_add(leaf->out, "policy-map type pbr tutti\n %u class tutti-u%u\n  set nexthop %s\n", 10 * (way->uplink + 1),
             way->uplink, way->next);
}

static void arista_end(const struct leaf *leaf)
{
    host_ports(leaf, "interface ", "\n service-policy type pbr input tutti\n");
}

static void arista_plane(int plane, struct text *out)
{
    text_add(out, "vrf instance tutti-%d\nip routing vrf tutti-%d\n", plane, plane);
}

static void arista_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n vrf tutti-%d\nip route vrf tutti-%d 10.%d.0.0/16 %s\n", port->name, port->plane,
             port->plane, port->leaf, port->next);
}

/* ---- SONiC: its configuration data base ---- */

static void sonic_begin(const struct leaf *leaf)
{
    text_add(leaf->out, "{\n  \"ACL_TABLE\": {\"TUTTI\": {\"type\": \"L3\", \"stage\": \"ingress\", \"ports\": [");
    size_t before = leaf->out->length;
    host_ports(leaf, "\"", "\", ");
    if (!leaf->out->failed && leaf->out->length > before)
        leaf->out->length -= 2; /* the last comma */
    text_add(leaf->out, "]}},\n  \"ACL_RULE\": {\n");
}

static void sonic_way(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "    \"TUTTI|U%u\": {\"PRIORITY\": \"%u\", \"IP_PROTOCOL\": \"17\", \"L4_DST_PORT\": \"%d\", ",
             way->uplink, 1000 - way->uplink, PATHS_ROCE_PORT);
    if (leaf->request->dscp >= 0)
        text_add(leaf->out, "\"DSCP\": \"%d\", ", leaf->request->dscp);
    text_add(leaf->out, "\"L4_SRC_PORT_RANGE\": \"%u-%u\", \"PACKET_ACTION\": \"REDIRECT:%s\"}%s\n", way->first,
             way->last, way->next, way->uplink + 1 < uplinks_of(leaf) ? "," : "");
}

static void sonic_end(const struct leaf *leaf)
{
    text_add(leaf->out, "  }\n}\n");
}

static void sonic_plane(int plane, struct text *out)
{
    text_add(out, "config vrf add Vrf-tutti-%d\n", plane);
}

static void sonic_port(const struct acl_port *port, struct text *out)
{
    text_add(
        out,
        "config interface vrf bind %s Vrf-tutti-%d\nconfig route add prefix vrf Vrf-tutti-%d 10.%d.0.0/16 nexthop %s\n",
        port->name, port->plane, port->plane, port->leaf, port->next);
}

/* ---- Linux: marks by nftables, as rules of an older iproute2 know no DSCP; a table of routes for each mark ---- */

#define LINUX_TABLE 7100 /* of the first uplink; its mark has the same number */

/* Packets from spines are on their way down: if they were steered once more they would go round for ever. */
static void linux_begin(const struct leaf *leaf)
{
    text_add(leaf->out, "nft add table ip tutti\nnft flush table ip tutti\n"
                        "nft 'add chain ip tutti steer { type filter hook prerouting priority mangle; }'\n"
                        "nft 'add set ip tutti hosts { type ifname; }'\n");
    host_ports(leaf, "nft add element ip tutti hosts '{ ", " }'\n");
}

static void linux_way(const struct leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "nft add rule ip tutti steer iifname @hosts udp sport %u-%u udp dport %d", way->first,
             way->last, PATHS_ROCE_PORT);
    add_dscp(leaf, " ip dscp ");
    text_add(leaf->out, " meta mark set %u\nip route replace default via %s table %u\n", LINUX_TABLE + way->uplink,
             way->next, LINUX_TABLE + way->uplink);
    text_add(leaf->out, "ip rule del fwmark %u 2>/dev/null || true\nip rule add fwmark %u table %u priority 100\n",
             LINUX_TABLE + way->uplink, LINUX_TABLE + way->uplink, LINUX_TABLE + way->uplink);
}

static void linux_plane(int plane, struct text *out)
{
    text_add(out, "ip link add tutti-%d type vrf table %d\nip link set tutti-%d up\n", plane, LINUX_TABLE + plane,
             plane);
}

static void linux_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "ip link set %s master tutti-%d\nip route replace 10.%d.0.0/16 via %s vrf tutti-%d\n", port->name,
             port->plane, port->leaf, port->next, port->plane);
}

/* ---- The whole ---- */

static const struct vendor vendors[] = {
    {"sonic", NULL, sonic_begin, sonic_way, sonic_end, sonic_plane, sonic_port},
    {"cisco", "!", cisco_begin, cisco_way, route_map_end, cisco_plane, cisco_port},
    {"ruijie", "!", NULL, ruijie_way, route_map_end, ruijie_plane, ruijie_port},
    {"arista", "!", NULL, arista_way, arista_end, arista_plane, arista_port},
    {"linux", "#", linux_begin, linux_way, NULL, linux_plane, linux_port},
};
enum { VENDORS = sizeof vendors / sizeof *vendors };

static void add_leaf(const struct vendor *vendor, const struct leaf *leaf)
{
    if (vendor->comment)
        text_add(leaf->out, "%s leaf l%d\n", vendor->comment, leaf->number);
    if (vendor->leaf_begin)
        vendor->leaf_begin(leaf);
    for (unsigned u = 0; u < uplinks_of(leaf); u++) {
        struct acl_way way = way_of(leaf, u);
        vendor->way(leaf, &way);
    }
    if (vendor->leaf_end)
        vendor->leaf_end(leaf);
}

static void add_spine(const struct vendor *vendor, const struct paths_request *request, int spine, struct text *out)
{
    const struct lab_topology *topology = request->topology;
    text_add(out, "%s spine s%d\n", vendor->comment ? vendor->comment : "#", spine);
    for (int plane = 0; plane < topology->spec.uplinks; plane++) {
        vendor->plane(plane, out);
        for (int leaf = 0; leaf < topology->spec.leaves; leaf++) {
            int uplink = spine * topology->spec.uplinks + plane;
            const struct lab_link *link = &topology->links[topology_uplink(topology, leaf, uplink)];
            struct acl_port port = {.plane = plane, .leaf = leaf, .name = link->upper.port, .next = link->lower.ip4};
            vendor->plane_port(&port, out);
        }
    }
}

tutti_result_t paths_acl(const struct paths_request *request, const char *vendor, const char *node, struct text *out)
{
    const struct lab_topology *topology = request->topology;
    int only = node ? topology_find_node(topology, node) : -1;
    const struct vendor *found = NULL;
    for (int i = 0; i < VENDORS; i++)
        if (strcmp(vendors[i].name, vendor) == 0)
            found = &vendors[i];
    if (!found)
        return error_note(TUTTI_INVALID_ARGUMENT, "--vendor %s: it may be sonic, cisco, ruijie, arista or linux",
                          vendor);
    if (node && (only < 0 || topology->nodes[only].role == LAB_HOST))
        return error_note(TUTTI_INVALID_ARGUMENT, "--node %s: it may be a leaf (l0 to l%d) or a spine (s0 to s%d)",
                          node, topology->spec.leaves - 1, topology->spec.spines - 1);
    for (int leaf = 0; leaf < topology->spec.leaves; leaf++) {
        struct leaf what = {.request = request, .number = leaf, .out = out};
        if (!node || only == topology_node(topology, LAB_LEAF, leaf))
            add_leaf(found, &what);
    }
    /* With one link to each leaf there is one way down. */
    for (int spine = 0; topology->spec.uplinks > 1 && spine < topology->spec.spines; spine++)
        if (!node || only == topology_node(topology, LAB_SPINE, spine))
            add_spine(found, request, spine, out);
    return TUTTI_SUCCESS;
}
