/* SPDX-License-Identifier: Apache-2.0 */
/* The choices of switches, of an access list, and of a master. */
#include "model/route.h"
#include "base/error.h"
#include "base/random.h"
#include "path/dnlb.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS 2 /* times that a router that allocates looks at each flow */
#define CORES 8 /* links of a spine that are compared: the next ones in turn */

const char *const route_names[ROUTE_WAYS] = {"ecmp", "steered", "allocated"};

/* A flow on its way through the fabric. */
struct trip {
    struct router *router;
    const struct route_flow *flow;
    int32_t from_nic, to_nic, from_port, to_port;
    int32_t leaf, end; /* where it enters the network and where it leaves it */
    uint64_t tuple;    /* hash of the five-tuple */
    unsigned number;   /* of the uplink that steering asks for */
    int32_t *links;
    int count;
};

tutti_result_t router_open(const struct fabric *fabric, enum route_way way, uint64_t seed, struct router *out)
{
    size_t links = (size_t)fabric_links(fabric);
    *out = (struct router){.fabric = fabric, .way = way, .seed = seed};
    out->load = calloc(links + 1, sizeof *out->load);
    out->capacity = calloc(links + 1, sizeof *out->capacity);
    out->spine_load = calloc((size_t)fabric->spines + 1, sizeof *out->spine_load);
    out->turn = calloc(2 * (size_t)fabric->spines + 1, sizeof *out->turn);
    if (!out->load || !out->capacity || !out->spine_load || !out->turn)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %zu links", links);
    fabric_capacities(fabric, out->capacity);
    return TUTTI_SUCCESS;
}

void router_close(struct router *router)
{
    free(router->load);
    free(router->capacity);
    free(router->spine_load);
    free(router->turn);
}

void router_forget(struct router *router, int32_t count, const uint32_t *first, const int32_t *link)
{
    for (uint32_t i = 0; count && i < first[count]; i++)
        router->load[link[i]] = 0;
    memset(router->spine_load, 0, (size_t)router->fabric->spines * sizeof *router->spine_load);
}

static unsigned hash_at(const struct trip *trip, uint64_t place, unsigned count)
{
    return (unsigned)(mix64(trip->tuple ^ mix64(trip->router->seed + place)) % count);
}

/* How full a link is with this flow on it, in seconds. */
static double fill(const struct trip *trip, int32_t link)
{
    const struct router *router = trip->router;
    return (router->load[link] + trip->flow->bytes) / router->capacity[link];
}

static void take(struct trip *trip, int32_t link)
{
    trip->links[trip->count++] = link;
}

/* ---- what leads to the destination ---- */

static int32_t living(const struct fabric *fabric, struct fabric_range range)
{
    int32_t count = 0;
    for (int32_t u = range.first; u < range.first + range.count; u++)
        count += !fabric->uplink[u].down;
    return count;
}

static bool same_zone(const struct trip *trip)
{
    const struct fabric *fabric = trip->router->fabric;
    return fabric->leaf[trip->leaf].zone == fabric->leaf[trip->end].zone;
}

/* Does an uplink lead to the flow's destination? */
static bool leads(const struct trip *trip, int32_t uplink)
{
    const struct fabric *fabric = trip->router->fabric;
    int32_t spine = fabric->uplink[uplink].spine, place = uplink - fabric->leaf[trip->leaf].first;
    if (fabric->uplink[uplink].down)
        return false;
    if (!same_zone(trip))
        return fabric->spine[spine].count > 0;
    return living(fabric, fabric_uplinks_to(fabric, trip->end, spine, place)) > 0;
}

/* The fill of the least full way down from a spine to the last leaf. */
static double least_down(const struct trip *trip, int32_t spine, int32_t place)
{
    const struct fabric *fabric = trip->router->fabric;
    struct fabric_range range = fabric_uplinks_to(fabric, trip->end, spine, place);
    double least = -1;
    for (int32_t u = range.first; u < range.first + range.count; u++) {
        double full = fabric->uplink[u].down ? -1 : fill(trip, fabric_uplink_link(fabric, u, FABRIC_DOWN));
        if (full >= 0 && (least < 0 || full < least))
            least = full;
    }
    return least;
}

/* ---- from the leaf up ---- */

