/* SPDX-License-Identifier: Apache-2.0 */
/* Which host probes which path, for a time. */
#include "pathmaster/rounds.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define TURN      (60 * NS_PER_S)  /* in a sweep, after which others probe */
#define TURN_CALM (600 * NS_PER_S) /* the same, in calm times */

/* Ports of NICs of hosts that probe, at the leaves. */
struct sampled {
    int32_t nic;
    uint8_t side;
};

struct sampling {
    int32_t *first; /* of each leaf: slot[first[leaf]] and what follows */
    struct sampled *slot;
    int32_t *leaf, leaves, hosts; /* leaves that have some */
};

static bool find_hosts(const struct catalogue *c, struct sampling *s)
{
    const struct fabric *f = c->fabric;
    s->first = calloc((size_t)f->leaves + 2, sizeof *s->first);
    s->slot = calloc((size_t)f->nics * FABRIC_PORTS + 1, sizeof *s->slot);
    s->leaf = calloc((size_t)f->leaves + 1, sizeof *s->leaf);
    if (!s->first || !s->slot || !s->leaf)
        return false;
    for (int32_t n = 0; n < f->nics; n++)
        for (int side = 0; c->agent[n] >= 0 && side < f->nic[n].ports; side++)
            s->first[f->nic[n].port[side].leaf + 2]++;
    for (int32_t l = 0; l < f->leaves; l++) {
        if (s->first[l + 2])
            s->leaf[s->leaves++] = l;
        s->first[l + 2] += s->first[l + 1];
    }
    for (int32_t n = 0; n < f->nics; n++)
        for (int side = 0; c->agent[n] >= 0 && side < f->nic[n].ports; side++)
            s->slot[s->first[f->nic[n].port[side].leaf + 1]++] = (struct sampled){n, (uint8_t)side};
    s->hosts = s->first[f->leaves];
    return true;
}

static void sampling_free(struct sampling *s)
{
    free(s->first);
    free(s->slot);
    free(s->leaf);
}

/* Of the leaf's slots from a turn on the first one of that side; -1: it has none. Left never meets right. */
static int32_t slot_at(const struct sampling *s, int32_t leaf, uint32_t turn, uint8_t side)
{
    int32_t count = s->first[leaf + 1] - s->first[leaf];
    for (int32_t i = 0; i < count; i++) {
        int32_t at = s->first[leaf] + (int32_t)((turn + (uint32_t)i) % (uint32_t)count);
        if (s->slot[at].side == side)
            return at;
    }
    return -1;
}

static const struct sampled *slot_of(const struct sampling *s, int32_t leaf, uint32_t turn)
{
    return &s->slot[s->first[leaf] + (int32_t)(turn % (uint32_t)(s->first[leaf + 1] - s->first[leaf]))];
}

/* The k-th other leaf, counted from a turn on, that has hosts by that side; -1: there are fewer. */
static int32_t partner_of(const struct sampling *s, int32_t i, uint8_t side, uint32_t turn, int32_t k)
{
    int32_t others = 0;
    for (int32_t j = 1; j < s->leaves; j++)
        others += slot_at(s, s->leaf[(i + j) % s->leaves], 0, side) >= 0;
    int32_t most = others < CATALOGUE_PARTNERS ? others : CATALOGUE_PARTNERS;
    if (k >= most)
        return -1;
    int32_t left = (int32_t)((turn * (uint32_t)most + (uint32_t)k) % (uint32_t)others);
    for (int32_t j = 1; j < s->leaves; j++) {
        int32_t leaf = s->leaf[(i + j) % s->leaves];
        if (slot_at(s, leaf, 0, side) >= 0 && left-- == 0)
            return leaf;
    }
    return -1;
}

/* ---- rows ---- */

/* A path that is probed already is probed on. */
static bool add_row(struct catalogue *c, struct catalogue_row *to, const struct catalogue_row *old,
                    const struct catalogue_row *wish, uint32_t at, uint64_t now)
{
    uint64_t drawn = 0;
    if (old && old->from == wish->from && old->to == wish->to && old->port == wish->port && old->back == wish->back) {
        *to = *old;
        return true;
    }
    while (!(drawn >> 32))
        if (random_bytes(&drawn, sizeof drawn))
            return false;
    *to = *wish;
    to->last.ticket = (drawn & ~(uint64_t)UINT32_MAX) | at;
    to->now.begun = now;
    c->changed = true;
    return true;
}

