/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at every state of the model, breadth first, so that the way to a fault is a shortest one. Then, backward from
 * the states in which all is over: can every state come there without a further fault? States are known by 64 bits of
 * hash. Two of n states have the same hash with a probability of n * n / 2^65, which is 3 in 10^8 for a million states.
 */
#include "link/failover_model.h"

#include <stdlib.h>
#include <string.h>

struct edge {
    uint32_t from, to;
};

struct search {
    const struct model_shape *shape;
    model_visit *visit;
    uint32_t most, count, mask, next; /* next: the state that is looked at */
    uint64_t *hash;                   /* of each state */
    uint32_t *table;                  /* state + 1 by hash */
    uint32_t *parent;
    uint8_t *by; /* which of the actions of the parent */
    uint8_t way[MODEL_WAY];
    struct model_state *wave; /* states that have not been looked at, in a ring */
    uint32_t wave_room, first, waiting;
    uint8_t *over;
    struct edge *edges; /* without faults */
    uint64_t edge_count, edge_room;
};

/* FNV-1a on words, with a final mix. */
static uint64_t hash_state(const struct model_state *state)
{
    unsigned char bytes[(sizeof *state + 7) / 8 * 8] = {0};
    uint64_t hash = 0xcbf29ce484222325ull;
    memcpy(bytes, state, sizeof *state);
    for (size_t i = 0; i < sizeof bytes; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
    return hash ^ hash >> 32;
}

/* ---- Epochs only differ and follow each other: they are numbered anew, for each lane and side, so that there are few
 * states ---- */

struct epochs {
    uint32_t live[MODEL_LANES][2]; /* attempts of each side that the state speaks of, as bits */
};

static void meet_epoch(struct epochs *epochs, int lane, uint8_t *epoch, bool rename)
{
    uint32_t *live = &epochs->live[lane][*epoch & 1];
    uint32_t bit = 1u << (*epoch >> 1);
    if (!rename)
        *live |= bit;
    else if (*epoch)
        *epoch = (uint8_t)((__builtin_popcount(*live & (bit - 2)) + 1) << 1 | (*epoch & 1));
}

static void meet_message(struct epochs *epochs, uint16_t *message, bool rename)
{
    unsigned kind = *message >> 12, lane = *message >> 8 & 15;
    uint8_t epoch = *message & 255;
    if (kind != MODEL_SAYS_DOWN && kind != MODEL_SAYS_OK)
        return;
    meet_epoch(epochs, (int)lane, &epoch, rename);
    *message = MODEL_SAY(kind, lane, epoch);
}

static void meet_epochs(const struct model_shape *shape, struct model_state *state, struct epochs *epochs, bool rename)
{
    for (int i = 0; i < MODEL_CONNECTIONS && state->connection[i].there; i++) {
        struct model_connection *c = &state->connection[i];
        meet_epoch(epochs, c->lane, &c->epoch, rename);
        meet_epoch(epochs, c->lane, &c->known, rename);
    }
    for (int side = 0; side < 2; side++) {
        struct model_side *mine = &state->side[side];
        for (int i = 0; i < shape->lanes + shape->data_lanes; i++) {
            meet_epoch(epochs, i, &mine->lane[i].epoch, rename);
            meet_epoch(epochs, i, &mine->lane[i].dead_epoch, rename);
            meet_epoch(epochs, i, &mine->lane[i].known, rename);
            if (rename)
                mine->lane[i].attempts = (uint8_t)__builtin_popcount(epochs->live[i][side] & ~1u);
        }
        for (int i = 0; i < mine->queued; i++)
            meet_message(epochs, &mine->queue[i], rename);
    }
}

static void renumber_epochs(const struct model_shape *shape, struct model_state *state)
{
    struct epochs epochs = {0};
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < MODEL_LANES; i++)
            if (state->side[side].lane[i].state == MODEL_LANE_DOWN)
                state->side[side].lane[i].epoch = 0;
    meet_epochs(shape, state, &epochs, false);
    meet_epochs(shape, state, &epochs, true);
}

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void grow_wave(struct search *s)
{
    struct model_state *bigger = need(malloc((size_t)s->wave_room * 2 * sizeof *bigger));
    for (uint32_t i = 0; i < s->waiting; i++)
        bigger[i] = s->wave[(s->first + i) % s->wave_room];
    free(s->wave);
    s->wave = bigger;
    s->first = 0;
    s->wave_room *= 2;
}

/* The number of a state; one that is new waits to be looked at. `most`: there are too many. */
static uint32_t number(struct search *s, struct model_state *state, uint32_t parent, uint8_t by)
{
    renumber_epochs(s->shape, state);
    uint64_t hash = hash_state(state);
    uint32_t at = (uint32_t)hash & s->mask;
    for (; s->table[at]; at = (at + 1) & s->mask)
        if (s->hash[s->table[at] - 1] == hash)
            return s->table[at] - 1;
    if (s->count == s->most)
        return s->most;
    if (s->waiting == s->wave_room)
        grow_wave(s);
    s->wave[(s->first + s->waiting++) % s->wave_room] = *state;
    s->hash[s->count] = hash;
    s->parent[s->count] = parent;
    s->by[s->count] = by;
    s->over[s->count] = model_over(s->shape, state);
    s->table[at] = ++s->count;
    return s->count - 1;
}

