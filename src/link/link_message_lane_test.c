/* SPDX-License-Identifier: Apache-2.0 */
/* Links whose messages go beside the data, over a lane of the same transport, while that is up. */
#include "link/link_testing.h"
#include "link/flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEGMENT  SCRIPT_SEGMENT
#define DATA     LINK_DATA_LANE
#define MESSAGES LINK_MESSAGE_LANE

static struct script *start(void)
{
    return script_start((struct script_shape){.lanes = 2, .data_lanes = 2, .registers = true, .messages = true});
}

static void break_lane(struct script *script, int lane)
{
    assert_true(script_act(script, 0, lane, SCRIPT_KILL));
    assert_true(script_act(script, 0, lane, SCRIPT_DOWN));
    assert_true(script_act(script, 1, lane, SCRIPT_DOWN));
}

static void exchange(struct script *script, uint32_t seq)
{
    struct payload *small[2], *large[2];
    payload_pair(script, 0, seq, 100, small);
    payload_pair(script, 1, seq + 1, 3 * SEGMENT, large);
    script_settle(script);
    assert_true(payload_pair_right(small) && payload_pair_right(large));
    payload_pair_free(small);
    payload_pair_free(large);
}

static void test_messages_go_beside_the_data(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct payload *pair[2];
    assert_int_equal(link->control, MESSAGES);
    assert_ptr_equal(link->lane[MESSAGES].ops, link->lane[DATA].ops);
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    for (int lane = 0; lane < MESSAGES; lane++)
        assert_false(script_act(script, 1, lane, SCRIPT_DELIVER));
    assert_true(script_act(script, 1, MESSAGES, SCRIPT_DELIVER)); /* the credit */
    assert_int_equal(link->lane[DATA].puts + link->lane[DATA + 1].puts, 4);
    assert_int_equal(link->lane[MESSAGES].puts, 0);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* What is said of segments that have landed goes over their own lanes, and is not said again. */
static void test_reports_about_a_lane_go_over_it(void **state)
{
    struct script_shape shape = {.lanes = 1, .data_lanes = 2, .messages = true};
    struct script *script = script_new(&shape);
    struct payload *pair[2];
    script_join(script);
    struct link *link = script->side[0].link;
    payload_pair(script, 0, 1, 8 * SEGMENT, pair);
    assert_true(script_act(script, 1, MESSAGES, SCRIPT_DELIVER)); /* the credit */
    for (int lane = DATA; lane < DATA + 2; lane++) {
        assert_int_equal(link->lane[lane].view.segments, 2);
        assert_true(script_act(script, 0, lane, SCRIPT_DELIVER));
    }
    flight_tell(script->side[1].domain, true);
    flight_tell(script->side[1].domain, true);
    assert_false(script_act(script, 1, MESSAGES, SCRIPT_DELIVER));
    assert_false(script_act(script, 1, 0, SCRIPT_DELIVER));
    for (int lane = DATA; lane < DATA + 2; lane++) {
        uint64_t landed = link->lane[lane].flight.first;
        assert_true(script_act(script, 1, lane, SCRIPT_DELIVER));
        assert_int_equal(link->lane[lane].flight.first, landed + 1);
        assert_false(script_act(script, 1, lane, SCRIPT_DELIVER));
    }
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* What went over the first lane, and what follows over the better one, is taken in order and once, whichever is
 * quicker. A data lane carries no messages if the lane for messages never died. */
static void test_a_better_lane_comes_up(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct script_shape shape = {.lanes = 1, .data_lanes = 1, .messages = true};
        struct script *script = script_new(&shape);
        struct payload *pair[6][2];
        script_get_link(script, 0);
        script_get_link(script, 1);
        struct link *link = script->side[0].link;
        for (int lane = 0; lane <= DATA; lane += DATA) {
            script_act(script, 0, lane, SCRIPT_CONNECT);
            script_act(script, 1, lane, SCRIPT_CONNECT);
            script_act(script, 0, lane, SCRIPT_UP);
            script_act(script, 1, lane, SCRIPT_UP);
            assert_int_equal(link->control, 0);
        }
        for (uint32_t i = 0; i < 3; i++)
            payload_pair(script, 0, i, 100, pair[i]);
        script_act(script, 0, 0, SCRIPT_DELIVER); /* one of them is there */
        script_act(script, 0, MESSAGES, SCRIPT_CONNECT);
        script_act(script, 1, MESSAGES, SCRIPT_CONNECT);
        script_act(script, 0, MESSAGES, SCRIPT_UP);
        script_act(script, 1, MESSAGES, SCRIPT_UP);
        assert_int_equal(link->control, MESSAGES);
        for (uint32_t i = 3; i < 6; i++)
            payload_pair(script, 0, i, 100, pair[i]);
        while (script_act(script, 0, late ? 0 : MESSAGES, SCRIPT_DELIVER))
            ;
        script_settle(script);
        for (int i = 0; i < 6; i++) {
            assert_true(payload_pair_right(pair[i]));
            assert_int_equal(pair[i][1]->done, 1);
            payload_pair_free(pair[i]);
        }
        script_free(script);
    }
}

/* The lane for messages dies: one for data carries them; all of these: one of the other transport; and back. */
static void test_what_stands_in(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct payload *pair[2];
    payload_pair(script, 0, 1, 100, pair);
    break_lane(script, MESSAGES); /* with the message */
    assert_int_equal(link->control, DATA);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    exchange(script, 2);
    break_lane(script, DATA);
    assert_int_equal(link->control, DATA + 1);
    exchange(script, 4);
    break_lane(script, DATA + 1);
    assert_int_equal(link->control, 0);
    assert_int_equal(link->life.down_since, 0);
    exchange(script, 6);
    script_tick(script, 2500);
    script_settle(script); /* they are back, and on trial */
    assert_int_equal(link->lane[MESSAGES].state, LANE_UP);
    assert_int_equal(link->control, 0);
    exchange(script, 8);
    script_tick(script, 60000);
    assert_int_equal(link->control, MESSAGES);
    exchange(script, 10);
    script_free(script);
}

/* With one lane for messages the link lives, also where that is none of the transport by which it began. */
static void test_the_other_transport_is_gone(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    break_lane(script, 0);
    break_lane(script, 1);
    assert_int_equal(link->control, MESSAGES);
    assert_int_equal(link->life.down_since, 0);
    exchange(script, 1);
    for (int refusals = 0; refusals < 8; refusals++) {
        script_act(script, 0, 0, SCRIPT_REFUSE);
        script_act(script, 0, 1, SCRIPT_REFUSE);
        script_tick(script, 2500 * (uint64_t)(refusals + 2));
    }
    assert_false(link->lost);
    exchange(script, 3);
    script_settle(script);
    script_free(script);
}

/* Refusals from before the last lane died say nothing of what comes after. */
static void test_old_refusals_lose_no_link(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    break_lane(script, 0);
    break_lane(script, 1);
    for (int i = 0; i < 8; i++) {
        script_act(script, 0, 0, SCRIPT_REFUSE);
        script_act(script, 0, 1, SCRIPT_REFUSE);
        script_tick(script, 2500 * (uint64_t)(i + 2));
    }
    for (int lane = DATA; lane <= MESSAGES; lane += lane == DATA + 1 ? MESSAGES - lane : 1)
        break_lane(script, lane);
    assert_false(link->lost);
    script_tick(script, 60000);
    script_settle(script);
    exchange(script, 1);
    script_free(script);
}

/* A receive is given up: lanes that peers write by are closed, that for messages is not, and carries no key. */
static void test_the_lane_for_messages_takes_no_keys(void **state)
{
    struct script *script = start();
    struct payload *given_up[2], *other[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, given_up);
    script_act_all(script, 1, SCRIPT_DELIVER);
    payload_cancel(given_up[1], script->side[1].link);
    assert_null(script->side[1].link->lane[DATA].carrier);
    assert_int_equal(script->side[1].link->control, MESSAGES);
    assert_non_null(script->side[1].link->lane[MESSAGES].carrier);
    payload_free(given_up[1]);
    payload_pair(script, 0, 2, 4 * SEGMENT, other);
    script_settle(script);
    script_tick(script, 10);
    script_settle(script);
    assert_true(payload_pair_right(other)); /* by the lanes that are left, of which that one may be */
    assert_int_equal(script->refused, 0);
    payload_cancel(given_up[0], script->side[0].link);
    payload_free(given_up[0]);
    payload_pair_free(other);
    script_free(script);
}

static uint32_t ports[2][3]; /* of the interfaces of the first three lanes: for messages, for data */

static int note_interfaces(void *state, const struct path_question *question, struct path_wish *wishes)
{
    for (int i = 0; i < 3; i++)
        ports[!question->messages][i] = question->nic[i].port;
    return path_all_data(state, question, wishes);
}

/* Lane 8 of three interfaces goes by the third. */
static void test_policies_know_by_what_lanes_go(void **state)
{
    struct path_policy policy = script_policy;
    policy.lanes = note_interfaces;
    struct script_shape shape = {.lanes = 1, .data_lanes = 3, .nics = 3, .policy = &policy};
    struct script *script = script_new(&shape);
    script_join(script);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ports[0][i], i + 1);
        assert_int_equal(ports[1][i], (DATA + i) % 3 + 1);
    }
    script_free(script);
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_messages_go_beside_the_data),
        CASE(test_a_better_lane_comes_up),
        CASE(test_reports_about_a_lane_go_over_it),
        CASE(test_policies_know_by_what_lanes_go),
        CASE(test_what_stands_in),
        CASE(test_the_other_transport_is_gone),
        CASE(test_old_refusals_lose_no_link),
        CASE(test_the_lane_for_messages_takes_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
