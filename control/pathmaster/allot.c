/* SPDX-License-Identifier: Apache-2.0 */
/* The state, and what events make of it. */
#include "pathmaster/allot.h"
#include "pathmaster/hash.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_HASHES (1 << 10)

/* ---- links ---- */

/* Links without a limit are as fast as the fastest that has one; a lab's file tells no rates at all. */
static double fastest(const struct fabric *f)
{
    double most = 1.25e8;
    for (int32_t u = 0; u < f->uplinks; u++)
        if (isfinite(f->uplink[u].rate) && f->uplink[u].rate > most)
            most = f->uplink[u].rate;
    return most;
}

static double kilobits(double rate, double most)
{
    return round((isfinite(rate) && rate >= 125 ? rate : most) * 8e-3);
}

static void set_rates(struct allot *allot)
{
    const struct fabric *f = allot->paths->fabric;
    double most = fastest(f), *core = allot->full + 2 * (size_t)f->uplinks;
    for (int32_t u = 0; u < f->uplinks; u++)
        allot->full[u] = allot->full[f->uplinks + u] = f->uplink[u].down ? 0 : kilobits(f->uplink[u].rate, most);
    for (int32_t c = 0; c < f->cores; c++) {
        core[f->core[c].spine] += kilobits(f->core[c].rate, most);
        core[f->spines + f->core[c].spine] = core[f->core[c].spine];
    }
    memcpy(allot->capacity, allot->full, 2 * ((size_t)f->uplinks + (size_t)f->spines) * sizeof *allot->full);
}

static void put_load(struct allot *allot, const struct allot_way *way, uint64_t weight)
{
    struct allot_links links = allot_links(allot, way);
    for (int i = 0; i < links.count; i++)
        allot->load[links.link[i]] += weight;
}

static void take_load(struct allot *allot, const struct allot_way *way, uint64_t weight)
{
    struct allot_links links = allot_links(allot, way);
    for (int i = 0; i < links.count; i++)
        allot->load[links.link[i]] -= weight;
}

/* ---- life ---- */

static int32_t *chains(int32_t count)
{
    int32_t *chain = malloc((size_t)count * sizeof *chain);
    if (chain)
        memset(chain, 0xff, (size_t)count * sizeof *chain);
    return chain;
}

static tutti_result_t no_memory(const struct allot *allot, const char *what)
{
    return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for %s", allot->paths->label, what);
}

tutti_result_t allot_open(struct allot *allot, const struct paths *paths)
{
    size_t links = 2 * ((size_t)paths->fabric->uplinks + (size_t)paths->fabric->spines) + 1;
    *allot = (struct allot){.paths = paths, .free_lane = -1, .free_owner = -1, .hashes = FIRST_HASHES};
    allot->capacity = calloc(links, sizeof *allot->capacity);
    allot->full = calloc(links, sizeof *allot->full);
    allot->load = calloc(links, sizeof *allot->load);
    allot->told = malloc(links);
    allot->found = malloc(links);
    allot->by_number = chains(allot->hashes);
    allot->by_port = chains(allot->hashes);
    allot->by_secret = chains(HASH_OWNERS);
    if (!allot->capacity || !allot->full || !allot->load || !allot->told || !allot->found || !allot->by_number ||
        !allot->by_port || !allot->by_secret)
        return no_memory(allot, "the loads of its links");
    memset(allot->told, 100, links);
    memset(allot->found, 100, links);
    set_rates(allot);
    return TUTTI_SUCCESS;
}

void allot_close(struct allot *allot)
{
    free(allot->capacity);
    free(allot->full);
    free(allot->load);
    free(allot->told);
    free(allot->found);
    free(allot->lane);
    free(allot->owner);
    free(allot->by_number);
    free(allot->by_port);
    free(allot->by_secret);
    *allot = (struct allot){0};
}

/* ---- chains ---- */

static int32_t *number_chain(struct allot *allot, const struct allot_lane *lane)
{
    return &allot->by_number[hash_number(lane->owner, lane->number) & (uint64_t)(allot->hashes - 1)];
}

static int32_t *port_chain(struct allot *allot, const struct allot_lane *lane)
{
    return &allot->by_port[hash_port(lane->from, lane->to, lane->port) & (uint64_t)(allot->hashes - 1)];
}

static void chain_port(struct allot *allot, int32_t i)
{
    int32_t *chain = port_chain(allot, &allot->lane[i]);
    allot->lane[i].next_port = *chain;
    *chain = i;
}

static void unchain_port(struct allot *allot, int32_t i)
{
    int32_t *at = port_chain(allot, &allot->lane[i]);
    while (*at != i)
        at = &allot->lane[*at].next_port;
    *at = allot->lane[i].next_port;
}

static void chain_number(struct allot *allot, int32_t i)
{
    int32_t *chain = number_chain(allot, &allot->lane[i]);
    allot->lane[i].next_number = *chain;
    *chain = i;
}

static void unchain_number(struct allot *allot, int32_t i)
{
    int32_t *at = number_chain(allot, &allot->lane[i]);
    while (*at != i)
        at = &allot->lane[*at].next_number;
    *at = allot->lane[i].next_number;
}

