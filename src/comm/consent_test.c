/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a generation, in every order of events: members finish turns, learn that turns count, open, ask, wait no
 * longer, hear words, die, stop and go on. The members are those of consent.c. Then the same with a fault in a member
 * or in its words: each fault must be found.
 */
#include "comm/consent.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 4
#define FLIGHT  8

enum mutation {
    RIGHT,
    FINISHES_OPEN, /* a turn is finished by one that has promised */
    TAKES_MOST,    /* an asker takes the turn that some have finished, not all */
    FORGETS,       /* what had been accepted is not told */
    HEARS_OLD,     /* a proposal below what was promised is accepted */
    HASTY,         /* an asker decides before others have accepted */
    HALF,          /* half of the members are enough, in two halves that do not hear one another */
    DEAF,          /* one that comes back asks before it hears what has come for it */
    BREAKS_UNITS,  /* a member goes on whose unit is not whole */
    KEEPS_CUT,     /* an asker does not hear who does not reach whom */
    ABSENT,        /* one that is in no call answers nobody */
    SULKS,         /* one that refuses an asker does not say so */
    ONLY_MINE,     /* an ask tells the asker's own turn, not that of one that answered and is behind */
    MUTATIONS
};

struct shape {
    const char *name;
    int members, minimum;
    int unit[MEMBERS];
    bool trusts; /* only members that are dead or stopped are left out: then fewer than half may go on */
    int turns, deaths, stops, asks, losses; /* most of them */
    enum mutation mutation;
    bool cut; /* no word passes between the last two members */
};

struct flight {
    uint8_t kind, ballot, finished, accepted, at, turn, child, set;
};

struct world {
    struct consent member[MEMBERS];
    struct consent_set cut[MEMBERS][MEMBERS];
    struct flight flight[MEMBERS][MEMBERS][FLIGHT];
    uint8_t flights[MEMBERS][MEMBERS];
    uint8_t counted[MEMBERS]; /* turns that the member knows to count without asking */
    uint8_t dead, stopped, deaths, stops, asks, losses, children;
};

struct search {
    const struct shape *shape;
    struct world *stack;
    size_t depth, room;
    uint64_t *seen, mask, states, decided;
    const char *wrong;
};

static struct search *search; /* that a member's words belong to */
static struct world *now;

static void blame(const char *what)
{
    if (!search->wrong)
        search->wrong = what;
}

/* ---- Words ---- */

static bool are_cut(int a, int b)
{
    return search->shape->cut && a != b && a >= search->shape->members - 2 && b >= search->shape->members - 2;
}

static void push(void *context, int to, const struct consent_word *word)
{
    int from = ((struct consent *)context)->me;
    if (now->dead >> to & 1 || are_cut(from, to))
        return;
    if (search->shape->mutation == SULKS && word->kind == CONSENT_PROMISE &&
        consent_asker(&now->member[from], word->ballot) != to)
        return;
    if (now->flights[from][to] == FLIGHT) {
        blame("the model's bound: words in flight");
        return;
    }
    struct flight *flight = &now->flight[from][to][now->flights[from][to]++];
    *flight = (struct flight){.kind = (uint8_t)word->kind,
                              .ballot = (uint8_t)word->ballot,
                              .finished = (uint8_t)word->finished,
                              .accepted = (uint8_t)word->accepted,
                              .at = (uint8_t)word->at,
                              .turn = (uint8_t)word->value.turn,
                              .child = (uint8_t)word->value.child,
                              .set = (uint8_t)word->value.set.word[0]};
    if (search->shape->mutation == FORGETS && word->kind == CONSENT_PROMISE)
        flight->accepted = 0;
    if (search->shape->mutation == ONLY_MINE && word->kind == CONSENT_ASK)
        flight->at = (uint8_t)now->member[from].at;
}

static void drop_first(int from, int to)
{
    struct flight *list = now->flight[from][to];
    memmove(list, list + 1, sizeof *list * (size_t)(--now->flights[from][to]));
    memset(&list[now->flights[from][to]], 0, sizeof *list);
}

static void deliver(int from, int to)
{
    struct flight flight = now->flight[from][to][0];
    struct consent *member = &now->member[to];
    struct consent_word word = {.kind = flight.kind,
                                .ballot = flight.ballot,
                                .finished = flight.finished,
                                .accepted = flight.accepted,
                                .at = flight.at,
                                .value = {flight.turn, flight.child, {{flight.set}}}};
    drop_first(from, to);
    if (search->shape->mutation == HEARS_OLD && word.kind == CONSENT_PROPOSE)
        member->promised = 0;
    if (search->shape->mutation == ABSENT && !member->at && word.kind == CONSENT_ASK)
        word.at = 0;
    consent_hear(member, from, &word);
}

