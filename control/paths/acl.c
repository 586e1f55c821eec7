/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations of switches that steer traffic. On a leaf, packets of a range of source ports (and of our DSCP) go to
 * one uplink's far end. On a spine with several links to a leaf, the k-th links of all leaves are one virtual router.
 * So no hash chooses the way down once more. (CTCCL sections 3.1 and 4.1.) Each vendor is a table of functions.
 */
#include "paths/vendor.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct vendor *const vendors[] = {&vendor_sonic,  &vendor_cisco, &vendor_ruijie,
                                               &vendor_arista, &vendor_linux, &vendor_frr};
enum { VENDORS = sizeof vendors / sizeof *vendors };

int32_t paths_find_switch(const struct paths *paths, const char *name)
{
    for (int32_t n = 0; n < paths->fabric->leaves + paths->fabric->spines; n++)
        if (strcmp(paths_switch_name(paths, n), name) == 0)
            return n;
    return -1;
}

const char *paths_switch_name(const struct paths *paths, int32_t number)
{
    const struct fabric *f = paths->fabric;
    return number < f->leaves ? f->leaf[number].name : f->spine[number - f->leaves].name;
}

static tutti_result_t refuse(const struct paths *paths, int32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tutti_result_t refuse(const struct paths *paths, int32_t line, const char *format, ...)
{
    char sentence[500];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return line ? error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: %s", paths->label, line, sentence)
                : error_note(TUTTI_INVALID_ARGUMENT, "%s: %s", paths->label, sentence);
}

/* ---- leaves ---- */

/* Link-local next hops serve both families. False: the uplink has none of that family. */
static bool next_of(const struct fabric *f, const struct fabric_uplink *uplink, int family, struct acl_way *way)
{
    struct in6_addr six;
    const char *v6 = fabric_word(f, uplink->wire.next[1]);
    bool local = inet_pton(AF_INET6, v6, &six) == 1 && IN6_IS_ADDR_LINKLOCAL(&six);
    way->local = local && (family || !uplink->wire.next[0]);
    way->next = way->local ? v6 : fabric_word(f, uplink->wire.next[family]);
    way->port = fabric_word(f, uplink->wire.port);
    way->family = family;
    return *way->next != 0;
}

static tutti_result_t check_way(const struct acl_leaf *leaf, const struct vendor *vendor, int32_t u,
                                const struct acl_way *way)
{
    const struct fabric_wire *wire = &leaf->paths->fabric->uplink[u].wire;
    if (way->local && !*way->port)
        return refuse(leaf->paths, wire->line, "next_hop %s is known on one link alone; add \"port: NAME\" of the leaf",
                      way->next);
    if (way->local && !vendor->local)
        return refuse(leaf->paths, wire->line, "next_hop %s: %s switches take no link-local next hop in a policy",
                      way->next, vendor->name);
    return TUTTI_SUCCESS;
}

/* Which families all uplinks have next hops for. */
static tutti_result_t find_families(struct acl_leaf *leaf, const struct vendor *vendor)
{
    const struct fabric *f = leaf->paths->fabric;
    const struct fabric_leaf *at = &f->leaf[leaf->number];
    struct acl_way way;
    for (int family = 0; family < 2; family++) {
        int with = 0, up = 0;
        for (int32_t u = at->first; u < at->first + at->count; u++) {
            if (!leaf->paths->way[u].shares)
                continue;
            up++;
            with += next_of(f, &f->uplink[u], family, &way);
        }
        leaf->family[family] = with > 0;
        if (with && with < up)
            return refuse(leaf->paths, at->own.line,
                          "leaf %s: %d of its %d uplinks have no next_hop for IPv%d: their source ports would have no "
                          "way",
                          at->name, up - with, up, family ? 6 : 4);
        for (int32_t u = at->first; with && u < at->first + at->count; u++) {
            tutti_result_t result = TUTTI_SUCCESS;
            if (leaf->paths->way[u].shares && next_of(f, &f->uplink[u], family, &way))
                result = check_way(leaf, vendor, u, &way);
            if (result)
                return result;
        }
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t check_leaf(struct acl_leaf *leaf, const struct vendor *vendor)
{
    const struct fabric *f = leaf->paths->fabric;
    const struct fabric_leaf *at = &f->leaf[leaf->number];
    int up = 0;
    tutti_result_t result = find_families(leaf, vendor);
    if (result)
        return result;
    for (int32_t u = at->first; u < at->first + at->count; u++)
        up += leaf->paths->way[u].shares > 0;
    if (!leaf->family[0] && !leaf->family[1])
        return refuse(leaf->paths, at->own.line,
                      "leaf %s: its uplinks have no next_hop; add \"next_hop: ADDRESS\", the spine's end, to each",
                      at->name);
    if (at->own.ranges && up > at->own.ranges)
        return refuse(leaf->paths, at->own.line,
                      "leaf %s: %d uplinks need as many ranges of ports, and the switch holds %d", at->name, up,
                      at->own.ranges);
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++)
            if (f->nic[n].port[p].leaf == leaf->number && !f->nic[n].port[p].name)
                return refuse(leaf->paths, f->nic[n].line,
                              "the port of %s where %s's %s is has no name; add \"port: NAME\"", at->name,
                              f->host[f->nic[n].host].name, f->nic[n].name);
    return TUTTI_SUCCESS;
}

static tutti_result_t add_leaf(struct acl_leaf *leaf, const struct vendor *vendor, bool take)
{
    const struct fabric *f = leaf->paths->fabric;
    const struct fabric_leaf *at = &f->leaf[leaf->number];
    const struct grammar *g = take ? &vendor->take : &vendor->put;
    if (!at->ports || !leaf->paths->shares[leaf->number])
        return TUTTI_SUCCESS; /* nothing comes from here, or there is no way up */
    tutti_result_t result = check_leaf(leaf, vendor);
    if (result)
        return result;
    const char *comment = vendor->comment ? vendor->comment : take ? "#" : NULL;
    if (comment)
        text_add(leaf->out, "%s leaf %s\n", comment, at->name);
    if (comment && vendor->down && !take)
        text_add(leaf->out, "%s %s\n", comment, vendor->down);
    if (g->leaf_begin)
        g->leaf_begin(leaf);
    for (int32_t u = at->first; u < at->first + at->count; u++) {
        uint16_t first, last;
        if (!leaf->paths->way[u].shares)
            continue;
        paths_range(leaf->paths, u, &first, &last);
        for (int family = 0; family < 2; family++) {
            struct acl_way way = {.uplink = u - at->first, .first = first, .last = last};
            if (!leaf->family[family] || !next_of(f, &f->uplink[u], family, &way))
                continue;
            g->way(leaf, &way);
            leaf->rules++;
        }
    }
    if (g->leaf_end)
        g->leaf_end(leaf);
    return TUTTI_SUCCESS;
}

/* ---- spines ---- */

struct spine {
    const struct paths *paths;
    const struct vendor *vendor;
    int32_t number;
    int planes; /* of ours; 0: the file names the operator's own */
    bool take;
    struct text *out;
};

/* The number of an uplink among those of its leaf to its spine that are up. */
static int among(const struct fabric *f, int32_t uplink)
{
    int number = 0;
    for (int32_t u = f->leaf[f->uplink[uplink].leaf].first; u < uplink; u++)
        number += f->uplink[u].spine == f->uplink[uplink].spine && !f->uplink[u].down;
    return number;
}

/* Counts the virtual routers: as many as the leaf with fewest links has. -1: refused. */
static tutti_result_t count_planes(struct spine *s)
{
    const struct fabric *f = s->paths->fabric;
    const struct fabric_spine *spine = &f->spine[s->number];
    int named = 0, links = 0, least = 0;
    for (int32_t l = 0; l < f->leaves; l++) {
        int here = 0;
        for (int32_t u = f->leaf[l].first; u < f->leaf[l].first + f->leaf[l].count; u++)
            if (f->uplink[u].spine == s->number && !f->uplink[u].down) {
                named += f->uplink[u].wire.vrf != 0;
                here++;
            }
        links += here;
        least = here && (!least || here < least) ? here : least;
    }
    if (named && named < links)
        return refuse(s->paths, spine->own.line, "spine %s: %d of its %d links have no vrf, and the others have one",
                      spine->name, links - named, links);
    s->planes = named ? 0 : least > 1 ? least : -1;
    if (s->planes > 1 && spine->count)
        return refuse(s->paths, spine->own.line,
                      "spine %s: it has links to the core, which virtual routers would not reach; name the \"vrf\" of "
                      "each uplink",
                      spine->name);
    return TUTTI_SUCCESS;
}

static struct acl_plane plane_of(const struct spine *s, int32_t uplink)
{
    const struct fabric *f = s->paths->fabric;
    struct acl_plane plane = {0};
    if (!s->planes) {
        snprintf(plane.name, sizeof plane.name, "%s", fabric_word(f, f->uplink[uplink].wire.vrf));
        return plane;
    }
    plane.number = among(f, uplink) % s->planes;
    snprintf(plane.name, sizeof plane.name, "%stutti-%d", s->vendor == &vendor_sonic ? "Vrf-" : "", plane.number);
    return plane;
}

/* The spine's address on a link, with the bits that the file tells for the leaf's. */
static void spine_address(const struct fabric *f, const struct fabric_wire *wire, int family, char out[64])
{
    const char *next = fabric_word(f, wire->next[family]), *bits = strchr(fabric_word(f, wire->address[family]), '/');
    *out = 0;
    if (*next && bits)
        snprintf(out, 64, "%s%s", next, bits);
}

/* The leaf's address on a link, for routes of a family: that of its own, or a link-local one. */
static bool leaf_address(const struct spine *s, const struct fabric_wire *wire, struct acl_route *route, char *out)
{
    struct in6_addr six;
    const char *own = fabric_word(s->paths->fabric, wire->address[route->family]);
    const char *other = fabric_word(s->paths->fabric, wire->address[1]);
    snprintf(out, FABRIC_ADDRESS, "%.*s", (int)strcspn(other, "/"), other);
    route->local = inet_pton(AF_INET6, out, &six) == 1 && IN6_IS_ADDR_LINKLOCAL(&six) && (route->family || !*own);
    if (!route->local)
        snprintf(out, FABRIC_ADDRESS, "%.*s", (int)strcspn(own, "/"), own);
    return *out && (!route->local || s->vendor->local_route);
}

static tutti_result_t add_route(const struct spine *s, int32_t uplink, const struct acl_port *port, const char *prefix)
{
    const struct fabric *f = s->paths->fabric;
    const struct fabric_wire *wire = &f->uplink[uplink].wire;
    char next[FABRIC_ADDRESS];
    struct acl_route route = {.port = port, .family = strchr(prefix, ':') != NULL, .prefix = prefix, .next = next};
    if (!leaf_address(s, wire, &route, next))
        return refuse(s->paths, wire->line,
                      "the leaf's end has no IPv%d address%s, which spine %s needs for its route to %s; add \"address: "
                      "ADDRESS/BITS\"",
                      route.family ? 6 : 4, route.local ? " but a link-local one" : "", f->spine[s->number].name,
                      prefix);
    route.again = s->planes > 0 && among(f, uplink) >= s->planes;
    const struct grammar *g = s->take ? &s->vendor->take : &s->vendor->put;
    if (g->route)
        g->route(&route, s->out);
    return TUTTI_SUCCESS;
}

static tutti_result_t add_link(const struct spine *s, int32_t uplink)
{
    const struct fabric *f = s->paths->fabric;
    const struct fabric_wire *wire = &f->uplink[uplink].wire;
    const struct fabric_leaf *leaf = &f->leaf[f->uplink[uplink].leaf];
    const struct grammar *g = s->take ? &s->vendor->take : &s->vendor->put;
    struct acl_plane plane = plane_of(s, uplink);
    char address[2][64], prefixes[1024], *rest = prefixes;
    spine_address(f, wire, 0, address[0]);
    spine_address(f, wire, 1, address[1]);
    const struct acl_port port = {&plane, fabric_word(f, wire->far_port), {address[0], address[1]}};
    snprintf(prefixes, sizeof prefixes, "%s", fabric_word(f, leaf->own.prefixes));
    if (!*port.name)
        return refuse(s->paths, wire->line, "the port of %s has no name; add \"spine_port: NAME\"",
                      f->spine[s->number].name);
    if (!*prefixes)
        return refuse(s->paths, leaf->own.line,
                      "leaf %s: what is behind it is not told, and virtual routers of %s need routes; add \"prefixes: "
                      "[10.1.0.0/16]\"",
                      leaf->name, f->spine[s->number].name);
    if (!s->take && s->planes)
        g->port(&port, s->out);
    tutti_result_t result = TUTTI_SUCCESS;
    for (char *prefix = strtok_r(rest, " ", &rest); !result && prefix; prefix = strtok_r(NULL, " ", &rest))
        result = add_route(s, uplink, &port, prefix);
    if (!result && s->take && s->planes)
        g->port(&port, s->out);
    return result;
}

static void add_planes(const struct spine *s)
{
    for (int p = 0; p < s->planes; p++) {
        struct acl_plane plane = {.number = p};
        snprintf(plane.name, sizeof plane.name, "%stutti-%d", s->vendor == &vendor_sonic ? "Vrf-" : "", p);
        (s->take ? s->vendor->take.plane : s->vendor->put.plane)(&plane, s->out);
    }
}

static tutti_result_t add_spine(struct spine *s)
{
    const struct fabric *f = s->paths->fabric;
    tutti_result_t result = count_planes(s);
    if (result || s->planes < 0)
        return result; /* with one link to each leaf there is one way down */
    text_add(s->out, "%s spine %s\n", s->vendor->comment ? s->vendor->comment : "#", f->spine[s->number].name);
    if (!s->take)
        add_planes(s);
    for (int32_t u = 0; !result && u < f->uplinks; u++)
        if (f->uplink[u].spine == s->number && !f->uplink[u].down)
            result = add_link(s, u);
    if (!result && s->take)
        add_planes(s);
    return result;
}

tutti_result_t paths_acl(const struct paths *paths, const struct paths_wants *wants, int32_t number, struct text *out,
                         const char **suffix)
{
    const struct fabric *f = paths->fabric;
    bool is_leaf = number < f->leaves;
    const struct fabric_own *own = is_leaf ? &f->leaf[number].own : &f->spine[number - f->leaves].own;
    const char *name = own->vendor ? fabric_word(f, own->vendor) : wants->vendor;
    const struct vendor *vendor = NULL;
    for (int i = 0; name && i < VENDORS; i++)
        if (strcmp(vendors[i]->name, name) == 0)
            vendor = vendors[i];
    if (!vendor)
        return refuse(paths, own->line, "whose switch is %s? Add \"vendor: NAME\", or --vendor",
                      paths_switch_name(paths, number));
    *suffix = vendor == &vendor_sonic && (wants->remove || !is_leaf) ? ".sh" : vendor->suffix;
    if (is_leaf) {
        struct acl_leaf leaf = {.paths = paths, .number = number, .out = out};
        return add_leaf(&leaf, vendor, wants->remove);
    }
    struct spine spine = {
        .paths = paths, .vendor = vendor, .number = number - f->leaves, .take = wants->remove, .out = out};
    return add_spine(&spine);
}