/* Candidate number `place` among a leaf's uplinks to the destination; -1: there are fewer. */
static int32_t uplink_at(const struct trip *trip, unsigned place)
{
    const struct fabric_leaf *leaf = &trip->router->fabric->leaf[trip->leaf];
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        if (leads(trip, u) && place-- == 0)
            return u;
    return -1;
}

static unsigned uplinks_that_lead(const struct trip *trip)
{
    const struct fabric_leaf *leaf = &trip->router->fabric->leaf[trip->leaf];
    unsigned count = 0;
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        count += leads(trip, u);
    return count;
}

static double fill_of_way(const struct trip *trip, int32_t uplink)
{
    const struct fabric *fabric = trip->router->fabric;
    int32_t spine = fabric->uplink[uplink].spine;
    double up = fill(trip, fabric_uplink_link(fabric, uplink, FABRIC_UP));
    if (!same_zone(trip)) /* its core links are chosen next */
        return up + 1e-6 * trip->router->spine_load[spine] / fabric->uplink[uplink].rate;
    double down = least_down(trip, spine, uplink - fabric->leaf[trip->leaf].first);
    return (up > down ? up : down) + 1e-6 * (up + down);
}

static int32_t least_full_uplink(const struct trip *trip)
{
    const struct fabric_leaf *leaf = &trip->router->fabric->leaf[trip->leaf];
    int32_t best = -1;
    double least = 0;
    for (int32_t i = 0; i < leaf->count; i++) { /* begin at any, so that equal ones are taken in turn */
        int32_t u = leaf->first + (i + (int32_t)trip->number) % leaf->count;
        if (!leads(trip, u))
            continue;
        double full = fill_of_way(trip, u);
        if (best < 0 || full < least) {
            best = u;
            least = full;
        }
    }
    return best;
}

static int32_t choose_uplink(struct trip *trip)
{
    const struct fabric_leaf *leaf = &trip->router->fabric->leaf[trip->leaf];
    if (trip->router->way == ROUTE_ALLOCATED)
        return least_full_uplink(trip);
    int32_t wanted = leaf->first + (int32_t)trip->number;
    if (trip->router->way == ROUTE_STEERED && leads(trip, wanted))
        return wanted;
    unsigned count = uplinks_that_lead(trip), place = count ? hash_at(trip, (uint64_t)trip->leaf, count) : 0;
    if ((int32_t)count == leaf->count && count)
        return leaf->first + (int32_t)place;
    return count ? uplink_at(trip, place) : -1;
}

/* ---- from a spine down ---- */

static int32_t choose_down(struct trip *trip, int32_t spine)
{
    const struct fabric *fabric = trip->router->fabric;
    struct fabric_range range = fabric_uplinks_to(fabric, trip->end, spine, (int32_t)trip->number);
    int32_t wanted = fabric->leaf[trip->end].first + (int32_t)trip->number, best = -1;
    bool inside = wanted >= range.first && wanted < range.first + range.count;
    if (trip->router->way == ROUTE_STEERED && inside && !fabric->uplink[wanted].down)
        return wanted;
    unsigned place = hash_at(trip, 0x51000000u + (uint64_t)spine, (unsigned)living(fabric, range));
    for (int32_t u = range.first; u < range.first + range.count; u++) {
        if (fabric->uplink[u].down)
            continue;
        bool less = best < 0 || fill(trip, fabric_uplink_link(fabric, u, FABRIC_DOWN)) <
                                    fill(trip, fabric_uplink_link(fabric, best, FABRIC_DOWN));
        if (trip->router->way == ROUTE_ALLOCATED ? less : place-- == 0)
            best = u;
    }
    return best;
}

/* ---- over the core ---- */

