/* SPDX-License-Identifier: Apache-2.0 */
/* The ways between two NICs, how full they are, and their source ports. */
#include "pathmaster/allot.h"
#include "pathmaster/hash.h"

/* The k-th link of the spine to the one leaf leads to its k-th link to the other. */
static int32_t down_of(const struct fabric *fabric, int32_t uplink, int32_t leaf)
{
    const struct fabric_uplink *up = &fabric->uplink[uplink];
    int32_t place = uplink - fabric->leaf[up->leaf].first;
    struct fabric_range here = fabric_uplinks_to(fabric, up->leaf, up->spine, place),
                        there = fabric_uplinks_to(fabric, leaf, up->spine, place);
    return there.count ? there.first + (uplink - here.first) % there.count : -1;
}

struct allot_links allot_links(const struct allot *allot, const struct allot_way *way)
{
    int32_t uplinks = allot->paths->fabric->uplinks, spines = allot->paths->fabric->spines;
    if (way->out < 0)
        return (struct allot_links){2, {way->uplink, uplinks + way->down}};
    return (struct allot_links){
        4, {way->uplink, uplinks + way->down, 2 * uplinks + way->out, 2 * uplinks + spines + way->in}};
}

bool allot_way(const struct allot *allot, int32_t from, int32_t to, uint8_t side, int32_t uplink, struct allot_way *out)
{
    const struct fabric *f = allot->paths->fabric;
    const struct fabric_nic *a = &f->nic[from], *b = &f->nic[to];
    if (side >= a->ports || side >= b->ports || f->uplink[uplink].leaf != a->port[side].leaf)
        return false;
    int32_t leaf = b->port[side].leaf, spine = f->uplink[uplink].spine;
    *out = (struct allot_way){.uplink = uplink, .out = -1, .in = -1, .side = side};
    if (f->leaf[leaf].zone == f->spine[spine].zone) {
        out->down = down_of(f, uplink, leaf);
    } else {
        int32_t place = uplink - f->leaf[a->port[side].leaf].first;
        out->down = f->leaf[leaf].count ? f->leaf[leaf].first + place % f->leaf[leaf].count : -1;
        out->out = spine;
        out->in = out->down < 0 ? -1 : f->uplink[out->down].spine;
    }
    return out->down >= 0;
}

bool allot_is_open(const struct allot *allot, const struct allot_way *way)
{
    struct allot_links links = allot_links(allot, way);
    for (int i = 0; i < links.count; i++)
        if (allot->capacity[links.link[i]] <= 0)
            return false;
    return true;
}

struct allot_fill allot_fill(const struct allot *allot, const struct allot_way *way, uint32_t weight,
                             const struct allot_lane *self)
{
    struct allot_links links = allot_links(allot, way);
    struct allot_links own = self ? allot_links(allot, &self->way) : (struct allot_links){0};
    struct allot_fill fill = {0};
    for (int i = 0; i < links.count; i++) {
        uint64_t load = allot->load[links.link[i]] + weight;
        for (int k = 0; k < own.count; k++)
            load -= own.link[k] == links.link[i] ? self->weight : 0;
        double full = (double)load / allot->capacity[links.link[i]];
        fill.most = full > fill.most ? full : fill.most;
        fill.sum += full;
    }
    return fill;
}

bool allot_is_taken(const struct allot *allot, int32_t from, int32_t to, uint16_t port)
{
    int32_t i = allot->by_port[hash_port(from, to, port) & (uint64_t)(allot->hashes - 1)];
    for (; i >= 0; i = allot->lane[i].next_port)
        if (allot->lane[i].from == from && allot->lane[i].to == to && allot->lane[i].port == port)
            return true;
    return false;
}

uint16_t allot_port(const struct allot *allot, int32_t from, int32_t to, int32_t uplink)
{
    uint16_t first, last;
    if (!allot->paths->way[uplink].shares)
        return 0;
    paths_range(allot->paths, uplink, &first, &last);
    for (uint32_t port = first; port <= last; port++)
        if (!allot_is_taken(allot, from, to, (uint16_t)port))
            return (uint16_t)port;
    return 0;
}
