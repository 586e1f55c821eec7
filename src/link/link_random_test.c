/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of all sizes both ways while everything that can happen to lanes happens, in an order drawn from a seed:
 * each payload must arrive once, whole, and its memory be left alone from then on. `link_random_test SEED STEPS` runs
 * one seed for longer.
 */
#include "link/link_testing.h"
#include "link/move.h"

#include "base/known.h"
#include "base/param.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAIRS 24
#define MOST  ((size_t)SCRIPT_SEGMENT * 101) /* bytes of a payload */
#define WIDE  12                             /* the seed with as many lanes as there can be */
#define TURNS 200                            /* within which all must end once nothing goes wrong any more */

/* Two ends of a payload, which begin and may be given up at different times. */
struct pair {
    struct payload *end[2]; /* send, receive */
    int side;               /* that sends */
    bool begun[2], given_up;
};

struct world {
    struct script *script;
    struct pair pair[PAIRS];
    uint64_t state;
    uint32_t seq;
    bool bounded; /* little may come early: small payloads are held back now and then, and none is given up, for that
                     leaves some */
    unsigned char *slab; /* known memory, in which half of the payloads lie */
    uint64_t known;
    uint64_t arrived, cancelled, killed, wished;
};

static struct world *world;

static uint32_t draw(uint32_t below)
{
    world->state = mix64(world->state + 0x9e3779b97f4a7c15ull);
    return (uint32_t)(world->state >> 32) % below;
}

static struct link *link_of(const struct pair *pair, int end)
{
    return world->script->side[end ? 1 - pair->side : pair->side].link;
}

/* The source is the caller's again: a lane that still reads it reads rubbish. */
static void spoil(struct payload *payload)
{
    if (payload->length)
        memset(payload->data, 0xdd, payload->length);
}

static size_t draw_length(void)
{
    switch (world->bounded && draw(4) ? 0 : draw(4)) {
    case 0:
        return draw(SCRIPT_EAGER + 2);
    case 1:
        return SCRIPT_SEGMENT * draw(12) + draw(3);
    case 2:
        return SCRIPT_EAGER + draw(3 * SCRIPT_SEGMENT);
    default:
        return SCRIPT_SEGMENT * draw(100) + draw(SCRIPT_SEGMENT);
    }
}

static void make(struct pair *pair)
{
    size_t length = draw_length();
    uint32_t seq = world->seq++;
    *pair = (struct pair){.side = (int)draw(2)};
    for (int end = 0; end < 2; end++) {
        pair->end[end] = payload_new(end == 0, seq, 7, length);
        if (draw(2))
            payload_move(pair->end[end], world->slab + (size_t)(pair - world->pair + PAIRS * end) * MOST);
    }
    pair->end[0]->then = spoil;
}

static void unmake(struct pair *pair)
{
    for (int end = 0; end < 2; end++)
        payload_free(pair->end[end]);
    *pair = (struct pair){0};
}

static void give_up(struct pair *pair)
{
    int first = (int)draw(2);
    for (int i = 0; i < 2; i++) {
        int end = i ? 1 - first : first;
        struct payload *payload = pair->end[end];
        if (pair->begun[end] && !payload->done) {
            payload_cancel(payload, link_of(pair, end));
            assert_int_equal(payload->done, 0);
        }
        spoil(payload);
    }
    world->cancelled++;
    unmake(pair);
}

static void look_at(struct pair *pair)
{
    for (int end = 0; end < 2; end++) {
        assert_true(pair->end[end]->done <= 1);
        assert_int_equal(pair->end[end]->result, TUTTI_SUCCESS);
    }
    if (pair->end[1]->done)
        assert_true(payload_right(pair->end[1]));
    if (pair->end[0]->done && pair->end[1]->done) {
        world->arrived++;
        unmake(pair);
    }
}

static void work_on_a_pair(void)
{
    struct pair *pair = &world->pair[draw(PAIRS)];
    int end = (int)draw(2);
    if (!pair->end[0]) {
        make(pair);
    } else if (!pair->begun[end]) {
        pair->begun[end] = true;
        payload_start(pair->end[end], link_of(pair, end));
    } else if (draw(60) == 0 && !world->bounded) {
        give_up(pair);
    } else {
        look_at(pair);
    }
}

/* Weights out of 64. */
static enum script_action draw_action(void)
{
    static const uint8_t weights[SCRIPT_ACTIONS] = {
        [SCRIPT_CONNECT] = 5, [SCRIPT_UP] = 5,   [SCRIPT_DELIVER] = 26, [SCRIPT_PART] = 4, [SCRIPT_SENT] = 14,
        [SCRIPT_KILL] = 1,    [SCRIPT_DOWN] = 4, [SCRIPT_FULL] = 1,     [SCRIPT_ROOM] = 4};
    uint32_t drawn = draw(64);
    for (int action = 0; action < SCRIPT_ACTIONS; action++) {
        if (drawn < weights[action])
            return (enum script_action)action;
        drawn -= weights[action];
    }
    return SCRIPT_ACTIONS;
}

static int draw_lane(void)
{
    const struct script_shape *shape = &world->script->shape;
    int lane = (int)draw((uint32_t)(shape->lanes + shape->data_lanes + shape->messages));
    if (lane == shape->lanes + shape->data_lanes)
        return LINK_MESSAGE_LANE;
    return lane < shape->lanes ? lane : lane + LINK_DATA_LANE - shape->lanes;
}

