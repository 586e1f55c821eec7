/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes whose adapters cannot change the source port of what lives: they are opened anew, and nobody calls it a
 * failure. */
#include "link/link_testing.h"
#include "link/move.h"

#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT  SCRIPT_SEGMENT
#define DATA     LINK_DATA_LANE
#define MESSAGES LINK_MESSAGE_LANE
#define TURNS    20

static struct trace *trace; /* of both sides */
static char folder[] = "/tmp/tutti-move-XXXXXX";

static struct script *start(void)
{
    struct script *script =
        script_new(&(struct script_shape){.lanes = 1, .data_lanes = 2, .registers = true, .messages = true});
    memset(trace->counters, 0, WIRE_BOX_COUNTERS * sizeof *trace->counters);
    script->side[0].domain->trace = script->side[1].domain->trace = trace;
    script_join(script);
    return script;
}

static struct link_lane *lane_of(struct script *script, int side, int index)
{
    return &script->side[side].link->lane[index];
}

static void want(struct script *script, int side, int index)
{
    move_wanted(lane_of(script, side, index)->carrier);
    script_tick(script, 0);
}

static uint64_t counted(enum wire_counter counter)
{
    return trace->counters[counter];
}

/* Of both ends, since the script began. */
static void counts(uint64_t moved, uint64_t down, uint64_t back)
{
    assert_int_equal(counted(WIRE_COUNTER_LANES_MOVED), moved);
    assert_int_equal(counted(WIRE_COUNTER_LANES_DOWN), down);
    assert_int_equal(counted(WIRE_COUNTER_LANES_RECONNECTED), back);
    if (!down)
        assert_int_equal(counted(WIRE_COUNTER_SEGMENTS_REPEATED), 0);
}

/* What the black box says: events of this kind, and lanes that are down. */
static size_t boxed(enum wire_event_kind kind, size_t *down)
{
    struct blackbox *box;
    size_t found = 0;
    *down = 0;
    assert_int_equal(blackbox_read(trace_path(trace), &box), TUTTI_SUCCESS);
    for (size_t i = 0; i < box->event_count; i++)
        found += box->events[i].kind == kind;
    for (size_t i = 0; i < box->lane_count; i++)
        *down += box->lanes[i].state == WIRE_LANE_DOWN;
    blackbox_free(box);
    return found;
}

/* Until both ends of the lane are up, by a later attempt than before. */
static void until_moved(struct script *script, int index, uint32_t before)
{
    for (int turn = 0; turn < TURNS; turn++) {
        script_settle(script);
        script_tick(script, 0);
    }
    for (int side = 0; side < 2; side++) {
        const struct link_lane *lane = lane_of(script, side, index);
        assert_int_equal(lane->state, LANE_UP);
        assert_int_not_equal(lane->epoch, before);
        assert_true(script->side[side].link->usable & lane_bit(index) || index == MESSAGES);
        assert_false(lane->move.leaving || lane->move.closed || lane->move.failed);
    }
}

static void exchange(struct script *script, uint32_t seq)
{
    struct payload *there[2], *back[2];
    payload_pair(script, 0, seq, 8 * SEGMENT, there);
    payload_pair(script, 1, seq + 1, 8 * SEGMENT, back);
    script_settle(script);
    assert_true(payload_pair_right(there) && payload_pair_right(back));
    payload_pair_free(there);
    payload_pair_free(back);
}

/* What may follow, and what must not. */
static const enum wire_event_kind loud[] = {WIRE_EVENT_LANE_MOVED, WIRE_EVENT_LANE_DOWN, WIRE_EVENT_LANE_RECONNECT,
                                            WIRE_EVENT_LANE_BACK, WIRE_EVENT_REPEAT};
#define LOUD (sizeof loud / sizeof *loud)