/* ---- What can happen ---- */

static bool acts(int i)
{
    return !((now->dead | now->stopped) >> i & 1);
}

/* The turn that the member has begun last. */
static uint32_t begun(int i)
{
    return now->counted[i] + (now->member[i].at ? 1u : 0u);
}

static bool finish(int i)
{
    struct consent *member = &now->member[i];
    uint32_t turn = now->counted[i] + 1u;
    bool late = search->shape->mutation == FINISHES_OPEN && member->open && !member->decided;
    if (!acts(i) || !member->at || turn > (uint32_t)search->shape->turns || member->finished >= turn)
        return false;
    for (int j = 0; j < search->shape->members; j++) /* each has given its part of the sum */
        if (begun(j) < turn)
            return false;
    if (late)
        member->finished = turn;
    return late || consent_finish(member, turn);
}

/* Between two turns the members of a unit wait for one another: for one that is dead no longer. One that has nobody to
 * wait for begins its next turn at once. */
static bool enter(int i)
{
    struct consent *member = &now->member[i];
    if (!acts(i) || member->at || member->decided)
        return false;
    for (int j = 0; j < search->shape->members; j++)
        if (search->shape->unit[j] == search->shape->unit[i] && !(now->dead >> j & 1) &&
            now->counted[j] < now->counted[i] && !now->member[j].decided)
            return false;
    consent_enter(member, now->counted[i] + 1u);
    return true;
}

static bool is_alone(int i)
{
    int count = 0;
    for (int j = 0; j < search->shape->members; j++)
        count += search->shape->unit[j] == search->shape->unit[i];
    return count == 1;
}

static bool count(int i)
{
    struct consent *member = &now->member[i];
    uint32_t turn = now->counted[i] + 1u;
    if (!acts(i) || !member->at || turn > (uint32_t)search->shape->turns || member->open || member->decided)
        return false;
    for (int j = 0; j < search->shape->members; j++)
        if (now->member[j].finished < turn)
            return false;
    now->counted[i] = (uint8_t)turn;
    consent_enter(member, is_alone(i) ? turn + 1 : 0);
    return true;
}

static bool ask(int i)
{
    if (!acts(i) || !now->member[i].at || now->member[i].decided || now->asks == search->shape->asks)
        return false;
    now->asks++;
    consent_open(&now->member[i]);
    consent_ask(&now->member[i]);
    return true;
}

/* Of those that are trusted to answer while they act, only one that does not act is left out. */
static bool may_leave_out(int i, int j)
{
    if (!search->shape->trusts || now->dead >> j & 1)
        return !(search->shape->trusts && now->flights[j][i] && search->shape->mutation != DEAF);
    return now->stopped >> j & 1 && (!now->flights[j][i] || search->shape->mutation == DEAF);
}

static bool conclude(int i)
{
    struct consent *member = &now->member[i];
    if (!acts(i) || !member->ballot || member->proposes)
        return false;
    if (search->shape->mutation == KEEPS_CUT)
        memset(now->cut[i], 0, sizeof now->cut[i]);
    for (int j = 0; j < search->shape->members; j++)
        if (consent_awaits(member, j) && !may_leave_out(i, j))
            return false;
    if (!consent_conclude(member, (uint64_t)now->children + 1))
        return false;
    now->children++;
    if (search->shape->mutation == HASTY) {
        member->accepts = member->answered;
        consent_hear(member, i, &(struct consent_word){.kind = CONSENT_ACCEPT, .ballot = member->ballot});
    }
    return true;
}

static bool take_most(int i)
{
    struct consent *member = &now->member[i];
    if (!member->ballot || member->proposes || member->best)
        return conclude(i);
    for (int j = 0; j < search->shape->members; j++)
        for (int k = 0; k < search->shape->members; k++)
            if (consent_has(&member->answered, j) && member->turns[j] < member->turns[k] &&
                consent_has(&member->answered, k))
                member->turns[j] = member->turns[k];
    return conclude(i);
}

