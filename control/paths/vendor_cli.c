/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists and policies as lines of a command line: Cisco NX-OS, Ruijie, Arista EOS. */
#include "paths/vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ip[] = {"ip", "ipv6"}, *const six[] = {"", "6"};

static void add_match(const struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, " 10 permit udp any range %u %u any eq %d", way->first, way->last, PATHS_ROCE_PORT);
    acl_dscp(leaf, " dscp ");
    text_add(leaf->out, "\n");
}

static void forget_list(const struct acl_leaf *leaf, const struct acl_way *way, const char *kind)
{
    text_add(leaf->out, "no %s access-list %stutti%s-u%d\n", ip[way->family], kind, six[way->family], way->uplink);
}

/* ---- Cisco NX-OS, Ruijie: a route map for each family ---- */

static void add_route_map(const struct acl_leaf *leaf, const struct acl_way *way)
{
    const char *f = ip[way->family], *n = six[way->family];
    text_add(leaf->out, "route-map tutti%s permit %d\n match %s address tutti%s-u%d\n set %s next-hop %s\n", n,
             10 * (way->uplink + 1), f, n, way->uplink, f, way->next);
}

static void cisco_begin(struct acl_leaf *leaf)
{
    text_add(leaf->out, "feature pbr\n");
}

static void cisco_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "%s access-list tutti%s-u%d\n", ip[way->family], six[way->family], way->uplink);
    add_match(leaf, way);
    add_route_map(leaf, way);
}

static void ruijie_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "%s access-list %stutti%s-u%d\n", ip[way->family], way->family ? "" : "extended ",
             six[way->family], way->uplink);
    add_match(leaf, way);
    add_route_map(leaf, way);
}

static void route_map_end(struct acl_leaf *leaf)
{
    if (leaf->family[0])
        acl_host_ports(leaf, "interface ", "\n ip policy route-map tutti\n");
    if (leaf->family[1])
        acl_host_ports(leaf, "interface ", "\n ipv6 policy route-map tutti6\n");
}

/* The ports first: no packet meets half a policy. */
static void no_route_map(struct acl_leaf *leaf)
{
    for (int family = 0; family < 2; family++) {
        if (!leaf->family[family])
            continue;
        acl_host_ports(leaf, "interface ",
                       family ? "\n no ipv6 policy route-map tutti6\n" : "\n no ip policy route-map tutti\n");
        text_add(leaf->out, "no route-map tutti%s\n", six[family]);
    }
}

static void cisco_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    forget_list(leaf, way, "");
}

static void ruijie_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    forget_list(leaf, way, way->family ? "" : "extended ");
}

static void add_addresses(const struct acl_port *port, struct text *out)
{
    for (int family = 0; family < 2; family++)
        if (*port->address[family])
            text_add(out, " %s address %s\n", ip[family], port->address[family]);
}

static void cisco_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "vrf context %s\n", plane->name);
}

static void cisco_no_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "no vrf context %s\n", plane->name);
}

static void cisco_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n vrf member %s\n", port->name, port->plane->name);
    add_addresses(port, out);
}

static void cisco_no_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n no vrf member %s\n", port->name, port->plane->name);
    add_addresses(port, out);
}

static void cisco_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "vrf context %s\n %s route %s %s\n", route->port->plane->name, ip[route->family], route->prefix,
             route->next);
}

static void cisco_no_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "vrf context %s\n no %s route %s %s\n", route->port->plane->name, ip[route->family], route->prefix,
             route->next);
}

static void ruijie_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "ip vrf %s\n", plane->name);
}

static void ruijie_no_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "no ip vrf %s\n", plane->name);
}

static void ruijie_addresses(const struct acl_port *port, struct text *out)
{
    char mask[16];
    const char *v4 = port->address[0], *slash = strchr(v4, '/');
    if (slash) {
        acl_mask(atoi(slash + 1), mask);
        text_add(out, " ip address %.*s %s\n", (int)(slash - v4), v4, mask);
    }
    if (*port->address[1])
        text_add(out, " ipv6 address %s\n", port->address[1]);
}

static void ruijie_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n ip vrf forwarding %s\n", port->name, port->plane->name);
    ruijie_addresses(port, out);
}

static void ruijie_no_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n no ip vrf forwarding %s\n", port->name, port->plane->name);
    ruijie_addresses(port, out);
}