/* The ways of one leaf to another one. */
static bool add_rows(struct catalogue *c, const struct sampling *s, int32_t i, int32_t k, struct catalogue_row *row,
                     int32_t *rows, const int32_t *place, uint64_t now)
{
    const struct fabric *f = c->fabric;
    int32_t from = s->leaf[i];
    const struct sampled *out = slot_of(s, from, c->turn);
    int32_t to = partner_of(s, i, out->side, c->turn, k);
    if (to < 0)
        return true;
    struct catalogue_row wish = {.from = out->nic,
                                 .to = s->slot[slot_at(s, to, c->turn + (uint32_t)i, out->side)].nic,
                                 .back = (uint16_t)c->allot->paths->shares[to]};
    for (int32_t u = f->leaf[from].first; u < f->leaf[from].first + f->leaf[from].count; u++) {
        uint32_t at = (uint32_t)u * CATALOGUE_PARTNERS + (uint32_t)k;
        uint16_t first, last;
        if (!c->allot->paths->way[u].shares || !wish.back ||
            !allot_way(c->allot, wish.from, wish.to, out->side, u, &wish.way))
            continue;
        paths_range(c->allot->paths, u, &first, &last);
        wish.port = (uint16_t)(first + c->turn % (uint32_t)(last - first + 1));
        if (!add_row(c, &row[*rows], place[at] < 0 ? NULL : &c->row[place[at]], &wish, at, now))
            return false;
        c->place[at] = (*rows)++;
    }
    return true;
}

static bool fill(struct catalogue *c, const struct sampling *s, struct catalogue_row *row, const int32_t *place,
                 uint64_t now)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < s->leaves; i++)
        for (int32_t k = 0; k < CATALOGUE_PARTNERS; k++)
            if (!add_rows(c, s, i, k, row, &rows, place, now))
                return false;
    free(c->row);
    c->row = row;
    c->rows = rows;
    c->hosts = s->hosts;
    c->leaves = s->leaves;
    return true;
}

static bool make_rows(struct catalogue *c, const struct sampling *s, uint64_t now)
{
    size_t places = (size_t)c->fabric->uplinks * CATALOGUE_PARTNERS, most = 0;
    for (int32_t i = 0; i < s->leaves; i++)
        most += (size_t)c->fabric->leaf[s->leaf[i]].count * CATALOGUE_PARTNERS;
    struct catalogue_row *row = calloc(most + 1, sizeof *row);
    int32_t *place = malloc((places + 1) * sizeof *place);
    bool good = row && place;
    if (good) {
        memcpy(place, c->place, places * sizeof *place);
        memset(c->place, 0xff, places * sizeof *place);
        good = fill(c, s, row, place, now);
        if (!good)
            memcpy(c->place, place, places * sizeof *place);
    }
    if (!good)
        free(row);
    free(place);
    return good;
}

/* ---- turns ---- */

static void expire(struct catalogue *c, uint64_t now)
{
    for (int32_t n = 0; n < c->fabric->nics; n++)
        if (c->agent[n] >= 0 && c->until[n] <= now) {
            c->agent[n] = -1;
            c->changed = true;
        }
}

/* Are there others who could probe? */
static bool has_turns(const struct catalogue *c)
{
    return c->hosts > c->leaves || c->leaves - 1 > CATALOGUE_PARTNERS;
}

bool rounds_turn(struct catalogue *c, uint64_t now)
{
    struct sampling s = {0};
    bool came = false;
    expire(c, now);
    if (has_turns(c) && now - c->turned > (catalogue_sweeps(c, now) ? TURN : TURN_CALM)) {
        c->turn++;
        c->changed = true;
    }
    if (!c->changed)
        return true;
    c->changed = false;
    c->turned = now;
    bool good = find_hosts(c, &s);
    came = good && s.leaves > c->leaves;
    good = good && make_rows(c, &s, now);
    sampling_free(&s);
    c->changed = !good;
    c->round += good;
    if (good && came)
        catalogue_sweep(c, now);
    return good ? true : (error_note(TUTTI_SYSTEM_ERROR, "no memory for the paths that are probed"), false);
}
