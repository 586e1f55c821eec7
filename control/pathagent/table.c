/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/table.h"

#include "base/error.h"
#include "base/random.h"
#include "pathmaster/allot.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS 4096

struct agent_lane {
    int32_t client; /* -1: the place is free */
    int32_t next;   /* with the same hash, or free */
    uint32_t turn;  /* of the place: the master's number is turn and place */
    struct wire_lease_ask ask;
    uint16_t port;
    bool waits;  /* the process does */
    bool wanted; /* the master is to be asked */
    bool known;  /* the master has the lane */
};

struct lane_table {
    table_tell *tell;
    void *context;
    uint8_t secret[TABLE_SECRET];
    struct agent_lane *lane;
    int32_t places, free, used, wanted;
    int32_t chain[CHAINS];
    uint64_t *ended;
    size_t ended_count, ended_asked, ended_room;
    int32_t asked[PATH_LANES]; /* places, in the order of the question */
    size_t asked_count;
    uint64_t wave;
};

struct lane_table *table_open(table_tell *tell, void *context)
{
    struct lane_table *table = calloc(1, sizeof *table);
    if (table)
        table->lane = calloc(TABLE_LANES, sizeof *table->lane);
    if (!table || !table->lane || random_bytes(table->secret, sizeof table->secret) != TUTTI_SUCCESS) {
        table_close(table);
        error_note(TUTTI_SYSTEM_ERROR, "no memory, or no random bytes, for the lanes of this host");
        return NULL;
    }
    table->tell = tell;
    table->context = context;
    table->free = -1;
    memset(table->chain, 0xff, sizeof table->chain);
    return table;
}

void table_close(struct lane_table *table)
{
    if (!table)
        return;
    free(table->lane);
    free(table->ended);
    free(table);
}

/* ---- places ---- */

static int32_t *chain_of(struct lane_table *table, int32_t client, uint32_t number)
{
    return &table->chain[mix64((uint64_t)(uint32_t)client << 32 | number) % CHAINS];
}

static uint64_t number_of(const struct lane_table *table, int32_t place)
{
    return (uint64_t)table->lane[place].turn << 32 | (uint32_t)place;
}

static int32_t find(struct lane_table *table, int32_t client, uint32_t number)
{
    int32_t i = *chain_of(table, client, number);
    while (i >= 0 && (table->lane[i].client != client || table->lane[i].ask.number != number))
        i = table->lane[i].next;
    return i;
}

/* -1: there is none left. */
static int32_t take(struct lane_table *table, int32_t client, uint32_t number)
{
    int32_t i = table->free;
    if (i >= 0)
        table->free = table->lane[i].next;
    else if (table->places < TABLE_LANES)
        i = table->places++;
    else
        return -1;
    int32_t *chain = chain_of(table, client, number);
    table->lane[i] = (struct agent_lane){.client = client, .next = *chain, .turn = table->lane[i].turn + 1};
    *chain = i;
    table->used++;
    return i;
}

static void drop(struct lane_table *table, int32_t place)
{
    struct agent_lane *lane = &table->lane[place];
    int32_t *at = chain_of(table, lane->client, lane->ask.number);
    while (*at != place)
        at = &table->lane[*at].next;
    *at = lane->next;
    table->wanted -= lane->wanted;
    *lane = (struct agent_lane){.client = -1, .next = table->free, .turn = lane->turn};
    table->free = place;
    table->used--;
}

/* Without memory the lane ends at the master with this agent, at the latest. */
static void note_end(struct lane_table *table, uint64_t number)
{
    if (table->ended_count == table->ended_room) {
        size_t room = table->ended_room ? table->ended_room * 2 : 64;
        uint64_t *more = realloc(table->ended, room * sizeof *more);
        if (!more)
            return;
        table->ended = more;
        table->ended_room = room;
    }
    table->ended[table->ended_count++] = number;
}

/* ---- processes ---- */

static void want(struct lane_table *table, struct agent_lane *lane)
{
    table->wanted += !lane->wanted;
    lane->wanted = true;
}

static bool has_other_ends(const struct wire_lease_ask *a, const struct wire_lease_ask *b)
{
    return memcmp(a->from, b->from, sizeof a->from) != 0 || memcmp(a->to, b->to, sizeof a->to) != 0;
}

bool table_ask(struct lane_table *table, int32_t client, const struct wire_lease_ask *ask)
{
    if (ask->magic != WIRE_LEASE_ASK || !ask->parts || ask->parts > ALLOT_PARTS)
        return false;
    int32_t i = find(table, client, ask->number);
    if (i >= 0 && has_other_ends(&table->lane[i].ask, ask)) { /* another lane, for the master */
        note_end(table, number_of(table, i));
        drop(table, i);
        i = -1;
    }
    if (i < 0)
        i = take(table, client, ask->number);
    if (i < 0)
        return false;
    struct agent_lane *lane = &table->lane[i];
    lane->ask = *ask;
    lane->waits = true;
    want(table, lane);
    return true;
}

/* A place that was asked for, and is not answered yet, is one that the master may know by the time of the next
 * question. */
void table_leave(struct lane_table *table, int32_t client)
{
    for (int32_t i = 0; i < table->places; i++)
        if (table->lane[i].client == client) {
            note_end(table, number_of(table, i));
            drop(table, i);
        }
}

bool table_has_news(const struct lane_table *table)
{
    return table->wanted || table->ended_count;
}

