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

/* Leaves that have hosts which probe, and those hosts' NICs. */
struct sampling {
    int32_t *first, *nic; /* of each leaf: nic[first[leaf]] and what follows */
    int32_t *leaf, leaves, hosts;
};

static bool find_hosts(const struct catalogue *c, struct sampling *s)
{
    const struct fabric *f = c->fabric;
    s->first = calloc((size_t)f->leaves + 2, sizeof *s->first);
    s->nic = calloc((size_t)f->nics + 1, sizeof *s->nic);
    s->leaf = calloc((size_t)f->leaves + 1, sizeof *s->leaf);
    if (!s->first || !s->nic || !s->leaf)
        return false;
    for (int32_t n = 0; n < f->nics; n++)
        s->first[f->nic[n].port[0].leaf + 2] += c->agent[n] >= 0;
    for (int32_t l = 0; l < f->leaves; l++) {
        if (s->first[l + 2])
            s->leaf[s->leaves++] = l;
        s->first[l + 2] += s->first[l + 1];
    }
    for (int32_t n = 0; n < f->nics; n++)
        if (c->agent[n] >= 0)
            s->nic[s->first[f->nic[n].port[0].leaf + 1]++] = n;
    s->hosts = s->first[f->leaves];
    return true;
}

static void sampling_free(struct sampling *s)
{
    free(s->first);
    free(s->nic);
    free(s->leaf);
}

static int32_t nic_of(const struct sampling *s, int32_t leaf, uint32_t turn)
{
    return s->nic[s->first[leaf] + (int32_t)(turn % (uint32_t)(s->first[leaf + 1] - s->first[leaf]))];
}

static int32_t partners_of(const struct sampling *s)
{
    return s->leaves - 1 < CATALOGUE_PARTNERS ? s->leaves - 1 : CATALOGUE_PARTNERS;
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
    uint32_t other = (c->turn * (uint32_t)partners_of(s) + (uint32_t)k) % (uint32_t)(s->leaves - 1);
    int32_t from = s->leaf[i], to = s->leaf[(i + 1 + (int32_t)other) % s->leaves];
    struct catalogue_row wish = {.from = nic_of(s, from, c->turn),
                                 .to = nic_of(s, to, c->turn + (uint32_t)i),
                                 .back = (uint16_t)c->allot->paths->shares[to]};
    for (int32_t u = f->leaf[from].first; u < f->leaf[from].first + f->leaf[from].count; u++) {
        uint32_t at = (uint32_t)u * CATALOGUE_PARTNERS + (uint32_t)k;
        uint16_t first, last;
        if (!c->allot->paths->way[u].shares || !wish.back || !allot_way(c->allot, wish.from, wish.to, 0, u, &wish.way))
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
        for (int32_t k = 0; k < partners_of(s); k++)
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
        most += (size_t)c->fabric->leaf[s->leaf[i]].count * (size_t)partners_of(s);
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
