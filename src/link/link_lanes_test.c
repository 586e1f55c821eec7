/* SPDX-License-Identifier: Apache-2.0 */
/* Links whose lanes are of two transports: messages go over lanes of the one, segments over those of the other. */
#include "link/link_testing.h"

#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxwatch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT SCRIPT_SEGMENT
#define DATA    LINK_DATA_LANE

static struct script *start(void)
{
    return script_start((struct script_shape){.lanes = 2, .data_lanes = 2});
}

static void break_lane(struct script *script, int lane)
{
    assert_true(script_act(script, 0, lane, SCRIPT_KILL));
    assert_true(script_act(script, 0, lane, SCRIPT_DOWN));
    assert_true(script_act(script, 1, lane, SCRIPT_DOWN));
}

static uint32_t puts_on(const struct script *script, int lane)
{
    return script->side[0].link->lane[lane].puts;
}

static void test_segments_go_over_data_lanes(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct payload *pair[2];
    assert_int_equal(link->control, 0);
    assert_ptr_not_equal(link->lane[0].ops, link->lane[DATA].ops);
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    assert_false(script_act(script, 1, DATA, SCRIPT_DELIVER)); /* the credit is a message */
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER));
    assert_int_equal(puts_on(script, 0) + puts_on(script, 1), 0);
    assert_int_equal(puts_on(script, DATA), 2);
    assert_int_equal(puts_on(script, DATA + 1), 2);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* Messages without segments leave times in the black box: of one in 64,. */
static void test_messages_leave_times(void **state)
{
    char folder[] = "/tmp/tutti-times-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("TUTTI_TRACE_DIR", folder, 1);
    param_reload();
    struct trace *trace = trace_open();
    assert_non_null(trace);
    struct script *script = script_new(&(struct script_shape){.lanes = 1});
    script->side[0].domain->trace = trace;
    script_join(script);
    for (uint32_t i = 0; i < 200; i++) {
        struct payload *pair[2];
        payload_pair(script, 0, i, 64, pair);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        payload_pair_free(pair);
    }
    struct blackbox *box;
    assert_int_equal(blackbox_read(trace_path(trace), &box), TUTTI_SUCCESS);
    assert_int_equal(box->lane_count, 1);
    assert_non_null(box->lanes[0].watch);
    assert_true(box->lanes[0].watch->messages >= 3 && box->lanes[0].watch->messages <= 200);
    assert_non_null(watch_mark(box->lanes[0].watch, WATCH_MESSAGE, WIRE_LAST_HOUR, box->now));
    blackbox_free(box);
    script_free(script);
    trace_close(trace, false);
    unsetenv("TUTTI_TRACE_DIR");
    param_reload();
    assert_int_equal(rmdir(folder), 0);
}

/* One data lane dies: the other takes its segments. Both are dead: lanes of messages carry data until one is back. */
static void test_data_lanes_die_and_come_back(void **state)
{
    struct script *script = start();
    struct payload *first[2], *second[2], *third[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, first);
    script_act_all(script, 1, SCRIPT_DELIVER);
    break_lane(script, DATA);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER)); /* DOWN */
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(puts_on(script, 0) + puts_on(script, 1), 0);
    script_act_all(script, 0, SCRIPT_SENT);
    script_settle(script);
    assert_true(payload_pair_right(first));

    break_lane(script, DATA + 1);
    script_settle(script);
    assert_int_equal(script->side[0].lost + script->side[1].lost, 0);
    payload_pair(script, 0, 2, 2 * SEGMENT, second);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(puts_on(script, 0) + puts_on(script, 1), 2);
    script_settle(script);
    assert_true(payload_pair_right(second));

    script_tick(script, 2500);
    script_settle(script);
    payload_pair(script, 0, 3, 2 * SEGMENT, third);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(puts_on(script, DATA) + puts_on(script, DATA + 1), 2);
    script_settle(script);
    assert_true(payload_pair_right(third));
    payload_pair_free(first);
    payload_pair_free(second);
    payload_pair_free(third);
    script_free(script);
}

/* Data lanes keep no link: with no lane for messages it is down, and lost after its patience, though segments could go.
 */
static void test_only_lanes_of_messages_keep_a_link(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    assert_int_equal(link->life.down_since, 0);
    break_lane(script, 0);
    assert_int_equal(link->control, 1);
    break_lane(script, 1);
    assert_int_equal(link->control, -1);
    assert_int_not_equal(link->life.down_since, 0);
    assert_int_equal(link->lane[DATA].state, LANE_UP);
    script_tick(script, 2500);
    for (int refusals = 0; refusals < 8 && !link->lost; refusals++) { /* nobody listens for messages any more */
        script_act(script, 0, 0, SCRIPT_REFUSE);
        script_act(script, 0, 1, SCRIPT_REFUSE);
        script_tick(script, 2500 * (uint64_t)(refusals + 2));
    }
    assert_true(link->lost);
    script_settle(script);
    script_free(script);
}

