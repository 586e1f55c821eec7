/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: lanes that are to move. A lane moves alone only where its new way, with it, is less full than its old one. So
 * the links' fills, sorted, become less with each move, and a plan ends.
 */
#include "pathmaster/plan.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS      2      /* at all lanes */
#define WAVE_LEAST 64     /* lanes of a wave, where the plan has that many */
#define CHAIN_MOST 200000 /* moves in the draft of a plan: the next one goes on */

struct planning {
    struct allot *allot;
    bool (*event)(void *context, const struct allot_event *event);
    void *context;
    uint64_t begin;   /* the first wave */
    uint32_t *of_nic; /* lanes of the plan that begin there */
    int64_t moved, of_wave;
    bool over; /* event() has said so */
};

/* ---- waves ---- */

static void begin_waves(struct planning *p, int64_t lanes)
{
    p->begin = p->allot->wave + 1;
    p->moved = 0;
    p->of_wave = lanes / ALLOT_WAVE_PARTS > WAVE_LEAST ? lanes / ALLOT_WAVE_PARTS : WAVE_LEAST;
    memset(p->of_nic, 0, (size_t)p->allot->paths->fabric->nics * sizeof *p->of_nic);
}

/* Waves fill one after the other. A NIC's second lane is in the wave behind its first, or later. */
static uint64_t wave_for(struct planning *p, int32_t nic)
{
    uint64_t by_count = (uint64_t)(p->moved++ / p->of_wave), by_nic = p->of_nic[nic]++;
    return p->begin + (by_count > by_nic ? by_count : by_nic);
}

static tutti_result_t move_lane(struct planning *p, const struct allot_lane *lane, const struct allot_way *way,
                                uint16_t port)
{
    const struct allot_event event = {.kind = ALLOT_MOVE,
                                      .owner = lane->owner,
                                      .number = lane->number,
                                      .uplink = way->uplink,
                                      .side = way->side,
                                      .port = port,
                                      .wave = lane->wave >= p->begin ? lane->wave : wave_for(p, lane->from)};
    p->over = !p->event(p->context, &event);
    return p->over ? TUTTI_SUCCESS : allot_apply(p->allot, &event);
}

/* ---- lanes that move alone ---- */

static bool is_better(const struct allot *allot, const struct allot_lane *lane, const struct allot_choice *choice)
{
    if (!allot_is_open(allot, &lane->way))
        return true;
    double fill = allot_fill(allot, &lane->way, lane->weight, lane).most;
    return fill > 1 + PLAN_WORTH && choice->fill.most < fill - PLAN_WORTH;
}

/* One look at all lanes, or at those alone that do not send at all. */
static tutti_result_t look_at_lanes(struct planning *p, bool faults)
{
    struct allot *allot = p->allot;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int32_t i = 0; !result && !p->over && i < allot->places; i++) {
        const struct allot_lane *lane = &allot->lane[i];
        struct allot_choice choice;
        if (lane->owner < 0 || (faults && allot_is_open(allot, &lane->way)))
            continue;
        if (allot_choose(allot, lane, true, lane->way.uplink, &choice) == ALLOT_NEW && is_better(allot, lane, &choice))
            result = move_lane(p, lane, &choice.way, choice.port);
    }
    return result;
}

static int64_t count_faults(const struct allot *allot)
{
    int64_t count = 0;
    for (int32_t i = 0; i < allot->places; i++)
        count += allot->lane[i].owner >= 0 && !allot_is_open(allot, &allot->lane[i].way);
    return count;
}

/* ---- lanes that move together ---- */

static bool draft_open(const struct allot *allot, struct plan_draft *draft)
{
    size_t links = 2 * ((size_t)allot->paths->fabric->uplinks + (size_t)allot->paths->fabric->spines) + 1;
    draft->way = malloc(((size_t)allot->places + 1) * sizeof *draft->way);
    draft->load = malloc(links * sizeof *draft->load);
    if (!draft->way || !draft->load)
        return false;
    memcpy(draft->load, allot->load, (links - 1) * sizeof *draft->load);
    for (int32_t i = 0; i < allot->places; i++)
        draft->way[i] = allot->lane[i].way;
    return true;
}

static void draft_close(struct plan_draft *draft)
{
    free(draft->way);
    free(draft->load);
}

static bool has_moved(const struct allot *allot, const struct plan_draft *draft, int32_t i)
{
    return allot->lane[i].owner >= 0 && draft->way[i].uplink != allot->lane[i].way.uplink;
}

/* All of the draft at once would be a stampede. Each lane keeps its port until it moves, so the order does not matter.
 */
static tutti_result_t carry_out(struct planning *p, const struct plan_draft *draft)
{
    struct allot *allot = p->allot;
    tutti_result_t result = TUTTI_SUCCESS;
    int64_t count = 0;
    for (int32_t i = 0; i < allot->places; i++)
        count += has_moved(allot, draft, i);
    begin_waves(p, count);
    for (int32_t i = 0; !result && !p->over && i < allot->places; i++) {
        const struct allot_lane *lane = &allot->lane[i];
        if (!has_moved(allot, draft, i))
            continue;
        uint16_t port = allot_port(allot, lane->from, lane->to, draft->way[i].uplink);
        if (port)
            result = move_lane(p, lane, &draft->way[i], port);
    }
    return result;
}

static tutti_result_t move_chains(struct planning *p, bool *more)
{
    struct plan_draft draft = {0};
    int64_t moves = draft_open(p->allot, &draft) ? plan_chains(p->allot, CHAIN_MOST, &draft) : -1;
    tutti_result_t result = moves < 0
                                ? error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for a plan", p->allot->paths->label)
                                : carry_out(p, &draft);
    *more = moves >= CHAIN_MOST;
    draft_close(&draft);
    return result;
}

tutti_result_t allot_plan(struct allot *allot, bool (*event)(void *context, const struct allot_event *event),
                          void *context)
{
    struct planning p = {.allot = allot, .event = event, .context = context};
    bool more = false;
    p.of_nic = calloc((size_t)allot->paths->fabric->nics + 1, sizeof *p.of_nic);
    if (!p.of_nic)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for a plan", allot->paths->label);
    begin_waves(&p, count_faults(allot));
    tutti_result_t result = look_at_lanes(&p, true);
    for (int look = 0; !result && !p.over && look < LOOKS; look++)
        result = look_at_lanes(&p, false);
    if (!result && !p.over)
        result = move_chains(&p, &more);
    free(p.of_nic);
    allot->uneven = result || p.over || more;
    return result;
}