/* Whichever side wants it, with segments under way both ways: none is put again, and none more on that lane. */
static void test_a_busy_lane_moves(void **state)
{
    for (int side = 0; side < 2; side++) {
        size_t down;
        struct script *script = start();
        struct payload *there[2], *back[2];
        size_t before[LOUD];
        for (size_t i = 0; i < LOUD; i++)
            before[i] = boxed(loud[i], &down);
        uint32_t epoch = lane_of(script, 0, DATA)->epoch;
        payload_pair(script, 0, 1, 8 * SEGMENT, there);
        payload_pair(script, 1, 2, 8 * SEGMENT, back);
        script_act_all(script, 0, SCRIPT_DELIVER);
        script_act_all(script, 1, SCRIPT_DELIVER);
        assert_true(lane_of(script, 0, DATA)->puts && lane_of(script, 1, DATA)->puts);
        want(script, side, DATA);
        assert_false(script->side[side].link->usable & lane_bit(DATA));
        assert_false(lane_of(script, side, DATA)->move.said); /* what is under way has not landed */
        assert_false(lane_of(script, 1 - side, DATA)->move.leaving);
        until_moved(script, DATA, epoch);
        assert_true(payload_pair_right(there) && payload_pair_right(back));
        payload_pair_free(there);
        payload_pair_free(back);
        exchange(script, 3);
        counts(2, 0, 0);
        for (size_t i = 0; i < LOUD; i++)
            assert_int_equal(boxed(loud[i], &down), before[i] + (i ? 0 : 2));
        script_free(script);
    }
}

/* While the lane is closed the black box has it as one that is up. */
static void test_a_lane_that_moves_is_not_down(void **state)
{
    size_t down;
    struct script *script = start();
    uint32_t epoch = lane_of(script, 0, DATA)->epoch;
    want(script, 1, DATA);
    assert_true(lane_of(script, 1, DATA)->move.said);
    assert_true(script_act(script, 1, MESSAGES, SCRIPT_DELIVER));
    script_tick(script, 0); /* the peer closes it, and begins to connect */
    assert_int_not_equal(lane_of(script, 0, DATA)->state, LANE_UP);
    boxed(WIRE_EVENT_LANE_MOVED, &down);
    assert_int_equal(down, 0);
    until_moved(script, DATA, epoch);
    counts(2, 0, 0);
    script_free(script);
}

/* Both ends want it at once; then of two lanes, of which each end wants one; then of that for messages. */
static void test_both_ends_move_at_once(void **state)
{
    struct script *script = start();
    uint32_t epoch[2] = {lane_of(script, 0, DATA)->epoch, lane_of(script, 0, DATA + 1)->epoch};
    move_wanted(lane_of(script, 0, DATA)->carrier);
    want(script, 1, DATA);
    until_moved(script, DATA, epoch[0]);
    counts(2, 0, 0);
    epoch[0] = lane_of(script, 0, DATA)->epoch;
    move_wanted(lane_of(script, 0, DATA)->carrier);
    want(script, 1, DATA + 1);
    until_moved(script, DATA, epoch[0]);
    until_moved(script, DATA + 1, epoch[1]);
    counts(6, 0, 0);
    epoch[0] = lane_of(script, 0, MESSAGES)->epoch;
    want(script, 0, MESSAGES);
    until_moved(script, MESSAGES, epoch[0]);
    assert_int_equal(script->side[0].link->control, MESSAGES);
    exchange(script, 1);
    counts(8, 0, 0);
    script_free(script);
}

/* One lane of a link at a time; and none that nobody could say to be closed. */
static void test_others_go_on(void **state)
{
    struct script *script = start();
    want(script, 0, DATA);
    want(script, 0, DATA + 1);
    assert_true(lane_of(script, 0, DATA)->move.said);
    assert_false(lane_of(script, 0, DATA + 1)->move.leaving);
    script_settle(script);
    script_free(script);
    script = script_start((struct script_shape){.lanes = 1});
    uint32_t epoch = lane_of(script, 0, 0)->epoch;
    want(script, 0, 0);
    script_settle(script);
    script_tick(script, 10);
    exchange(script, 1);
    assert_int_equal(lane_of(script, 0, 0)->epoch, epoch);
    script_free(script);
}

/* A lane that moves does not come up again: the others carry all, and after a while it is a lane that failed. No other
 * follows before it is back. */