static void add_edge(struct search *s, uint32_t from, uint32_t to)
{
    if (s->edge_count == s->edge_room) {
        s->edge_room *= 2;
        s->edges = need(realloc(s->edges, s->edge_room * sizeof *s->edges));
    }
    s->edges[s->edge_count++] = (struct edge){from, to};
}

/* Writes the choices that lead to a state. Returns how many. */
static int find_way(struct search *s, uint32_t state)
{
    int length = 0;
    for (uint32_t i = state; i; i = s->parent[i])
        length++;
    int at = length;
    for (uint32_t i = state; i; i = s->parent[i])
        if (--at < MODEL_WAY - 1)
            s->way[at] = s->by[i];
    return length < MODEL_WAY - 1 ? length : MODEL_WAY - 1;
}

static void tell_way(struct search *s, int length, struct model_result *result)
{
    struct model_state state;
    struct model_action actions[MODEL_ACTIONS];
    model_begin(s->shape, &state);
    result->length = length;
    for (int i = 0; i < length; i++) {
        model_actions(s->shape, &state, actions);
        result->way[i] = actions[s->way[i]];
        model_act(s->shape, &state, result->way[i]);
    }
}

/* All that can happen in one state. False: something is wrong. */
static bool look_at(struct search *s, struct model_result *result)
{
    struct model_action actions[MODEL_ACTIONS];
    struct model_state now = s->wave[s->first];
    s->first = (s->first + 1) % s->wave_room;
    s->waiting--;
    int count = model_actions(s->shape, &now, actions);
    int length = find_way(s, s->next);
    for (int i = 0; i < count; i++) {
        struct model_state then = now;
        const char *wrong = model_act(s->shape, &then, actions[i]);
        uint32_t to = wrong ? s->most : number(s, &then, s->next, (uint8_t)i);
        result->steps++;
        s->way[length] = (uint8_t)i;
        if (s->visit)
            s->visit(s->shape, s->way, length + 1);
        if (to == s->most) {
            tell_way(s, length + 1, result);
            result->wrong = wrong ? wrong : "too many states";
            return false;
        }
        if (actions[i].kind < MODEL_FAULTS)
            add_edge(s, s->next, to);
    }
    s->next++;
    return true;
}

/* Marks the states that can come to one that is marked. */
static void mark_backward(struct search *s)
{
    uint64_t *start = need(calloc((size_t)s->count + 2, sizeof *start));
    uint32_t *from = need(malloc((s->edge_count + 1) * sizeof *from));
    uint32_t *stack = need(malloc(((size_t)s->count + 1) * sizeof *stack));
    uint32_t depth = 0;
    for (uint64_t i = 0; i < s->edge_count; i++)
        start[s->edges[i].to + 2]++;
    for (uint32_t i = 0; i < s->count; i++)
        start[i + 2] += start[i + 1];
    for (uint64_t i = 0; i < s->edge_count; i++)
        from[start[s->edges[i].to + 1]++] = s->edges[i].from;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->over[i])
            stack[depth++] = i;
    while (depth) {
        uint32_t to = stack[--depth];
        for (uint64_t i = start[to]; i < start[to + 1]; i++)
            if (!s->over[from[i]]) {
                s->over[from[i]] = 1;
                stack[depth++] = from[i];
            }
    }
    free(start);
    free(from);
    free(stack);
}

static void find_stuck(struct search *s, struct model_result *result)
{
    for (uint32_t i = 0; i < s->count; i++)
        result->ended += s->over[i];
    mark_backward(s);
    for (uint32_t i = 0; i < s->count; i++)
        if (!s->over[i]) {
            result->wrong = "no way to an end without another fault";
            tell_way(s, find_way(s, i), result);
            return;
        }
}

void model_check(const struct model_shape *shape, uint32_t most, model_visit *visit, struct model_result *result)
{
    struct search s = {.shape = shape, .visit = visit, .most = most, .wave_room = 1024, .edge_room = 1024};
    struct model_state begin;
    for (s.mask = 1; s.mask < most * 2; s.mask *= 2)
        ;
    s.table = need(calloc(s.mask, sizeof *s.table));
    s.mask--;
    s.hash = need(malloc(most * sizeof *s.hash));
    s.parent = need(malloc(most * sizeof *s.parent));
    s.by = need(malloc(most * sizeof *s.by));
    s.over = need(malloc(most));
    s.wave = need(malloc(s.wave_room * sizeof *s.wave));
    s.edges = need(malloc(s.edge_room * sizeof *s.edges));
    memset(result, 0, sizeof *result);
    model_begin(shape, &begin);
    number(&s, &begin, 0, 0);
    bool well = true;
    while (s.waiting && (well = look_at(&s, result)))
        ;
    if (well)
        find_stuck(&s, result);
    result->states = s.count;
    free(s.table);
    free(s.hash);
    free(s.parent);
    free(s.by);
    free(s.over);
    free(s.wave);
    free(s.edges);
}