/* Refused data lanes say nothing about the peer. */
static void test_refused_data_lanes_lose_no_link(void **state)
{
    struct script_shape shape = {.lanes = 1, .data_lanes = 1};
    struct script *script = script_new(&shape);
    struct payload *pair[2];
    script_get_link(script, 0);
    script_get_link(script, 1);
    struct link *link = script->side[0].link;
    for (int i = 0; i < 8; i++) {
        script_act(script, 0, DATA, SCRIPT_REFUSE);
        script_act(script, 1, DATA, SCRIPT_REFUSE);
        script_tick(script, 2500 * (uint64_t)(i + 1));
    }
    assert_false(link->lost);
    assert_int_equal(link->life.refusals, 0);
    script_act_all(script, 0, SCRIPT_CONNECT);
    script_act_all(script, 0, SCRIPT_UP);
    payload_pair(script, 0, 1, 2 * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* A peer that opens a lane of messages where we have one of data, or one of data where none can be, is not let in. */
static void test_lanes_are_of_one_transport_at_both_ends(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    break_lane(script, DATA);
    link->lane[DATA].ops = link->messages; /* as if the two had been set up differently */
    for (int i = 0; i < 4; i++) {
        script_act(script, 1, DATA, SCRIPT_CONNECT);
        script_act(script, 1, DATA, SCRIPT_DOWN);
        script_tick(script, 2500 * (uint64_t)(i + 1));
    }
    assert_int_not_equal(link->lane[DATA].state, LANE_UP);
    assert_int_equal(link->lane[DATA + 1].state, LANE_UP);
    script_free(script);
}

static struct script *start_registering(void)
{
    struct script_shape shape = {.lanes = 1, .data_lanes = 1, .registers = true};
    struct script *script = script_new(&shape);
    script_join(script);
    return script;
}

/* Both ends register; what is put with a key lands without target(), and arrived() comes without an offset. */
static void test_puts_by_key(void **state)
{
    struct script *script = start_registering();
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    assert_int_equal(script->registrations, 1); /* the receiver's */
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->registrations, 2);
    assert_non_null(pair[0]->send.memory);
    assert_int_equal(puts_on(script, DATA), 2); /* its window */
    script_settle(script);
    assert_true(payload_pair_right(pair));
    assert_int_equal(script->registrations, 0);
    payload_pair_free(pair);
    script_free(script);
}

/* What either end cannot register the peer is asked for, as ever. */
static void test_puts_without_keys(void **state)
{
    for (int fails = 1; fails <= 2; fails++) {
        struct script *script = start_registering();
        struct payload *pair[2];
        script->fail_registrations = 1;
        if (fails == 2) { /* the receiver's is the first; let that one be, and the sender's fail */
            script->fail_registrations = 0;
            payload_pair(script, 0, 1, 4 * SEGMENT, pair);
            script->fail_registrations = 1;
        } else {
            payload_pair(script, 0, 1, 4 * SEGMENT, pair);
        }
        script_act_all(script, 1, SCRIPT_DELIVER);
        assert_null(pair[0]->send.memory);
        assert_int_equal(script->registrations, fails - 1);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        assert_int_equal(script->registrations, 0);
        payload_pair_free(pair);
        script_free(script);
    }
}

/* A receive is given up while puts are on their way: their lane is closed before its memory is given back, and other
 * payloads go on. */
static void test_giving_up_a_receive_closes_registering_lanes(void **state)
{
    struct script *script = start_registering();
    struct payload *given_up[2], *other[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, given_up);
    payload_pair(script, 0, 2, 2 * SEGMENT, other);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, DATA, SCRIPT_PART)); /* a half has landed */
    payload_cancel(given_up[1], script->side[1].link);
    assert_null(script->side[1].link->lane[DATA].carrier);
    payload_free(given_up[1]); /* its memory is gone */
    assert_false(script_act(script, 0, DATA, SCRIPT_DELIVER));
    script_tick(script, 10);
    script_settle(script);
    script_tick(script, 2500);
    script_settle(script);
    assert_true(payload_pair_right(other));
    assert_int_equal(script->side[1].link->lane[DATA].state, LANE_UP);
    payload_cancel(given_up[0], script->side[0].link);
    payload_free(given_up[0]);
    assert_int_equal(script->registrations, 0);
    payload_pair_free(other);
    script_free(script);
}

/* Lanes of messages carry registered payloads too, when no other lane is up. */
static void test_registered_payloads_over_other_lanes(void **state)
{
    struct script *script = start_registering();
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, DATA, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, DATA, SCRIPT_PART));
    break_lane(script, DATA);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    assert_int_equal(script->registrations, 0);
    payload_pair_free(pair);
    script_free(script);
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_segments_go_over_data_lanes),
        CASE(test_messages_leave_times),
        CASE(test_data_lanes_die_and_come_back),
        CASE(test_only_lanes_of_messages_keep_a_link),
        CASE(test_refused_data_lanes_lose_no_link),
        CASE(test_puts_by_key),
        CASE(test_puts_without_keys),
        CASE(test_giving_up_a_receive_closes_registering_lanes),
        CASE(test_registered_payloads_over_other_lanes),
        CASE(test_lanes_are_of_one_transport_at_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
