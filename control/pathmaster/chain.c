/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of moves. A link that is too full may have no lane that could leave it alone: wherever one goes, the far end
 * is as full. Then a lane at that far end changes the other way, and so on, between the same two numbers of uplinks, as
 * in a proof of Konig's: the edges of a bipartite graph take as many colours as its fullest vertex has edges. Here
 * leaves are vertices, once for what leaves them and once for what comes, lanes are edges, and uplinks are colours.
 *
 * Along a chain every leaf keeps its balance but the first, which gains, and the last, where the two change places.
 */
#include "pathmaster/plan.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN 4096 /* moves */
#define TRIES 4    /* links that take what one has too much */

struct chain_step {
    int32_t lane;
    struct allot_way was;
};

struct chains {
    const struct allot *allot;
    struct plan_draft *draft;
    int32_t *first[2]; /* of each uplink: lanes up, lanes down */
    int32_t *next[2], *before[2];
    uint32_t *stamp; /* of each lane: the latest chain with it */
    uint32_t chain;
    struct chain_step *step;
    int32_t steps;
};

/* ---- the lanes of each link ---- */

static int32_t link_of(const struct allot_way *way, int end)
{
    return end ? way->down : way->uplink;
}

static void enlist(struct chains *c, int32_t lane)
{
    for (int end = 0; end < 2; end++) {
        int32_t *first = &c->first[end][link_of(&c->draft->way[lane], end)];
        c->before[end][lane] = -1;
        c->next[end][lane] = *first;
        if (*first >= 0)
            c->before[end][*first] = lane;
        *first = lane;
    }
}

static void delist(struct chains *c, int32_t lane)
{
    for (int end = 0; end < 2; end++) {
        int32_t before = c->before[end][lane], next = c->next[end][lane];
        if (before >= 0)
            c->next[end][before] = next;
        else
            c->first[end][link_of(&c->draft->way[lane], end)] = next;
        if (next >= 0)
            c->before[end][next] = before;
    }
}

static void chains_move(struct chains *c, int32_t lane, const struct allot_way *way)
{
    struct allot_links from = allot_links(c->allot, &c->draft->way[lane]), to = allot_links(c->allot, way);
    delist(c, lane);
    for (int i = 0; i < from.count; i++)
        c->draft->load[from.link[i]] -= c->allot->lane[lane].weight;
    for (int i = 0; i < to.count; i++)
        c->draft->load[to.link[i]] += c->allot->lane[lane].weight;
    c->draft->way[lane] = *way;
    enlist(c, lane);
}

/* ---- fills ---- */

/* Of an uplink at that end, with so much more on it; negative: it is left out. */
static double chains_fill(const struct chains *c, int end, int32_t uplink, double more)
{
    int32_t link = end * c->allot->paths->fabric->uplinks + uplink;
    return c->allot->capacity[link] > 0 ? ((double)c->draft->load[link] + more) / c->allot->capacity[link] : -1;
}

/* What a link may have before it is beyond its share: its part of what the leaf has, or what it carries. */
static double share_of(const struct chains *c, int32_t leaf, int end)
{
    const struct fabric *f = c->allot->paths->fabric;
    double load = 0, capacity = 0;
    for (int32_t u = f->leaf[leaf].first; u < f->leaf[leaf].first + f->leaf[leaf].count; u++) {
        load += (double)c->draft->load[end * f->uplinks + u];
        capacity += c->allot->capacity[end * f->uplinks + u];
    }
    return capacity > 0 && load > capacity ? load / capacity : 1;
}

/* ---- one chain ---- */

/* The way of a lane that takes this link at that end. */
static bool way_over(const struct chains *c, int32_t i, int end, int32_t link, struct allot_way *out)
{
    const struct fabric *f = c->allot->paths->fabric;
    const struct allot_lane *lane = &c->allot->lane[i];
    const struct allot_way *way = &c->draft->way[i];
    const struct fabric_leaf *leaf = &f->leaf[f->uplink[way->uplink].leaf];
    int32_t place = link - f->leaf[f->uplink[link].leaf].first;
    if (!end)
        return allot_way(c->allot, lane->from, lane->to, way->side, link, out);
    if (place < leaf->count && allot_way(c->allot, lane->from, lane->to, way->side, leaf->first + place, out) &&
        out->down == link)
        return true;
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        if (allot_way(c->allot, lane->from, lane->to, way->side, u, out) && out->down == link)
            return true;
    return false;
}

/* Is the far end of a lane none the worse for the lane's move? */
static bool ends_there(const struct chains *c, int end, const struct allot_way *was, const struct allot_way *way,
                       uint32_t weight)
{
    int32_t from = link_of(was, end), to = link_of(way, end);
    return from == to || chains_fill(c, end, to, weight) <= chains_fill(c, end, from, 0) + PLAN_LESS;
}

/* Moves a lane of that weight (0: any) from one link to another at that end; one that ends the chain, if there is.
 * -1: there is none that could. */
