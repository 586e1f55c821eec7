/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the state, which change nothing. */
#include "pathmaster/allot.h"
#include "pathmaster/hash.h"

#include <math.h>
#include <string.h>

int32_t allot_find_owner(const struct allot *allot, int32_t tenant, const uint8_t secret[ALLOT_SECRET])
{
    int32_t i = allot->by_secret[hash_secret(tenant, secret) & (HASH_OWNERS - 1)];
    while (i >= 0 && (allot->owner[i].tenant != tenant || memcmp(allot->owner[i].secret, secret, ALLOT_SECRET) != 0))
        i = allot->owner[i].next;
    return i;
}

int32_t allot_next_owner(const struct allot *allot)
{
    if (allot->owners >= ALLOT_OWNERS)
        return -1;
    return allot->free_owner >= 0 ? allot->free_owner : allot->owner_places;
}

int32_t allot_find_lane(const struct allot *allot, int32_t owner, uint64_t number)
{
    int32_t i = allot->by_number[hash_number(owner, number) & (uint64_t)(allot->hashes - 1)];
    while (i >= 0 && (allot->lane[i].owner != owner || allot->lane[i].number != number))
        i = allot->lane[i].next_number;
    return i;
}

int32_t allot_overdue(const struct allot *allot, int32_t from, uint64_t now)
{
    for (int32_t i = from; i < allot->owner_places; i++)
        if (allot->owner[i].tenant >= 0 && allot->owner[i].until <= now)
            return i;
    return -1;
}

static bool is_emptier(struct allot_fill a, struct allot_fill b)
{
    return a.most < b.most || (a.most == b.most && a.sum < b.sum);
}

/* The uplinks of one side. They are looked at in turn from one on, so that equal ones are taken in turn. */
static enum allot_answer choose_on_side(const struct allot *allot, const struct allot_lane *lane,
                                        const struct allot_lane *self, int32_t avoid, uint8_t side,
                                        struct allot_choice *best)
{
    const struct fabric *f = allot->paths->fabric;
    const struct fabric_leaf *leaf = &f->leaf[f->nic[lane->from].port[side].leaf];
    enum allot_answer answer = ALLOT_NO_WAY;
    uint32_t turn = (uint32_t)(hash_number(lane->from, lane->number) >> 32);
    for (int32_t i = 0; i < leaf->count; i++) {
        struct allot_choice one = {.way = {.side = side}};
        int32_t uplink = leaf->first + (int32_t)((turn + (uint32_t)i) % (uint32_t)leaf->count);
        if (uplink == avoid || !allot_way(allot, lane->from, lane->to, side, uplink, &one.way) ||
            !allot_is_open(allot, &one.way))
            continue;
        one.fill = allot_fill(allot, &one.way, lane->weight, self);
        if (best->port && !is_emptier(one.fill, best->fill))
            continue;
        one.port = allot_port(allot, lane->from, lane->to, uplink);
        answer = one.port || answer == ALLOT_NEW ? ALLOT_NEW : ALLOT_NO_PORT;
        if (one.port)
            *best = one;
    }
    return answer;
}

/* `placed`: the lane has a path, and is not counted where it is. */
enum allot_answer allot_choose(const struct allot *allot, const struct allot_lane *lane, bool placed, int32_t avoid,
                               struct allot_choice *out)
{
    const struct fabric_nic *a = &allot->paths->fabric->nic[lane->from], *b = &allot->paths->fabric->nic[lane->to];
    enum allot_answer answer = ALLOT_NO_WAY;
    *out = (struct allot_choice){0};
    for (uint8_t side = 0; side < a->ports && side < b->ports; side++) {
        if (a->port[side].leaf == b->port[side].leaf)
            return ALLOT_NEAR;
        enum allot_answer one = choose_on_side(allot, lane, placed ? lane : NULL, avoid, side, out);
        answer = one == ALLOT_NO_WAY ? answer : one;
    }
    return out->port ? ALLOT_NEW : answer;
}

/* What a lane sends: its part of the NIC's port. One that is idle counts a thousandth, so that there is an order. */
static uint32_t weight_of(const struct allot *allot, const struct allot_ask *ask)
{
    const struct fabric_nic *nic = &allot->paths->fabric->nic[ask->from];
    double rate = nic->port[0].rate, kbit = isfinite(rate) && rate >= 125 ? rate * 8e-3 * nic->ports : 1e6;
    double weight = kbit / ask->parts / (ask->idle ? 1000 : 1);
    return weight < 1 ? 1 : weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

static enum allot_answer ask_again(const struct allot *allot, const struct allot_ask *ask, int32_t i,
                                   struct allot_event *out)
{
    const struct allot_lane *lane = &allot->lane[i];
    struct allot_choice choice;
    if (lane->from != ask->from || lane->to != ask->to)
        return ALLOT_DIFFERENT;
    bool failed = ask->again && ask->port == lane->port; /* else a plan has moved it since */
    bool stays = allot_is_open(allot, &lane->way) && !failed;
    if (stays || allot_choose(allot, lane, true, lane->way.uplink, &choice) != ALLOT_NEW)
        return ALLOT_KNOWN;
    *out = (struct allot_event){.kind = ALLOT_MOVE,
                                .owner = ask->owner,
                                .number = ask->number,
                                .uplink = choice.way.uplink,
                                .side = choice.way.side,
                                .port = choice.port};
    return ALLOT_NEW;
}

/* Where a lane goes on that this state does not know: it came here from another one. */
static bool keeps_port(const struct allot *allot, const struct allot_lane *lane, uint16_t port,
                       struct allot_choice *out)
{
    const struct fabric_nic *a = &allot->paths->fabric->nic[lane->from], *b = &allot->paths->fabric->nic[lane->to];
    *out = (struct allot_choice){.port = port};
    for (uint8_t side = 0; side < a->ports && side < b->ports; side++) {
        int32_t uplink = paths_uplink(allot->paths, a->port[side].leaf, port);
        if (a->port[side].leaf != b->port[side].leaf && uplink >= 0 &&
            allot_way(allot, lane->from, lane->to, side, uplink, &out->way) && allot_is_open(allot, &out->way))
            return !allot_is_taken(allot, lane->from, lane->to, port);
    }
    return false;
}

enum allot_answer allot_ask(const struct allot *allot, const struct allot_ask *ask, struct allot_event *out)
{
    int32_t i = allot_find_lane(allot, ask->owner, ask->number);
    struct allot_choice choice;
    if (i >= 0)
        return ask_again(allot, ask, i, out);
    if (allot->owner[ask->owner].count >= ALLOT_OWN_LANES || allot->lanes >= ALLOT_LANES)
        return ALLOT_TOO_MANY;
    const struct allot_lane lane = {
        .number = ask->number, .from = ask->from, .to = ask->to, .weight = weight_of(allot, ask)};
    enum allot_answer answer = ALLOT_NEW;
    if (ask->again || !ask->port || !keeps_port(allot, &lane, ask->port, &choice))
        answer = allot_choose(allot, &lane, false, -1, &choice);
    if (answer != ALLOT_NEW)
        return answer;
    *out = (struct allot_event){.kind = ALLOT_GIVE,
                                .owner = ask->owner,
                                .number = ask->number,
                                .from = ask->from,
                                .to = ask->to,
                                .weight = lane.weight,
                                .uplink = choice.way.uplink,
                                .side = choice.way.side,
                                .port = choice.port};
    return ALLOT_NEW;
}
