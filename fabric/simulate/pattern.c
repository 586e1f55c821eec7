/* SPDX-License-Identifier: Apache-2.0 */
/* Takes rounds for equal that look alike to some ranks. */
#include "simulate/pattern.h"
#include "base/error.h"
#include "base/random.h"

#include <stdlib.h>

enum { WITNESSES = 24 }; /* ranks that are asked how a round looks */

void pattern_list_free(struct pattern_list *list)
{
    free(list->round);
    free(list->times);
    *list = (struct pattern_list){0};
}

void pattern_free(struct pattern *pattern)
{
    free(pattern->message);
    *pattern = (struct pattern){0};
}

static int witness_of(int nranks, int index)
{
    if (index < 8)
        return index < nranks ? index : nranks - 1;
    if (index < 12)
        return nranks - 1 - (index - 8) > 0 ? nranks - 1 - (index - 8) : 0;
    return (int)(mix64((uint64_t)index) % (uint64_t)nranks);
}

/* A rank's messages and their distances, as the rank sees them: which blocks they are does not matter. */
static uint64_t look_of(const struct algorithm *algorithm, const struct shape *shape, int round, struct action *actions)
{
    uint64_t look = 1;
    for (int w = 0; w < WITNESSES; w++) {
        int rank = witness_of(shape->nranks, w);
        int count = schedule_round(algorithm, shape, rank, round, actions);
        for (int i = 0; i < count; i++) {
            const struct action *a = &actions[i];
            if (a->kind == ACTION_COPY || (a->kind == ACTION_REDUCE && !a->nblocks))
                continue;
            look = mix64(look ^ mix64((uint64_t)a->kind << 60 ^ (uint64_t)(uint32_t)a->peer << 24 ^
                                      (uint64_t)(uint32_t)a->nblocks));
        }
        look = mix64(look + (uint64_t)w);
    }
    return look;
}

struct pattern_seen {
    uint64_t look;
    int32_t round;
};

static int by_look(const void *left, const void *right)
{
    const struct pattern_seen *a = left, *b = right;
    return a->look != b->look ? (a->look < b->look ? -1 : 1) : a->round - b->round;
}

static int by_round(const void *left, const void *right)
{
    const struct pattern_seen *a = left, *b = right;
    return a->round - b->round;
}

/* Picks a few rounds that look alike, far apart; of a schedule whose rounds all differ, PATTERN_ROUNDS in all. */
static void choose(struct pattern_seen *seen, int rounds, struct pattern_list *out)
{
    int groups = 1;
    qsort(seen, (size_t)rounds, sizeof *seen, by_look);
    for (int r = 1; r < rounds; r++)
        groups += seen[r].look != seen[r - 1].look;
    if (groups > PATTERN_ROUNDS / 4) { /* in the order of rounds, evenly */
        qsort(seen, (size_t)rounds, sizeof *seen, by_round);
        for (int i = 0; i < PATTERN_ROUNDS; i++) {
            out->round[i] = (int32_t)(((int64_t)2 * i + 1) * rounds / (2 * PATTERN_ROUNDS));
            out->times[i] = (double)rounds / PATTERN_ROUNDS;
        }
        out->count = PATTERN_ROUNDS;
        return;
    }
    int each = PATTERN_ROUNDS / groups < 4 ? PATTERN_ROUNDS / groups : 4;
    for (int begin = 0, end; begin < rounds; begin = end) {
        for (end = begin; end < rounds && seen[end].look == seen[begin].look; end++)
            continue;
        int size = end - begin, chosen = size < each ? size : each;
        for (int i = 0; i < chosen; i++) {
            out->round[out->count] = seen[begin + (int)(((int64_t)2 * i + 1) * size / (2 * chosen))].round;
            out->times[out->count++] = (double)size / chosen;
        }
    }
}