static void test_a_lane_that_cannot_come_up(void **state)
{
    size_t down;
    struct script *script = start();
    struct script_side *side = script->side;
    uint32_t epoch = lane_of(script, 0, DATA)->epoch;
    want(script, 0, DATA);
    script->fail_opens = 1000;
    for (int turn = 0; turn < TURNS; turn++) {
        script_settle(script);
        script_tick(script, 2000);
    }
    exchange(script, 1);
    counts(0, 0, 0);
    script_tick(script, 6000);
    counts(0, 2, 0);
    boxed(WIRE_EVENT_LANE_DOWN, &down);
    assert_int_equal(down, 2);
    want(script, 0, DATA + 1);
    assert_false(lane_of(script, 0, DATA + 1)->move.leaving);
    exchange(script, 3);
    script->fail_opens = 0;
    script_tick(script, 60000);
    until_moved(script, DATA, epoch);
    counts(0, 2, 2);
    assert_false(side[0].link->lost || side[1].link->lost);
    script_free(script);
}

/* A lane that breaks before the peer knows has failed. */
static void test_a_lane_that_breaks_first(void **state)
{
    struct script *script = start();
    struct payload *pair[2];
    payload_pair(script, 0, 1, 8 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    want(script, 0, DATA);
    assert_true(script_act(script, 0, DATA, SCRIPT_KILL));
    assert_true(script_act(script, 0, DATA, SCRIPT_DOWN));
    assert_true(script_act(script, 1, DATA, SCRIPT_DOWN));
    script_settle(script);
    script_tick(script, 2500);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    counts(0, 2, 2);
    script_free(script);
}

/* The process at the other end is killed while the lane is closed: the link is lost as ever, and all that waits ends.
 */
static void test_the_peer_dies_meanwhile(void **state)
{
    static const int lanes[] = {0, DATA, DATA + 1, MESSAGES};
    struct script *script = start();
    struct payload *pair[2];
    payload_pair(script, 0, 1, 8 * SEGMENT, pair);
    want(script, 0, DATA);
    script_act_all(script, 0, SCRIPT_DELIVER);
    script_tick(script, 0);
    assert_true(script_act(script, 0, DATA, SCRIPT_DOWN));
    assert_int_equal(lane_of(script, 0, DATA)->trace->record->state, WIRE_LANE_UP);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        if (script_act(script, 0, lanes[i], SCRIPT_KILL))
            script_act(script, 0, lanes[i], SCRIPT_DOWN);
    for (int i = 0; i < TURNS; i++) {
        for (size_t j = 0; j < sizeof lanes / sizeof *lanes; j++)
            script_act(script, 0, lanes[j], SCRIPT_REFUSE);
        script_tick(script, 1200); /* the lane is not late */
    }
    assert_true(script->side[0].link->lost);
    assert_int_equal(pair[0]->done, 1);
    assert_int_equal(pair[0]->result, TUTTI_REMOTE_ERROR);
    assert_int_equal(lane_of(script, 0, DATA)->trace->record->state, WIRE_LANE_DOWN);
    payload_cancel(pair[1], script->side[1].link);
    payload_pair_free(pair);
    script_free(script);
}

/* A receive is given up while its lane moves: its memory is left alone, and the lane comes back. */
static void test_a_receive_is_given_up_meanwhile(void **state)
{
    struct script *script = start();
    struct payload *pair[2];
    uint32_t epoch = lane_of(script, 0, DATA)->epoch;
    payload_pair(script, 0, 1, 8 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    want(script, 1, DATA);
    assert_true(lane_of(script, 1, DATA)->move.said);
    payload_cancel(pair[1], script->side[1].link);
    payload_free(pair[1]);
    script_tick(script, 0);
    payload_cancel(pair[0], script->side[0].link);
    payload_free(pair[0]);
    script_settle(script);
    script_tick(script, 2500);
    until_moved(script, DATA, epoch);
    exchange(script, 2);
    script_free(script);
}

static int begin(void **state)
{
    script_setup(state);
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("TUTTI_TRACE_DIR", folder, 1);
    param_reload();
    trace = trace_open();
    assert_non_null(trace);
    return 0;
}

static int end(void **state)
{
    (void)state;
    trace_close(trace, false);
    unsetenv("TUTTI_TRACE_DIR");
    param_reload();
    return rmdir(folder);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_busy_lane_moves),          CASE(test_a_lane_that_moves_is_not_down),
        CASE(test_both_ends_move_at_once),     CASE(test_others_go_on),
        CASE(test_a_lane_that_cannot_come_up), CASE(test_a_lane_that_breaks_first),
        CASE(test_the_peer_dies_meanwhile),    CASE(test_a_receive_is_given_up_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