/* The last words to some may not have left. */
static bool die(int i, unsigned unsaid)
{
    if (now->dead >> i & 1 || now->deaths == search->shape->deaths)
        return false;
    now->dead |= (uint8_t)(1u << i);
    now->stopped &= (uint8_t) ~(1u << i);
    now->deaths++;
    for (int j = 0; j < search->shape->members; j++) {
        memset(now->flight[j][i], 0, sizeof now->flight[j][i]);
        now->flights[j][i] = 0;
        if (!(unsaid >> j & 1))
            continue;
        if (j == i || !now->flights[i][j])
            return false; /* the same as without */
        memset(&now->flight[i][j][--now->flights[i][j]], 0, sizeof(struct flight));
    }
    return true;
}

static bool stop(int i)
{
    if (!acts(i) || now->stops == search->shape->stops)
        return false;
    now->stops++;
    now->stopped |= (uint8_t)(1u << i);
    return true;
}

static bool go_on(int i)
{
    if (!(now->stopped >> i & 1))
        return false;
    now->stopped &= (uint8_t) ~(1u << i);
    return true;
}

static bool arrive(int from, int to)
{
    if (!acts(to) || !now->flights[from][to])
        return false;
    deliver(from, to);
    return true;
}

static bool lose(int from, int to)
{
    if (!now->flights[from][to] || now->losses == search->shape->losses)
        return false;
    now->losses++;
    drop_first(from, to);
    return true;
}

static bool repeat(int i)
{
    if (!acts(i) || !now->member[i].ballot || !now->losses)
        return false;
    for (int j = 0; j < search->shape->members; j++)
        if (now->flights[i][j] || now->flights[j][i])
            return false;
    consent_repeat(&now->member[i]);
    return true;
}

/* First what a member does without anything that goes wrong, and without more waiting than it may. */
#define SIMPLE  8
#define MOVES   (6 + MEMBERS)
#define ACTIONS (SIMPLE + MEMBERS * 2 + (1 << MEMBERS))
static bool act(int i, int action)
{
    bool (*const moves[])(int) = {finish, count, enter, search->shape->mutation == TAKES_MOST ? take_most : conclude,
                                  go_on,  repeat};
    if (action < MOVES - MEMBERS)
        return moves[action](i);
    if (action < MOVES)
        return action - (MOVES - MEMBERS) < search->shape->members && arrive(action - (MOVES - MEMBERS), i);
    if (action < SIMPLE + MEMBERS)
        return action == MOVES ? ask(i) : stop(i);
    action -= SIMPLE + MEMBERS;
    if (action < MEMBERS)
        return action < search->shape->members && lose(action, i);
    return die(i, (unsigned)(action - MEMBERS));
}

/* ---- What must hold ---- */

static void look_at_decided(const struct consent *member)
{
    const struct shape *shape = search->shape;
    struct consent_set whole;
    search->decided++;
    if (consent_units(member, &member->value.set, &whole) < shape->minimum && shape->mutation != HALF)
        blame("fewer members go on than may");
    if (whole.word[0] != member->value.set.word[0])
        blame("a unit goes on that is not whole");
    if (shape->cut && member->value.set.word[0] >> (shape->members - 2) == 3)
        blame("two go on that do not reach one another");
    for (int j = 0; j < shape->members; j++) {
        const struct consent *other = &now->member[j];
        if (now->counted[j] > member->value.turn)
            blame("a turn counted for one member and not for another");
        if (consent_has(&member->value.set, j) && other->finished < member->value.turn)
            blame("a turn counts that a member has not finished");
        if (search->shape->trusts && (now->dead >> j & 1 || now->dead >> member->me & 1))
            continue; /* one that decided alone and died has told nobody */
        if (other->decided && (other->value.turn != member->value.turn || other->value.child != member->value.child ||
                               other->value.set.word[0] != member->value.set.word[0]))
            blame("two members decide differently");
    }
}

/* When no member can do anything: does one ask, and wait for another one that is in no call, and hears it? */
static void look_at_stuck(const struct world *world)
{
    for (int i = 0; i < search->shape->members; i++)
        for (int j = 0; j < search->shape->members && acts(i) && world->member[i].ballot; j++)
            if (acts(j) && !are_cut(i, j) && !world->member[j].at && !world->member[j].decided &&
                consent_awaits(&world->member[i], j))
                blame("members wait for one another in vain");
}

static void look(void)
{
    for (int i = 0; i < search->shape->members; i++)
        if (now->member[i].decided)
            look_at_decided(&now->member[i]);
}

/* ---- Every state ---- */