static void chain_own(struct allot *allot, int32_t i)
{
    struct allot_owner *owner = &allot->owner[allot->lane[i].owner];
    allot->lane[i].before_own = -1;
    allot->lane[i].next_own = owner->first;
    if (owner->first >= 0)
        allot->lane[owner->first].before_own = i;
    owner->first = i;
    owner->count++;
}

static void unchain_own(struct allot *allot, int32_t i)
{
    struct allot_lane *lane = &allot->lane[i];
    struct allot_owner *owner = &allot->owner[lane->owner];
    if (lane->before_own >= 0)
        allot->lane[lane->before_own].next_own = lane->next_own;
    else
        owner->first = lane->next_own;
    if (lane->next_own >= 0)
        allot->lane[lane->next_own].before_own = lane->before_own;
    owner->count--;
}

/* As many chains as lanes, roughly. False: no memory; the old ones go on. */
static bool more_chains(struct allot *allot)
{
    int32_t count = allot->hashes * 2, *number = chains(count), *port = chains(count);
    if (!number || !port) {
        free(number);
        free(port);
        return false;
    }
    free(allot->by_number);
    free(allot->by_port);
    allot->by_number = number;
    allot->by_port = port;
    allot->hashes = count;
    for (int32_t i = 0; i < allot->places; i++)
        if (allot->lane[i].owner >= 0) {
            chain_number(allot, i);
            chain_port(allot, i);
        }
    return true;
}

/* ---- places ---- */

static int32_t take_lane(struct allot *allot)
{
    int32_t i = allot->free_lane;
    if (i >= 0) {
        allot->free_lane = allot->lane[i].next_own;
        return i;
    }
    if (allot->places == allot->room) {
        int32_t room = allot->room ? allot->room * 2 : 256;
        struct allot_lane *more = realloc(allot->lane, (size_t)room * sizeof *more);
        if (!more)
            return -1;
        allot->lane = more;
        allot->room = room;
    }
    return allot->places++;
}

static int32_t take_owner(struct allot *allot)
{
    int32_t i = allot->free_owner;
    if (i >= 0) {
        allot->free_owner = allot->owner[i].next;
        return i;
    }
    if (allot->owner_places == allot->owner_room) {
        int32_t room = allot->owner_room ? allot->owner_room * 2 : 64;
        struct allot_owner *more = realloc(allot->owner, (size_t)room * sizeof *more);
        if (!more)
            return -1;
        allot->owner = more;
        allot->owner_room = room;
    }
    return allot->owner_places++;
}

/* ---- events ---- */

static bool is_owner(const struct allot *allot, int32_t owner)
{
    return owner >= 0 && owner < allot->owner_places && allot->owner[owner].tenant >= 0;
}

static bool is_nic(const struct allot *allot, int32_t nic)
{
    return nic >= 0 && nic < allot->paths->fabric->nics;
}

static bool is_uplink(const struct allot *allot, int32_t uplink)
{
    return uplink >= 0 && uplink < allot->paths->fabric->uplinks;
}

static tutti_result_t makes_no_sense(const struct allot *allot, const struct allot_event *event)
{
    return error_note(TUTTI_INVALID_ARGUMENT, "%s: event %llu (of kind %d) makes no sense here", allot->paths->label,
                      (unsigned long long)allot->events + 1, (int)event->kind);
}

/* Owners get places as allot_next_owner() says: a list of events that lacks one does not pass for whole. */
static tutti_result_t apply_owner(struct allot *allot, const struct allot_event *event)
{
    if (event->tenant < 0 || event->owner != allot_next_owner(allot) ||
        allot_find_owner(allot, event->tenant, event->secret) >= 0)
        return makes_no_sense(allot, event);
    int32_t i = take_owner(allot);
    if (i < 0)
        return no_memory(allot, "one more owner");
    int32_t *chain = &allot->by_secret[hash_secret(event->tenant, event->secret) & (HASH_OWNERS - 1)];
    allot->owner[i] = (struct allot_owner){.tenant = event->tenant, .first = -1, .next = *chain};
    memcpy(allot->owner[i].secret, event->secret, ALLOT_SECRET);
    *chain = i;
    allot->owners++;
    return TUTTI_SUCCESS;
}

/* Is the path one that may be given? Faults do not count: an event may tell of a time before them. */
static bool is_path(const struct allot *allot, const struct allot_event *event, int32_t from, int32_t to,
                    struct allot_way *way)
{
    uint16_t first, last;
    if (!is_uplink(allot, event->uplink) || !allot->paths->way[event->uplink].shares)
        return false;
    paths_range(allot->paths, event->uplink, &first, &last);
    return event->port >= first && event->port <= last && allot_way(allot, from, to, event->side, event->uplink, way) &&
           !allot_is_taken(allot, from, to, event->port);
}

