/* SPDX-License-Identifier: Apache-2.0 */
/* Linux and FRR by commands of a shell, SONiC by its configuration data base. */
#include "paths/vendor.h"

#include "path/dnlb.h"

#include <string.h>

/* ---- Linux: marks by nftables, as rules of an older iproute2 know no DSCP; a table of routes for each mark ---- */

#define TABLE 7100 /* of the first uplink; its mark has the same number */

static const char *const ip[] = {"ip", "ip6"}, *const ip_tool[] = {"ip", "ip -6"}, *const any[] = {"ip", "ipv6"};

/* Packets from spines are on their way down: if they were steered once more they would go round for ever. */
static void linux_begin(struct acl_leaf *leaf)
{
    for (int f = 0; f < 2; f++) {
        if (!leaf->family[f])
            continue;
        text_add(leaf->out, "nft add table %s tutti\nnft flush table %s tutti\n", ip[f], ip[f]);
        text_add(leaf->out, "nft 'add chain %s tutti steer { type filter hook prerouting priority mangle; }'\n", ip[f]);
        text_add(leaf->out, "nft 'add set %s tutti hosts { type ifname; }'\n", ip[f]);
        acl_host_ports(leaf, f ? "nft add element ip6 tutti hosts '{ \"" : "nft add element ip tutti hosts '{ \"",
                       "\" }'\n");
    }
}

static void add_mark(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "nft add rule %s tutti steer iifname @hosts udp sport %u-%u udp dport %d", ip[way->family],
             way->first, way->last, PATHS_ROCE_PORT);
    acl_dscp(leaf, way->family ? " ip6 dscp " : " ip dscp ");
    text_add(leaf->out, " meta mark set %d\n", TABLE + way->uplink);
}

static void add_rule(struct acl_leaf *leaf, const struct acl_way *way)
{
    int mark = TABLE + way->uplink;
    const char *tool = ip_tool[way->family];
    text_add(leaf->out, "%s rule del fwmark %d 2>/dev/null || true\n", tool, mark);
    text_add(leaf->out, "%s rule add fwmark %d table %d priority 100\n", tool, mark, mark);
}

static void linux_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    add_mark(leaf, way);
    if (*way->port)
        text_add(leaf->out, "echo 1 >/proc/sys/net/%s/conf/%s/ignore_routes_with_linkdown\n",
                 way->family ? "ipv6" : "ipv4", way->port);
    /* "default via inet6" alone would be an IPv6 route. */
    text_add(leaf->out, "%s route replace %s via %s%s", ip_tool[way->family], way->family ? "::/0" : "0.0.0.0/0",
             way->local && !way->family ? "inet6 " : "", way->next);
    if (*way->port)
        text_add(leaf->out, " dev %s", way->port);
    text_add(leaf->out, " table %d\n", TABLE + way->uplink);
    add_rule(leaf, way);
}

static void linux_no_begin(struct acl_leaf *leaf)
{
    for (int f = 0; f < 2; f++)
        if (leaf->family[f])
            text_add(leaf->out, "nft delete table %s tutti 2>/dev/null || true\n", ip[f]);
}

static void linux_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    int mark = TABLE + way->uplink;
    const char *tool = ip_tool[way->family];
    text_add(leaf->out, "%s rule del fwmark %d 2>/dev/null || true\n", tool, mark);
    text_add(leaf->out, "%s route flush table %d 2>/dev/null || true\n", tool, mark);
}

static void linux_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "ip link add %s type vrf table %d 2>/dev/null || true\nip link set %s up\n", plane->name,
             TABLE + plane->number, plane->name);
}

static void linux_no_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "ip link del %s 2>/dev/null || true\n", plane->name);
}

/* A port that changes its router forgets its global IPv6 addresses. */
static void keep_address(const struct acl_port *port, struct text *out)
{
    if (*port->address[1])
        text_add(out, "ip -6 address replace %s dev %s nodad\n", port->address[1], port->name);
}

static void linux_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "ip link set %s master %s\n", port->name, port->plane->name);
    keep_address(port, out);
}

static void linux_no_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "ip link set %s nomaster\n", port->name);
    keep_address(port, out);
}

/* Of two links of a leaf in one router the second serves when the first is down. */
static void linux_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "%s route %s %s via %s%s dev %s vrf %s%s\n", ip_tool[route->family],
             route->again ? "append" : "replace", route->prefix, route->local && !route->family ? "inet6 " : "",
             route->next, route->port->name, route->port->plane->name, route->again ? " metric 2048" : "");
}

static void linux_no_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "%s route del %s via %s%s dev %s vrf %s 2>/dev/null || true\n", ip_tool[route->family], route->prefix,
             route->local && !route->family ? "inet6 " : "", route->next, route->port->name, route->port->plane->name);
}

/* ---- FRR: the same marks and rules; its routes, which follow the state of next hops ---- */

static void frr_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    add_mark(leaf, way);
    add_rule(leaf, way);
}

static void frr_route_of(struct acl_leaf *leaf, const struct fabric_uplink *uplink, int number, const char *no)
{
    const struct fabric *f = leaf->paths->fabric;
    const char *port = fabric_word(f, uplink->wire.port);
    for (int family = 0; family < 2; family++) {
        const char *next = fabric_word(f, uplink->wire.next[family]);
        if (leaf->family[family])
            text_add(leaf->out, "%s%s route %s %s%s%s table %d\n", no, any[family], family ? "::/0" : "0.0.0.0/0", next,
                     *port ? " " : "", port, TABLE + number);
    }
}