int32_t table_lanes(const struct lane_table *table)
{
    return table->used;
}

/* ---- the master ---- */

static void write_lane(const struct lane_table *table, int32_t place, Tutti__PathLane *out)
{
    const struct agent_lane *lane = &table->lane[place];
    *out = (Tutti__PathLane)TUTTI__PATH_LANE__INIT;
    out->number = number_of(table, place);
    out->from = (ProtobufCBinaryData){sizeof lane->ask.from, (uint8_t *)lane->ask.from};
    out->to = (ProtobufCBinaryData){sizeof lane->ask.to, (uint8_t *)lane->ask.to};
    out->parts = lane->ask.parts;
    out->idle = lane->ask.flags & WIRE_LEASE_IDLE;
    out->again = lane->ask.flags & WIRE_LEASE_AGAIN;
    out->port = lane->port && !out->again ? lane->port : lane->ask.port;
}

uint8_t *table_question(struct lane_table *table, Tutti__PathAsk *ask, size_t *size)
{
    Tutti__PathLane *lane = calloc(PATH_LANES, sizeof *lane), **lanes = calloc(PATH_LANES, sizeof *lanes);
    uint8_t *bytes = NULL;
    table->asked_count = 0;
    for (int32_t i = 0; lane && lanes && i < table->places && table->asked_count < PATH_LANES; i++) {
        if (table->lane[i].client < 0 || !table->lane[i].wanted)
            continue;
        lanes[table->asked_count] = &lane[table->asked_count];
        write_lane(table, i, lanes[table->asked_count]);
        table->asked[table->asked_count++] = i;
    }
    table->ended_asked = table->ended_count < PATH_LANES ? table->ended_count : PATH_LANES;
    ask->version = PATH_VERSION;
    ask->owner = (ProtobufCBinaryData){sizeof table->secret, table->secret};
    ask->wave = table->wave;
    ask->n_lanes = table->asked_count;
    ask->lanes = lanes;
    ask->n_ended = table->ended_asked;
    ask->ended = table->ended;
    if (lane && lanes)
        bytes = path_pack(&ask->base, size);
    free(lane);
    free(lanes);
    if (!bytes)
        error_note(TUTTI_SYSTEM_ERROR, "no memory for a question of %d lanes", table->wanted);
    return bytes;
}

static void tell_lane(struct lane_table *table, struct agent_lane *lane)
{
    const struct wire_lease_answer answer = {
        .magic = WIRE_LEASE_ANSWER, .number = lane->ask.number, .port = lane->port};
    table->tell(table->context, lane->client, &answer);
    lane->waits = false;
}

/* An answer to another question than ours is none. */
static tutti_result_t check_answer(const struct lane_table *table, const Tutti__PathAnswer *answer)
{
    bool fits = answer->n_given == table->asked_count;
    for (size_t i = 0; fits && i < answer->n_given; i++)
        fits = answer->given[i]->number == number_of(table, table->asked[i]);
    return fits ? TUTTI_SUCCESS : error_note(TUTTI_REMOTE_ERROR, "the master answers another question");
}

static void take_given(struct lane_table *table, const Tutti__PathAnswer *answer)
{
    for (size_t i = 0; i < answer->n_given; i++) {
        struct agent_lane *lane = &table->lane[table->asked[i]];
        bool moved = lane->port != answer->given[i]->port;
        lane->port = (uint16_t)answer->given[i]->port;
        lane->known = lane->port;
        lane->ask.flags &= ~(uint32_t)WIRE_LEASE_AGAIN;
        table->wanted -= lane->wanted;
        lane->wanted = false;
        if (lane->waits || moved)
            tell_lane(table, lane);
    }
}

static void take_moved(struct lane_table *table, const Tutti__PathAnswer *answer)
{
    for (size_t i = 0; i < answer->n_moved; i++) {
        uint32_t place = (uint32_t)answer->moved[i]->number;
        if (place >= (uint32_t)table->places || number_of(table, (int32_t)place) != answer->moved[i]->number ||
            table->lane[place].client < 0 || table->lane[place].port == answer->moved[i]->port)
            continue;
        table->lane[place].port = (uint16_t)answer->moved[i]->port;
        tell_lane(table, &table->lane[place]);
    }
}

/* A master that does not know this host any more has ended its lanes: they ask for what they had. */
static void ask_for_all(struct lane_table *table)
{
    for (int32_t i = 0; i < table->places; i++)
        if (table->lane[i].client >= 0 && table->lane[i].known)
            want(table, &table->lane[i]);
}

tutti_result_t table_answer(struct lane_table *table, const Tutti__PathAnswer *answer)
{
    tutti_result_t result = check_answer(table, answer);
    if (result)
        return result;
    if (answer->unknown)
        ask_for_all(table);
    table->ended_count -= table->ended_asked;
    if (table->ended_count)
        memmove(table->ended, table->ended + table->ended_asked, table->ended_count * sizeof *table->ended);
    take_given(table, answer);
    take_moved(table, answer);
    table->wave = answer->wave;
    return TUTTI_SUCCESS;
}

void table_fail(struct lane_table *table)
{
    for (int32_t i = 0; i < table->places; i++) {
        struct agent_lane *lane = &table->lane[i];
        if (lane->client < 0 || !lane->waits)
            continue;
        const struct wire_lease_answer none = {.magic = WIRE_LEASE_ANSWER, .number = lane->ask.number};
        table->tell(table->context, lane->client, &none);
        lane->waits = false;
    }
}