static void ruijie_any_route(const char *no, const struct acl_route *route, struct text *out)
{
    char mask[16];
    const char *slash = strchr(route->prefix, '/');
    if (route->family) {
        text_add(out, "%sipv6 route vrf %s %s %s\n", no, route->port->plane->name, route->prefix, route->next);
        return;
    }
    acl_mask(atoi(slash + 1), mask);
    text_add(out, "%sip route vrf %s %.*s %s %s\n", no, route->port->plane->name, (int)(slash - route->prefix),
             route->prefix, mask, route->next);
}

static void ruijie_route(const struct acl_route *route, struct text *out)
{
    ruijie_any_route("", route, out);
}

static void ruijie_no_route(const struct acl_route *route, struct text *out)
{
    ruijie_any_route("no ", route, out);
}

/* ---- Arista EOS: one policy for both families ---- */

static void arista_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    const char *f = ip[way->family], *n = six[way->family];
    text_add(leaf->out, "%s access-list tutti%s-u%d\n", f, n, way->uplink);
    add_match(leaf, way);
    text_add(leaf->out, "class-map type pbr match-any tutti%s-u%d\n match %s access-group tutti%s-u%d\n", n,
             way->uplink, f, n, way->uplink);
    text_add(leaf->out, "policy-map type pbr tutti\n %d class tutti%s-u%d\n  set nexthop %s\n",
             10 * (way->uplink + 1) + 5 * way->family, n, way->uplink, way->next);
}

static void arista_end(struct acl_leaf *leaf)
{
    acl_host_ports(leaf, "interface ", "\n service-policy type pbr input tutti\n");
}

static void arista_no_begin(struct acl_leaf *leaf)
{
    acl_host_ports(leaf, "interface ", "\n no service-policy type pbr input tutti\n");
    text_add(leaf->out, "no policy-map type pbr tutti\n");
}

static void arista_no_way(struct acl_leaf *leaf, const struct acl_way *way)
{
    text_add(leaf->out, "no class-map type pbr match-any tutti%s-u%d\n", six[way->family], way->uplink);
    forget_list(leaf, way, "");
}

static void arista_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "vrf instance %s\nip routing vrf %s\nipv6 unicast-routing vrf %s\n", plane->name, plane->name,
             plane->name);
}

static void arista_no_plane(const struct acl_plane *plane, struct text *out)
{
    text_add(out, "no vrf instance %s\n", plane->name);
}

static void arista_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n vrf %s\n", port->name, port->plane->name);
    add_addresses(port, out);
}

static void arista_no_port(const struct acl_port *port, struct text *out)
{
    text_add(out, "interface %s\n no vrf\n", port->name);
    add_addresses(port, out);
}

static void arista_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "%s route vrf %s %s %s\n", ip[route->family], route->port->plane->name, route->prefix, route->next);
}

static void arista_no_route(const struct acl_route *route, struct text *out)
{
    text_add(out, "no %s route vrf %s %s %s\n", ip[route->family], route->port->plane->name, route->prefix,
             route->next);
}

const struct vendor vendor_cisco = {
    .name = "cisco",
    .comment = "!",
    .down = "next hop down: packets take the routing table (by the manual: no drop-on-fail)",
    .suffix = ".txt",
    .put = {cisco_begin, cisco_way, route_map_end, cisco_plane, cisco_port, cisco_route},
    .take = {no_route_map, cisco_no_way, NULL, cisco_no_plane, cisco_no_port, cisco_no_route},
};
const struct vendor vendor_ruijie = {
    .name = "ruijie",
    .comment = "!",
    .down = "next hop down: not known; try it before you rely on it",
    .suffix = ".txt",
    .put = {NULL, ruijie_way, route_map_end, ruijie_plane, ruijie_port, ruijie_route},
    .take = {no_route_map, ruijie_no_way, NULL, ruijie_no_plane, ruijie_no_port, ruijie_no_route},
};
const struct vendor vendor_arista = {
    .name = "arista",
    .comment = "!",
    .down = "next hop down: not known; try it before you rely on it",
    .suffix = ".txt",
    .put = {NULL, arista_way, arista_end, arista_plane, arista_port, arista_route},
    .take = {arista_no_begin, arista_no_way, NULL, arista_no_plane, arista_no_port, arista_no_route},
};