static tutti_result_t apply_give(struct allot *allot, const struct allot_event *event)
{
    struct allot_way way;
    if (!is_owner(allot, event->owner) || !is_nic(allot, event->from) || !is_nic(allot, event->to) ||
        allot->lanes >= ALLOT_LANES || allot->owner[event->owner].count >= ALLOT_OWN_LANES || !event->weight ||
        allot_find_lane(allot, event->owner, event->number) >= 0 ||
        !is_path(allot, event, event->from, event->to, &way))
        return makes_no_sense(allot, event);
    if (allot->lanes >= allot->hashes && !more_chains(allot))
        return no_memory(allot, "one more lane");
    int32_t i = take_lane(allot);
    if (i < 0)
        return no_memory(allot, "one more lane");
    allot->lane[i] = (struct allot_lane){.number = event->number,
                                         .owner = event->owner,
                                         .from = event->from,
                                         .to = event->to,
                                         .weight = event->weight,
                                         .port = event->port,
                                         .wave = event->wave,
                                         .way = way};
    allot->wave = event->wave > allot->wave ? event->wave : allot->wave;
    chain_number(allot, i);
    chain_port(allot, i);
    chain_own(allot, i);
    put_load(allot, &way, event->weight);
    allot->lanes++;
    return TUTTI_SUCCESS;
}

static tutti_result_t apply_move(struct allot *allot, const struct allot_event *event)
{
    struct allot_way way;
    int32_t i = is_owner(allot, event->owner) ? allot_find_lane(allot, event->owner, event->number) : -1;
    if (i < 0 || !is_path(allot, event, allot->lane[i].from, allot->lane[i].to, &way))
        return makes_no_sense(allot, event);
    struct allot_lane *lane = &allot->lane[i];
    unchain_port(allot, i);
    take_load(allot, &lane->way, lane->weight);
    lane->way = way;
    lane->port = event->port;
    lane->wave = event->wave;
    put_load(allot, &way, lane->weight);
    chain_port(allot, i);
    allot->wave = event->wave > allot->wave ? event->wave : allot->wave;
    return TUTTI_SUCCESS;
}

static void end_lane(struct allot *allot, int32_t i)
{
    struct allot_lane *lane = &allot->lane[i];
    unchain_number(allot, i);
    unchain_port(allot, i);
    unchain_own(allot, i);
    take_load(allot, &lane->way, lane->weight);
    *lane = (struct allot_lane){.owner = -1, .next_own = allot->free_lane};
    allot->free_lane = i;
    allot->lanes--;
}

static tutti_result_t apply_end(struct allot *allot, const struct allot_event *event)
{
    int32_t i = is_owner(allot, event->owner) ? allot_find_lane(allot, event->owner, event->number) : -1;
    if (i < 0)
        return makes_no_sense(allot, event);
    end_lane(allot, i);
    return TUTTI_SUCCESS;
}

static tutti_result_t apply_leave(struct allot *allot, const struct allot_event *event)
{
    if (!is_owner(allot, event->owner))
        return makes_no_sense(allot, event);
    struct allot_owner *owner = &allot->owner[event->owner];
    while (owner->first >= 0)
        end_lane(allot, owner->first);
    int32_t *at = &allot->by_secret[hash_secret(owner->tenant, owner->secret) & (HASH_OWNERS - 1)];
    while (*at != event->owner)
        at = &allot->owner[*at].next;
    *at = owner->next;
    *owner = (struct allot_owner){.tenant = -1, .first = -1, .next = allot->free_owner};
    allot->free_owner = event->owner;
    allot->owners--;
    return TUTTI_SUCCESS;
}

static tutti_result_t apply_link(struct allot *allot, const struct allot_event *event)
{
    if (!is_uplink(allot, event->uplink) || event->percent > 100)
        return makes_no_sense(allot, event);
    int32_t up = event->uplink, down = allot->paths->fabric->uplinks + up;
    (event->probed ? allot->found : allot->told)[up] = (uint8_t)event->percent;
    double percent = allot->told[up] < allot->found[up] ? allot->told[up] : allot->found[up];
    allot->capacity[up] = allot->full[up] * percent / 100;
    allot->capacity[down] = allot->full[down] * percent / 100;
    return TUTTI_SUCCESS;
}

tutti_result_t allot_apply(struct allot *allot, const struct allot_event *event)
{
    static tutti_result_t (*const by_kind[])(struct allot *, const struct allot_event *) = {
        [ALLOT_OWNER] = apply_owner, [ALLOT_GIVE] = apply_give,   [ALLOT_MOVE] = apply_move,
        [ALLOT_END] = apply_end,     [ALLOT_LEAVE] = apply_leave, [ALLOT_LINK] = apply_link};
    unsigned kind = (unsigned)event->kind;
    if (!kind || kind >= sizeof by_kind / sizeof *by_kind)
        return makes_no_sense(allot, event);
    tutti_result_t result = by_kind[kind](allot, event);
    if (result)
        return result;
    allot->events++;
    allot->uneven |= event->kind != ALLOT_OWNER && (event->kind != ALLOT_MOVE || !event->wave); /* wave: of a plan */
    return TUTTI_SUCCESS;
}