static int32_t choose_core(struct trip *trip, int32_t spine, enum fabric_way way)
{
    const struct fabric *fabric = trip->router->fabric;
    const struct fabric_spine *s = &fabric->spine[spine];
    int32_t best = s->first;
    if (trip->router->way == ROUTE_STEERED)
        return s->first + (int32_t)(mix64(trip->number * 7919u + (unsigned)trip->from_nic) % (unsigned)s->count);
    if (trip->router->way == ROUTE_ECMP)
        return s->first + (int32_t)hash_at(trip, 0xc0000000u + (uint64_t)spine + (uint64_t)way, (unsigned)s->count);
    int32_t begin = trip->router->turn[2 * spine + (int32_t)way]++, tries = s->count < CORES ? s->count : CORES;
    best = s->first + (int32_t)((uint32_t)begin % (uint32_t)s->count);
    for (int32_t i = 1; i < tries; i++) {
        int32_t c = s->first + (int32_t)(((uint32_t)begin + (uint32_t)i) % (uint32_t)s->count);
        if (fill(trip, fabric_core_link(fabric, c, way)) < fill(trip, fabric_core_link(fabric, best, way)))
            best = c;
    }
    return best;
}

/* The spine of the last leaf's zone that the core sends to. */
static int32_t choose_spine(struct trip *trip)
{
    const struct fabric *fabric = trip->router->fabric;
    const struct fabric_leaf *leaf = &fabric->leaf[trip->end];
    unsigned count = 0, place = 0;
    int32_t best = -1, wanted = leaf->count ? leaf->first + (int32_t)trip->number % leaf->count : -1;
    double least = 0;
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++) {
            int32_t spine = fabric->uplink[u].spine;
            if (fabric->uplink[u].down || !fabric->spine[spine].count)
                continue;
            if (pass == 0) {
                count++;
                continue;
            }
            if (trip->router->way == ROUTE_STEERED && u == wanted)
                return spine;
            double full = fill(trip, fabric_uplink_link(fabric, u, FABRIC_DOWN)) +
                          1e-6 * trip->router->spine_load[spine] / fabric->uplink[u].rate;
            bool less = best < 0 || full < least;
            if (trip->router->way == ROUTE_ALLOCATED ? less : place-- == 0) {
                best = spine;
                least = full;
            }
        }
        if (pass == 0 && count)
            place = hash_at(trip, 0xc1000000u, count);
    }
    return best;
}

static bool cross_core(struct trip *trip, int32_t *spine)
{
    const struct fabric *fabric = trip->router->fabric;
    int32_t from = fabric->zone[fabric->leaf[trip->leaf].zone].building;
    int32_t to = fabric->zone[fabric->leaf[trip->end].zone].building;
    take(trip, fabric_core_link(fabric, choose_core(trip, *spine, FABRIC_UP), FABRIC_UP));
    if (from != to) {
        take(trip, fabric_trunk_link(fabric, from, FABRIC_UP));
        take(trip, fabric_trunk_link(fabric, to, FABRIC_DOWN));
    }
    *spine = choose_spine(trip);
    if (*spine < 0)
        return false;
    take(trip, fabric_core_link(fabric, choose_core(trip, *spine, FABRIC_DOWN), FABRIC_DOWN));
    return true;
}

/* ---- a flow ---- */

static void choose_ports(struct trip *trip)
{
    const struct fabric *fabric = trip->router->fabric;
    const struct fabric_nic *from = &fabric->nic[trip->from_nic], *to = &fabric->nic[trip->to_nic];
    if (trip->router->way == ROUTE_ECMP) {
        trip->from_port = (int32_t)hash_at(trip, 0xb0000000u, (unsigned)from->ports);
        trip->to_port = (int32_t)hash_at(trip, 0xb1000000u, (unsigned)to->ports);
        for (int32_t p = 0; p < to->ports; p++) /* a leaf sends to a port of its own, if the destination has one */
            if (to->port[p].leaf == from->port[trip->from_port].leaf)
                trip->to_port = p;
    } else {
        trip->from_port = trip->flow->lane % from->ports;
        trip->to_port = trip->from_port % to->ports;
    }
    trip->leaf = from->port[trip->from_port].leaf;
    trip->end = to->port[trip->to_port].leaf;
}