static uint64_t hash_world(void)
{
    uint8_t bytes[sizeof *now], *at = bytes;
#define PUT(value) (*at++ = (uint8_t)(value))
    for (int i = 0; i < search->shape->members; i++) {
        const struct consent *m = &now->member[i];
        PUT(m->finished), PUT(m->open), PUT(m->promised), PUT(m->accepted), PUT(m->decided), PUT(m->asked);
        PUT(m->value.turn), PUT(m->value.child), PUT(m->value.set.word[0]), PUT(m->ballot), PUT(now->counted[i]);
        PUT(m->at);
        if (m->ballot) {
            PUT(m->proposes), PUT(m->best), PUT(m->answered.word[0]), PUT(m->accepts.word[0]), PUT(m->proposal.turn);
            PUT(m->proposal.child), PUT(m->proposal.set.word[0]), PUT(m->least);
            for (int j = 0; j < search->shape->members; j++)
                PUT(m->turns[j]), PUT(now->cut[i][j].word[0]);
        }
        for (int j = 0; j < search->shape->members; j++) {
            PUT(now->flights[i][j]);
            memcpy(at, now->flight[i][j], sizeof(struct flight) * now->flights[i][j]);
            at += sizeof(struct flight) * now->flights[i][j];
        }
    }
    PUT(now->dead), PUT(now->stopped), PUT(now->deaths), PUT(now->stops), PUT(now->losses), PUT(now->asks),
        PUT(now->children);
    return hash_bytes(1, bytes, (size_t)(at - bytes)) | 1;
}

static bool is_new(uint64_t hash)
{
    uint64_t slot = (hash >> 20) & search->mask;
    for (; search->seen[slot]; slot = (slot + 1) & search->mask)
        if (search->seen[slot] == hash)
            return false;
    search->seen[slot] = hash;
    if (++search->states * 4 > search->mask * 3)
        blame("the model's bound: states");
    return true;
}

static void keep(const struct world *world)
{
    if (search->depth == search->room) {
        search->room = search->room ? 2 * search->room : 1024;
        search->stack = realloc(search->stack, search->room * sizeof *search->stack);
        assert_non_null(search->stack);
    }
    search->stack[search->depth++] = *world;
}

static void begin(const struct shape *shape, struct world *world)
{
    memset(world, 0, sizeof *world);
    for (int i = 0; i < shape->members; i++) {
        consent_begin(&world->member[i], shape->members, i,
                      shape->mutation == HALF ? shape->members / 2 : shape->minimum, shape->unit, NULL, push, NULL);
        for (int j = 0; j < shape->members; j++)
            if (are_cut(i, j))
                consent_add(&world->member[i].lost, j);
        consent_enter(&world->member[i], 1);
    }
}

static void expand(const struct world *from)
{
    static struct world next;
    bool moves = false;
    now = &next;
    for (int i = 0; i < search->shape->members; i++)
        for (int action = 0; action < ACTIONS && !search->wrong; action++) {
            next = *from;
            for (int j = 0; j < search->shape->members; j++)
                next.member[j].context = &next.member[j], next.member[j].cut = next.cut[j];
            if (!act(i, action))
                continue;
            moves |= action < MOVES;
            if (search->shape->mutation == BREAKS_UNITS)
                for (int j = 0; j < search->shape->members; j++)
                    if (next.member[j].proposes && !next.member[j].best && !from->member[j].proposes)
                        next.member[j].proposal.set = next.member[j].answered;
            look();
            if (is_new(hash_world()))
                keep(&next);
        }
    next = *from;
    if (!moves)
        look_at_stuck(from);
}

static void explore(const struct shape *shape, struct search *out)
{
    struct world world;
    *out = (struct search){.shape = shape, .mask = (1ull << (getenv("TUTTI_TEST_FULL") ? 26 : 20)) - 1};
    out->seen = calloc(out->mask + 1, sizeof *out->seen);
    assert_non_null(out->seen);
    search = out;
    begin(shape, &world);
    keep(&world);
    while (out->depth && !out->wrong) {
        world = out->stack[--out->depth];

        expand(&world);
    }
    free(out->stack);
    free(out->seen);
}

#define EACH                                                                                                           \
    {                                                                                                                  \
        0, 1, 2, 3                                                                                                     \
    }
#define PAIRS                                                                                                          \
    {                                                                                                                  \
        0, 0, 1, 1                                                                                                     \
    }