static int32_t shift(struct chains *c, int end, int32_t from, int32_t to, uint32_t weight)
{
    struct allot_way way, best_way;
    int32_t best = -1;
    for (int32_t i = c->first[end][from]; i >= 0; i = c->next[end][i]) {
        const struct allot_lane *lane = &c->allot->lane[i];
        if (c->stamp[i] == c->chain || (weight && lane->weight != weight) || !way_over(c, i, end, to, &way) ||
            !allot_is_open(c->allot, &way))
            continue;
        bool ends = ends_there(c, !end, &c->draft->way[i], &way, lane->weight);
        if (best >= 0 && !ends)
            continue;
        best = i;
        best_way = way;
        if (ends)
            break;
    }
    if (best < 0)
        return -1;
    c->step[c->steps++] = (struct chain_step){best, c->draft->way[best]};
    c->stamp[best] = c->chain;
    chains_move(c, best, &best_way);
    return best;
}

static void take_back(struct chains *c)
{
    while (c->steps) {
        const struct chain_step *step = &c->step[--c->steps];
        chains_move(c, step->lane, &step->was);
    }
}

/* True: the chain is done; else it is to be taken back. */
static bool follow(struct chains *c, int end, int32_t from, int32_t to)
{
    uint32_t weight = 0;
    c->chain++;
    while (c->steps < CHAIN) {
        int32_t i = shift(c, end, from, to, weight);
        if (i < 0)
            return false;
        weight = c->allot->lane[i].weight;
        end = !end;
        from = link_of(&c->draft->way[i], end);
        to = link_of(&c->step[c->steps - 1].was, end);
        if (from == to || chains_fill(c, end, from, 0) <= chains_fill(c, end, to, weight) + PLAN_LESS)
            return true;
        if (chains_fill(c, end, to, 0) < 0)
            return false;
    }
    return false;
}

/* ---- all links ---- */

static int32_t fullest(const struct chains *c, int32_t leaf, int end)
{
    const struct fabric_leaf *at = &c->allot->paths->fabric->leaf[leaf];
    int32_t best = -1;
    for (int32_t u = at->first; u < at->first + at->count; u++)
        if (best < 0 || chains_fill(c, end, u, 0) > chains_fill(c, end, best, 0))
            best = u;
    return best;
}

/* The emptiest link of the leaf that is fuller than `than`, or as full and behind; -1: there is none. */
static int32_t emptiest(const struct chains *c, int32_t leaf, int end, int32_t than)
{
    const struct fabric_leaf *at = &c->allot->paths->fabric->leaf[leaf];
    double least = than < 0 ? 0 : chains_fill(c, end, than, 0);
    int32_t best = -1;
    for (int32_t u = at->first; u < at->first + at->count; u++) {
        double fill = chains_fill(c, end, u, 0);
        if (fill < least || (than >= 0 && fill == least && u <= than))
            continue;
        if (best < 0 || fill < chains_fill(c, end, best, 0))
            best = u;
    }
    return best;
}

/* Is there a lane whose leave from one link to the other at that leaf makes the fuller of the two less full? */
static bool is_worth(const struct chains *c, int end, int32_t from, int32_t to)
{
    int32_t i = c->first[end][from];
    return i >= 0 && chains_fill(c, end, to, c->allot->lane[i].weight) < chains_fill(c, end, from, 0) - PLAN_WORTH;
}

/* Returns the moves after which the fullest link of the leaf has a lane less; 0: there are none. */
static int32_t relieve_link(struct chains *c, int32_t leaf, int end, double share)
{
    int32_t from = fullest(c, leaf, end), to = -1;
    if (from < 0 || chains_fill(c, end, from, 0) <= share + PLAN_WORTH)
        return 0;
    for (int try = 0; try < TRIES; try++) {
        to = emptiest(c, leaf, end, to);
        if (to < 0 || !is_worth(c, end, from, to))
            return 0;
        c->steps = 0;
        if (follow(c, end, from, to))
            return c->steps;
        take_back(c);
    }
    return 0;
}

static bool chains_open(struct chains *c, const struct allot *allot, struct plan_draft *draft)
{
    size_t places = (size_t)allot->places + 1, uplinks = (size_t)allot->paths->fabric->uplinks + 1;
    *c = (struct chains){.allot = allot, .draft = draft};
    c->stamp = calloc(places, sizeof *c->stamp);
    c->step = malloc(CHAIN * sizeof *c->step);
    bool good = c->stamp && c->step;
    for (int end = 0; end < 2; end++) {
        c->first[end] = malloc(uplinks * sizeof *c->first[end]);
        c->next[end] = malloc(places * sizeof *c->next[end]);
        c->before[end] = malloc(places * sizeof *c->before[end]);
        good = good && c->first[end] && c->next[end] && c->before[end];
        if (c->first[end])
            memset(c->first[end], 0xff, uplinks * sizeof *c->first[end]);
    }
    for (int32_t i = 0; good && i < allot->places; i++)
        if (allot->lane[i].owner >= 0)
            enlist(c, i);
    return good;
}

static void chains_close(struct chains *c)
{
    free(c->stamp);
    free(c->step);
    for (int end = 0; end < 2; end++) {
        free(c->first[end]);
        free(c->next[end]);
        free(c->before[end]);
    }
}

int64_t plan_chains(const struct allot *allot, int64_t most, struct plan_draft *draft)
{
    struct chains c;
    int64_t moves = 0;
    bool good = chains_open(&c, allot, draft);
    for (int32_t leaf = 0; good && leaf < allot->paths->fabric->leaves; leaf++)
        for (int end = 0; end < 2; end++) {
            double share = share_of(&c, leaf, end);
            for (int32_t one = 1; one && moves < most; moves += one)
                one = relieve_link(&c, leaf, end, share);
        }
    chains_close(&c);
    return good ? moves : -1;
}