static void frr_routes(struct acl_leaf *leaf, const char *no)
{
    const struct fabric *f = leaf->paths->fabric;
    const struct fabric_leaf *at = &f->leaf[leaf->number];
    text_add(leaf->out, "vtysh <<'END'\nconfigure terminal\n");
    for (int32_t u = 0; u < at->count; u++)
        if (leaf->paths->way[at->first + u].shares)
            frr_route_of(leaf, &f->uplink[at->first + u], u, no);
    text_add(leaf->out, "end\nEND\n");
}

static void frr_end(struct acl_leaf *leaf)
{
    frr_routes(leaf, "");
}

static void frr_no_begin(struct acl_leaf *leaf)
{
    linux_no_begin(leaf);
    frr_routes(leaf, "no ");
}

static void frr_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "%s rule del fwmark %d 2>/dev/null || true\n", ip_tool[way->family], TABLE + way->uplink);
}

static void frr_any_route(const char *no, const struct acl_route *route, struct text *out)
{
    text_add(out, "vtysh <<'END'\nconfigure terminal\nvrf %s\n %s%s route %s %s %s\nexit-vrf\nend\nEND\n",
             route->port->plane->name, no, any[route->family], route->prefix, route->next, route->port->name);
}

static void frr_route(const struct acl_route *route, struct text *out)
{
    frr_any_route("", route, out);
}

static void frr_no_route(const struct acl_route *route, struct text *out)
{
    frr_any_route("no ", route, out);
}

/* ---- SONiC ---- */

static const char *const sonic_table[] = {"TUTTI", "TUTTI6"};

static void sonic_begin(struct acl_leaf *leaf)
{
    bool more = false;
    text_add(leaf->out, "{\n  \"ACL_TABLE\": {");
    for (int f = 0; f < 2; f++) {
        if (!leaf->family[f])
            continue;
        text_add(leaf->out, "%s\"%s\": {\"type\": \"%s\", \"stage\": \"ingress\", \"ports\": [", more ? ", " : "",
                 sonic_table[f], f ? "L3V6" : "L3");
        size_t before = leaf->out->length;
        acl_host_ports(leaf, "\"", "\", ");
        if (!leaf->out->failed && leaf->out->length > before)
            leaf->out->length -= 2; /* the last comma */
        text_add(leaf->out, "]}");
        more = true;
    }
    text_add(leaf->out, "},\n  \"ACL_RULE\": {");
}

static void sonic_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "%s\n    \"%s|U%d\": {\"PRIORITY\": \"%d\", \"%s\": \"17\", \"L4_DST_PORT\": \"%d\", ",
             leaf->rules ? "," : "", sonic_table[way->family], way->uplink, 2000 - way->uplink,
             way->family ? "NEXT_HEADER" : "IP_PROTOCOL", PATHS_ROCE_PORT);
    if (leaf->paths->dscp >= 0)
        text_add(leaf->out, "\"DSCP\": \"%d\", ", leaf->paths->dscp);
    text_add(leaf->out, "\"L4_SRC_PORT_RANGE\": \"%u-%u\", \"PACKET_ACTION\": \"REDIRECT:%s%s%s\"}", way->first,
             way->last, way->next, way->local ? "@" : "", way->local ? way->port : "");
}

static void sonic_end(struct acl_leaf *leaf)
{
    text_add(leaf->out, "\n  }\n}\n");
}

static void sonic_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "sonic-db-cli CONFIG_DB DEL 'ACL_RULE|%s|U%d'\n", sonic_table[way->family], way->uplink);
}

static void sonic_no_end(struct acl_leaf *leaf)
{
    for (int f = 0; f < 2; f++)
        if (leaf->family[f])
            text_add(leaf->out, "config acl remove table %s\n", sonic_table[f]);
}

static void sonic_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "config vrf add %s\n", plane->name);
}

static void sonic_no_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "config vrf del %s\n", plane->name);
}

static void sonic_addresses(const struct acl_port *port, struct text *out)
{
    for (int f = 0; f < 2; f++)
        if (*port->address[f])
            text_add(out, "config interface ip add %s %s\n", port->name, port->address[f]);
}

static void sonic_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "config interface vrf bind %s %s\n", port->name, port->plane->name);
    sonic_addresses(port, out);
}

static void sonic_no_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "config interface vrf unbind %s\n", port->name);
    sonic_addresses(port, out);
}

static void sonic_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "config route add prefix vrf %s %s nexthop %s\n", route->port->plane->name, route->prefix,
             route->next);
}

static void sonic_no_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "config route del prefix vrf %s %s nexthop %s\n", route->port->plane->name, route->prefix,
             route->next);
}

const struct vendor vendor_linux = {
    .name = "linux",
    .comment = "#",
    .down = "next hop down: where the port has no carrier, packets take the routing table; otherwise they are lost",
    .local = true,
    .local_route = true,
    .suffix = ".sh",
    .put = {linux_begin, linux_way, NULL, linux_plane, linux_port, linux_route},
    .take = {linux_no_begin, linux_no_way, NULL, linux_no_plane, linux_no_port, linux_no_route},
};
const struct vendor vendor_frr = {
    .name = "frr",
    .comment = "#",
    .down = "next hop down: FRR withdraws the route when the port is down, and packets take the routing table",
    .suffix = ".sh",
    .put = {linux_begin, frr_way, frr_end, linux_plane, linux_port, frr_route},
    .take = {frr_no_begin, frr_no_way, NULL, linux_no_plane, linux_no_port, frr_no_route},
};
const struct vendor vendor_sonic = {
    .name = "sonic",
    .local = true,
    .suffix = ".json",
    .put = {sonic_begin, sonic_way, sonic_end, sonic_plane, sonic_port, sonic_route},
    .take = {NULL, sonic_no_way, sonic_no_end, sonic_no_plane, sonic_no_port, sonic_no_route},
};