static const struct shape shapes[] = {
    {"two, of whom one may go on alone", 2, 1, EACH, true, 2, 1, 1, 2, 0, RIGHT},
    {"two, and words are lost", 2, 2, EACH, false, 1, 0, 0, 2, 1, RIGHT},
    {"three, and two must agree; one dies", 3, 2, EACH, false, 1, 1, 0, 1, 0, RIGHT},
    {"three, of whom one may go on alone", 3, 1, EACH, true, 1, 1, 1, 1, 0, RIGHT},
    {"four in two units", 4, 1, PAIRS, true, 1, 1, 0, 1, 0, RIGHT},
    {"three in two units, and two ask", 3, 1, PAIRS, true, 1, 1, 0, 2, 0, RIGHT},
    {"three, and two must agree; two do not reach one another", 3, 2, EACH, false, 1, 0, 0, 2, 0, RIGHT, true},
};
static const struct shape long_shapes[] = {
    {"three, and two must agree", 3, 2, EACH, false, 1, 0, 0, 2, 0, RIGHT},
    {"three, and two must agree; one dies, two ask", 3, 2, EACH, false, 1, 1, 0, 2, 0, RIGHT},
    {"three, of whom two die and one stops", 3, 1, EACH, true, 1, 2, 1, 2, 0, RIGHT},
    {"four, and three must agree", 4, 3, EACH, false, 1, 1, 0, 1, 0, RIGHT},
    {"four, and three must agree; two do not reach one another", 4, 3, EACH, false, 1, 0, 0, 1, 0, RIGHT, true},
    {"four in two units, and two ask", 4, 1, PAIRS, true, 1, 0, 0, 2, 0, RIGHT},
    {"four in two units, two of one do not reach one another", 4, 1, PAIRS, false, 1, 1, 0, 1, 0, RIGHT, true},
};
/* Each on a small shape that shows what is wrong. */
static const struct {
    struct shape shape;
    const char *wrong;
} mutants[] = {
    {{"", 2, 1, EACH, true, 1, 0, 0, 1, 0, FINISHES_OPEN}, "a turn counted for one member and not for another"},
    {{"", 2, 1, EACH, true, 1, 0, 0, 1, 0, TAKES_MOST}, "a turn counts that a member has not finished"},
    {{"", 3, 2, EACH, false, 1, 0, 0, 2, 0, FORGETS}, "two members decide differently"},
    {{"", 3, 2, EACH, false, 1, 0, 0, 2, 0, HEARS_OLD}, "two members decide differently"},
    {{"", 3, 2, EACH, false, 1, 0, 0, 2, 0, HASTY}, "two members decide differently"},
    {{"", 2, 2, EACH, false, 1, 0, 0, 2, 0, HALF}, "two members decide differently"},
    {{"", 2, 1, EACH, true, 1, 0, 2, 2, 0, DEAF}, "two members decide differently"},
    {{"", 4, 1, PAIRS, true, 1, 1, 0, 1, 0, BREAKS_UNITS}, "a unit goes on that is not whole"},
    {{"", 3, 2, EACH, false, 1, 0, 0, 1, 0, KEEPS_CUT, true}, "two go on that do not reach one another"},
    {{"", 3, 1, PAIRS, true, 1, 1, 0, 1, 0, ABSENT}, "members wait for one another in vain"},
    {{"", 3, 1, PAIRS, true, 1, 1, 0, 2, 0, SULKS}, "members wait for one another in vain"},
    {{"", 3, 1, PAIRS, true, 1, 0, 0, 1, 0, ONLY_MINE}, "members wait for one another in vain"},
};

static void report(const struct search *result)
{
    print_message("%s: %llu states, in which %llu members have decided: %s\n", result->shape->name,
                  (unsigned long long)result->states, (unsigned long long)result->decided,
                  result->wrong ? result->wrong : "right");
}

static void test_members_agree(void **state)
{
    (void)state;
    struct search result;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        explore(&shapes[i], &result);
        report(&result);
        assert_null(result.wrong);
        assert_true(result.decided > 1000);
    }
    for (size_t i = 0; getenv("TUTTI_TEST_FULL") && i < sizeof long_shapes / sizeof *long_shapes; i++) {
        explore(&long_shapes[i], &result);
        report(&result);
        assert_null(result.wrong);
    }
}

static void test_faults_are_found(void **state)
{
    (void)state;
    struct search result;
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        explore(&mutants[i].shape, &result);
        print_message("fault %d: %s\n", (int)mutants[i].shape.mutation, result.wrong ? result.wrong : "not found");
        assert_non_null(result.wrong);
        assert_string_equal(result.wrong, mutants[i].wrong);
    }
    assert_int_equal(sizeof mutants / sizeof *mutants, MUTATIONS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_agree),
        cmocka_unit_test(test_faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