static tutti_result_t sample(const struct algorithm *algorithm, const struct shape *shape, int rounds,
                             struct pattern_list *out)
{
    struct pattern_seen *seen = malloc((size_t)rounds * sizeof *seen);
    struct action *actions = malloc(((size_t)algorithm->actions(shape) + 1) * sizeof *actions);
    if (!seen || !actions) {
        free(seen);
        free(actions);
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d rounds", rounds);
    }
    for (int r = 0; r < rounds; r++)
        seen[r] = (struct pattern_seen){look_of(algorithm, shape, r, actions), r};
    choose(seen, rounds, out);
    free(seen);
    free(actions);
    return TUTTI_SUCCESS;
}

tutti_result_t pattern_rounds(const struct algorithm *algorithm, const struct shape *shape, struct pattern_list *out)
{
    *out = (struct pattern_list){0};
    if (!schedule_fits(algorithm, shape))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s does not take %d ranks", algorithm->name, shape->nranks);
    int rounds = algorithm->rounds(shape), room = rounds < PATTERN_ROUNDS ? rounds : PATTERN_ROUNDS;
    out->rounds = rounds;
    out->round = malloc(((size_t)room + 1) * sizeof *out->round);
    out->times = malloc(((size_t)room + 1) * sizeof *out->times);
    if (!out->round || !out->times)
        return error_note(TUTTI_SYSTEM_ERROR, "no memory for %d rounds", rounds);
    if (rounds > PATTERN_ROUNDS)
        return sample(algorithm, shape, rounds, out);
    for (int r = 0; r < rounds; r++) {
        out->round[r] = r;
        out->times[r] = 1;
    }
    out->count = rounds;
    return TUTTI_SUCCESS;
}

static tutti_result_t add_message(struct pattern *pattern, struct pattern_message message)
{
    if (pattern->count == pattern->room) {
        int32_t room = pattern->room ? 2 * pattern->room : 1024;
        struct pattern_message *grown =
            room <= PATTERN_MESSAGES ? realloc(pattern->message, (size_t)room * sizeof *grown) : NULL;
        if (!grown)
            return error_note(TUTTI_INVALID_ARGUMENT, "a round has more than %d messages", PATTERN_MESSAGES);
        pattern->message = grown;
        pattern->room = room;
    }
    pattern->message[pattern->count++] = message;
    return TUTTI_SUCCESS;
}

static tutti_result_t add_rank(struct pattern *pattern, int rank, const struct action *actions, int count, double block)
{
    double sends = 0, receives = 0, reduced = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && !result; i++) {
        const struct action *a = &actions[i];
        if (a->kind == ACTION_SEND) {
            sends++;
            result = add_message(pattern, (struct pattern_message){rank, a->peer, (float)(a->nblocks * block)});
        } else if (a->kind == ACTION_RECV || a->kind == ACTION_RECV_REDUCE) {
            receives++;
        }
        if (a->kind == ACTION_RECV_REDUCE)
            reduced += a->nblocks * block;
        if (a->kind == ACTION_REDUCE)
            reduced += a->nblocks * block * (a->nsrc - 1);
    }
    double messages = sends > receives ? sends : receives;
    pattern->most = messages > pattern->most ? messages : pattern->most;
    pattern->reduced = reduced > pattern->reduced ? reduced : pattern->reduced;
    return result;
}

tutti_result_t pattern_round(const struct algorithm *algorithm, const struct shape *shape, int round,
                             struct pattern *pattern)
{
    int nblocks = algorithm->blocks(shape);
    if ((int64_t)algorithm->actions(shape) > PATTERN_MESSAGES * 2)
        return error_note(TUTTI_INVALID_ARGUMENT, "a round has more than %d messages", PATTERN_MESSAGES);
    struct action *actions = malloc(((size_t)algorithm->actions(shape) + 1) * sizeof *actions);
    tutti_result_t result = actions ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "a round: out of memory");
    pattern->count = 0;
    pattern->most = pattern->reduced = 0;
    for (int rank = 0; rank < shape->nranks && !result; rank++) {
        int count = schedule_round(algorithm, shape, rank, round, actions);
        result = add_rank(pattern, rank, actions, count, nblocks ? 1.0 / nblocks : 0);
    }
    free(actions);
    return result;
}