static bool trip_begin(struct router *router, const struct route_flow *flow, int32_t *links, struct trip *trip)
{
    const struct fabric *fabric = router->fabric;
    *trip = (struct trip){.router = router, .flow = flow, .links = links};
    if (!fabric->host[fabric->gpu_host[flow->from]].nics || !fabric->host[fabric->gpu_host[flow->to]].nics)
        return false;
    trip->from_nic = fabric_nic_of(fabric, flow->from, flow->lane);
    trip->to_nic = fabric_nic_of(fabric, flow->to, flow->lane);
    uint64_t ends = (uint64_t)trip->from_nic << 32 | (uint32_t)trip->to_nic;
    /* the adapter draws 14 bits of a source port for each lane */
    uint64_t port =
        mix64(mix64(router->seed ^ ends) + (uint64_t)flow->from + ((uint64_t)flow->lane << 40)) % DNLB_PORTS;
    trip->tuple = mix64(ends) + port;
    choose_ports(trip);
    const struct fabric_port *out = &fabric->nic[trip->from_nic].port[trip->from_port];
    unsigned uplinks = (unsigned)fabric->leaf[trip->leaf].count;
    unsigned lane = (unsigned)(flow->lane / fabric->nic[trip->from_nic].ports);
    unsigned lanes =
        (unsigned)(flow->lanes + fabric->nic[trip->from_nic].ports - 1) / (unsigned)fabric->nic[trip->from_nic].ports;
    trip->number = uplinks ? dnlb_uplink((unsigned)out->number, lanes, lane, uplinks) : 0;
    return true;
}

static bool cross_network(struct trip *trip)
{
    const struct fabric *fabric = trip->router->fabric;
    int32_t uplink = choose_uplink(trip);
    if (uplink < 0)
        return false;
    int32_t spine = fabric->uplink[uplink].spine;
    take(trip, fabric_uplink_link(fabric, uplink, FABRIC_UP));
    if (!same_zone(trip) && !cross_core(trip, &spine))
        return false;
    int32_t down = choose_down(trip, spine);
    if (down < 0)
        return false;
    take(trip, fabric_uplink_link(fabric, down, FABRIC_DOWN));
    return true;
}

static void put_load(struct router *router, const int32_t *links, int count, double bytes)
{
    const struct fabric *fabric = router->fabric;
    int32_t cores = fabric_core_link(fabric, 0, FABRIC_UP), trunks = fabric_trunk_link(fabric, 0, FABRIC_UP);
    for (int i = 0; i < count; i++) {
        router->load[links[i]] += bytes;
        if (links[i] >= cores && links[i] < trunks)
            router->spine_load[fabric->core[(links[i] - cores) / 2].spine] += bytes;
    }
}

int router_path(struct router *router, const struct route_flow *flow, int32_t *links)
{
    const struct fabric *fabric = router->fabric;
    struct trip trip;
    if (flow->from == flow->to)
        return 0;
    if (fabric->gpu_host[flow->from] == fabric->gpu_host[flow->to]) {
        links[0] = fabric_gpu_link(fabric, flow->from, FABRIC_UP);
        links[1] = fabric_gpu_link(fabric, flow->to, FABRIC_DOWN);
        put_load(router, links, 2, flow->bytes);
        return 2;
    }
    if (!trip_begin(router, flow, links, &trip))
        return -1;
    take(&trip, fabric_port_link(fabric, trip.from_nic, trip.from_port, FABRIC_UP));
    if (trip.leaf != trip.end && !cross_network(&trip))
        return -1;
    take(&trip, fabric_port_link(fabric, trip.to_nic, trip.to_port, FABRIC_DOWN));
    put_load(router, links, trip.count, flow->bytes);
    return trip.count;
}

/* Keeps the length of a path when its flow gets another way: only uplinks and core links change. */
static void look_again(struct router *router, const struct route_flow *flows, int32_t count, const uint32_t *first,
                       int32_t *link)
{
    for (int32_t f = 0; f < count; f++) {
        int links = (int)(first[f + 1] - first[f]);
        put_load(router, link + first[f], links, -flows[f].bytes);
        if (links > 2)
            router_path(router, &flows[f], link + first[f]);
        else
            put_load(router, link + first[f], links, flows[f].bytes);
    }
}

int32_t router_paths(struct router *router, const struct route_flow *flows, int32_t count, uint32_t *first,
                     int32_t *link)
{
    first[0] = 0;
    for (int32_t f = 0; f < count; f++) {
        int links = router_path(router, &flows[f], link + first[f]);
        if (links < 0)
            return f;
        first[f + 1] = first[f] + (uint32_t)links;
    }
    for (int look = 1; router->way == ROUTE_ALLOCATED && look < LOOKS; look++)
        look_again(router, flows, count, first, link);
    return -1;
}