/* A lane is to have another source port, which its adapter cannot change. */
static void wish_to_move(void)
{
    struct link_lane *lane = &world->script->side[draw(2)].link->lane[draw_lane()];
    if (lane->state != LANE_UP || !lane->carrier || world->script->shape.caps & TRANSPORT_LOSSLESS)
        return;
    move_wanted(lane->carrier);
    world->wished++;
}

static void shake_lanes(void)
{
    enum script_action action = draw_action();
    bool bad = action == SCRIPT_KILL && (draw(8) || world->script->shape.caps & TRANSPORT_LOSSLESS);
    if (action == SCRIPT_ACTIONS || bad)
        return;
    world->script->newest = draw(2);
    int lane = draw_lane();
    if (script_act(world->script, (int)draw(2), lane, action))
        world->killed += action == SCRIPT_KILL;
}

static void pass_time(void)
{
    static const uint64_t times[] = {150, 150, 2500, 2500, 6000};
    link_tick(world->script->side[draw(2)].domain, clock_deadline_ms(times[draw(5)]));
}

static void step(void)
{
    uint32_t kind = draw(100);
    if (kind < 12)
        work_on_a_pair();
    else if (kind < 14)
        pass_time();
    else if (kind < 15)
        wish_to_move();
    else
        shake_lanes();
    if (draw(500) == 0) {
        world->script->sent_at_once = draw(2);
        world->script->down_inside = draw(2);
        world->script->fail_opens = (int)draw(3);
    }
}

/* From now on all goes well: all payloads must end. */
static void finish_all(void)
{
    struct script *script = world->script;
    script->fail_opens = 0;
    for (int i = 0; i < PAIRS; i++)
        for (int end = 0; end < 2 && world->pair[i].end[0]; end++)
            if (!world->pair[i].begun[end])
                payload_start(world->pair[i].end[end], link_of(&world->pair[i], end));
    for (int turn = 0, left = 1; left; turn++) {
        script_settle(script);
        script_tick(script, 2500);
        left = 0;
        for (int i = 0; i < PAIRS; i++) {
            if (world->pair[i].end[0])
                look_at(&world->pair[i]);
            left += world->pair[i].end[0] != NULL;
        }
        assert_true(turn < TURNS);
    }
    for (int side = 0; side < 2; side++) {
        struct link *link = script->side[side].link;
        assert_int_equal(script->side[side].lost, 0);
        assert_true(!tags_any(&link->match.waiting) && list_empty(&link->puts.queue));
        for (uint32_t id = 0; id < link->puts.reading_size; id++)
            assert_null(link->puts.reading[id]);
        for (uint32_t slot = 0; slot < link->puts.sending_size; slot++)
            assert_null(link->puts.sending[slot]);
        assert_int_equal(link->takes.count, 0);
    }
}

static void run(uint64_t seed, uint64_t steps, uint32_t caps)
{
    struct world fresh = {.state = seed};
    world = &fresh;
    struct script_shape shape = {
        .caps = caps, .lanes = 1 + (int)draw(4), .data_lanes = draw(2) ? (int)draw(4) : 0, .registers = draw(2)};
    shape.messages = shape.data_lanes && draw(2);
    if (seed == WIDE)
        shape.data_lanes = LINK_DATA_LANES;
    fresh.script = script_new(&shape);
    script_join(fresh.script);
    fresh.slab = malloc(2 * PAIRS * MOST);
    fresh.known = known_add(fresh.slab, 2 * PAIRS * MOST);
    assert_true(fresh.slab && fresh.known);
    fresh.bounded = draw(3) == 0;
    for (int side = 0; side < 2 && fresh.bounded; side++)
        fresh.script->side[side].link->early.most = 12000;
    for (uint64_t i = 0; i < steps; i++)
        step();
    finish_all();
    int refused = fresh.script->refused;
    assert_true(fresh.script->registrations <= 4); /* as source and as target at either side */
    known_remove(fresh.known);
    for (int side = 0; side < 2; side++)
        poller_wait(fresh.script->side[side].poller, 0);
    assert_int_equal(fresh.script->registrations, 0);
    free(fresh.slab);
    script_free(fresh.script);
    print_message("seed %llu: %d and %d lanes%s%s, %llu payloads arrived, %llu given up, %llu lanes died, %llu were to "
                  "move, %d puts refused\n",
                  (unsigned long long)seed, shape.lanes, shape.data_lanes, shape.messages ? ", messages" : "",
                  fresh.bounded ? ", bounded" : "", (unsigned long long)fresh.arrived,
                  (unsigned long long)fresh.cancelled, (unsigned long long)fresh.killed,
                  (unsigned long long)fresh.wished, refused);
    assert_true(fresh.arrived > 0);
}

static void test_exactly_once(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++)
        run(seed, 20000, 0);
}

static void test_lossless(void **state)
{
    for (uint64_t seed = 100; seed < 104; seed++)
        run(seed, 20000, TRANSPORT_LOSSLESS);
}

static int test_setup(void **state)
{
    script_setup(NULL);
    setenv("TUTTI_PROBE_AFTER", "1s", 1);
    setenv("TUTTI_PROBE_TIMEOUT", "1s", 1);
    param_reload();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exactly_once), cmocka_unit_test(test_lossless)};
    if (argc == 3) {
        test_setup(NULL);
        run(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), 0);
        return 0;
    }
    return cmocka_run_group_tests(tests, test_setup, NULL);
}
