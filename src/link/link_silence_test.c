/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: when a lane, or a peer, is given up that gives none. */
#include "link/link_testing.h"
#include "link/silence.h"

#include "base/clock.h"
#include "base/param.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct script *start(void)
{
    return script_start((struct script_shape){.lanes = 1});
}

/* A probe that is not answered ends the lane; one that is answered does not. */
static void test_probe(void **state)
{
    struct script *script = start();
    struct payload *recv = payload_new(false, 1, 7, 10);
    payload_start(recv, script->side[0].link);
    script_tick(script, 3601 * 1000);
    assert_true(script->side[0].link->lane[0].signs.probed);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER)); /* the answer */
    assert_false(script->side[0].link->lane[0].signs.probed);
    script_tick(script, 3601 * 1000);
    assert_true(script->side[0].link->lane[0].signs.probed);
    link_tick(script->side[0].domain, clock_deadline_ms(3603 * 1000 + 2000));
    assert_int_equal(script->side[0].link->lane[0].state, LANE_DOWN);
    link_cancel_recv(script->side[0].link, &recv->recv);
    payload_free(recv);
    script_settle(script);
    script_free(script);
}

/* Time for which this process did not look is not held against a lane, nor against a peer without one. A question that
 * was answered before is not asked in vain. */
static void test_not_looking(void **state)
{
    const uint64_t hour = 3600 * NS_PER_S;
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct link_domain *domain = script->side[0].domain;
    struct payload *recv = payload_new(false, 1, 7, 10);
    payload_start(recv, link);
    uint64_t now = clock_ns() + hour + NS_PER_S;
    link_tick(domain, now);
    assert_true(link->lane[0].signs.probed);
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    link_tick(domain, now);
    assert_int_equal(link->lane[0].state, LANE_UP);
    assert_int_equal(link_silence(link, now), 0); /* asks */
    assert_true(script_act_all(script, 0, SCRIPT_DELIVER) > 0);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    link->signs.heard = now;
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    assert_int_equal(link_silence(link, now), 0); /* asks anew */
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    assert_int_equal(link_silence(link, now), NS_PER_MS);
    link_excuse(domain, 2 * hour, now += NS_PER_MS);
    assert_int_equal(link_silence(link, now), 0); /* not before it was asked */
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    assert_true(script_act(script, 0, 0, SCRIPT_DOWN));
    assert_true(script_act(script, 1, 0, SCRIPT_DOWN));
    link_excuse(domain, now - clock_ns(), now);
    link_tick(domain, now);
    assert_int_equal(script->side[0].lost, 0);
    link_tick(domain, now + hour + NS_PER_S);
    assert_int_equal(script->side[0].lost, 1);
    assert_int_equal(recv->result, TUTTI_REMOTE_ERROR);
    payload_free(recv);
    script_settle(script);
    script_free(script);
}

/* ---- One lane of several ---- */

#define SILENCE 500 /* ms: TUTTI_LANE_SILENCE */

/* Two lanes, over each of which side 0 has sent two segments of five; and lane 1 has broken, which nobody knows. */
static struct script *start_breaking(struct script_shape shape, struct payload *pair[2])
{
    setenv("TUTTI_LANE_SILENCE", "500ms", 1);
    param_reload();
    struct script *script = script_start(shape);
    payload_pair(script, 0, 7, 5 * SCRIPT_SEGMENT, pair);
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER)); /* the credit */
    assert_int_equal(script->side[0].link->lane[1].puts, 2);
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    return script;
}

static void end_breaking(struct script *script, struct payload *pair[2])
{
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
    script_setup(NULL);
}

/* Side 0 looks every 20 ms. heard: the other lane is heard meanwhile. */
static void look_for(struct script *script, uint64_t ms, bool heard, uint64_t *now)
{
    for (uint64_t i = 0; i < ms; i += 20) {
        *now += 20 * NS_PER_MS;
        if (heard)
            script->side[0].link->lane[0].signs.heard = *now;
        link_tick(script->side[0].domain, *now);
    }
}

/* The silent lane soon gets nothing more, is given up without a question, and its segments go over the other. */
static void test_one_stands_still(void **state)
{
    struct payload *pair[2];
    struct script *script = start_breaking((struct script_shape){.lanes = 2}, pair);
    struct link *link = script->side[0].link;
    uint64_t now = clock_ns();
    look_for(script, 100, true, &now);
    assert_int_equal(link->usable, 3);
    look_for(script, SILENCE / 2, true, &now);
    assert_int_equal(link->usable, 1);
    assert_int_equal(link->lane[1].state, LANE_UP);
    assert_int_equal(link->lane[1].signs.probed, 0);
    look_for(script, SILENCE / 2, true, &now);
    assert_int_not_equal(link->lane[1].state, LANE_UP);
    assert_int_equal(link->lane[0].state, LANE_UP);
    end_breaking(script, pair);
}

/* A rank that has put all it has, and waits for nothing else from the peer, finds out as well. */
static void test_the_last_segments_are_lost(void **state)
{
    struct payload *pair[2];
    struct script *script = script_start((struct script_shape){.lanes = 2});
    setenv("TUTTI_LANE_SILENCE", "500ms", 1);
    param_reload();
    struct link *link = script->side[0].link;
    payload_pair(script, 0, 7, 4 * SCRIPT_SEGMENT, pair);
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER));
    assert_int_equal(link->lane[1].puts, 2);
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    assert_true(list_empty(&link->puts.queue) && list_empty(&link->out.kept));
    uint64_t now = clock_ns();
    look_for(script, SILENCE + 100, true, &now);
    assert_int_not_equal(link->lane[1].state, LANE_UP);
    end_breaking(script, pair);
}

/* A process that stands still is heard on no lane: no time counts, and none that this process slept through. */
static void test_all_stand_still(void **state)
{
    struct payload *pair[2];
    struct script *script = start_breaking((struct script_shape){.lanes = 2}, pair);
    struct link *link = script->side[0].link;
    uint64_t now = clock_ns();
    look_for(script, 3000 * 1000, false, &now);
    assert_int_equal(link->usable, 3);
    for (int i = 0; i < 2; i++) {
        link->lane[0].signs.heard = now += NS_PER_S;
        link_tick(script->side[0].domain, now);
    }
    assert_int_equal(link->usable, 3);
    end_breaking(script, pair);
}

/* A lane that goes on is trusted again, with what is under way on it. How often it was not is counted. */
static void test_it_goes_on(void **state)
{
    uint64_t counters[WIRE_BOX_COUNTERS] = {0};
    struct trace trace = {.counters = counters};
    struct payload *pair[2];
    struct script *script = script_start((struct script_shape){.lanes = 2});
    setenv("TUTTI_LANE_SILENCE", "500ms", 1);
    param_reload();
    struct link *link = script->side[0].link;
    payload_pair(script, 0, 7, 5 * SCRIPT_SEGMENT, pair);
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER));
    uint64_t now = clock_ns();
    script->side[0].domain->trace = &trace;
    for (int i = 0; i < 2; i++) {
        look_for(script, SILENCE / 2 + 100, true, &now);
        assert_int_equal(link->usable, 1);
        assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
        look_for(script, 20, true, &now);
        assert_int_equal(link->usable, 3);
    }
    assert_int_equal(counters[WIRE_COUNTER_LANES_SUSPECTED], 2);
    script->side[0].domain->trace = NULL;
    end_breaking(script, pair);
}

/* Messages leave the lane that stands still, too, and those that lie there are said again. */
static void test_messages_go_on(void **state)
{
    struct payload *pair[2];
    setenv("TUTTI_LANE_SILENCE", "500ms", 1);
    param_reload();
    struct script *script = script_start((struct script_shape){.lanes = 2});
    struct link *link = script->side[0].link;
    payload_pair(script, 1, 7, 5 * SCRIPT_SEGMENT, pair);
    assert_int_equal(link->control, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_KILL)); /* with the credit */
    for (uint64_t now = clock_ns(), end = now + SILENCE * NS_PER_MS / 2; now < end; now += 20 * NS_PER_MS) {
        link->lane[1].signs.heard = now;
        link_tick(script->side[0].domain, now);
    }
    assert_int_equal(link->control, 1);
    assert_int_equal(link->lane[0].state, LANE_UP);
    assert_true(script_act_all(script, 0, SCRIPT_DELIVER) > 0);
    assert_true(pair[0]->send.credited);
    end_breaking(script, pair);
}

/* An adapter tells nothing of what goes on inside a segment. So a lane has four times the time of its slowest one of
 * late, and any time for its first one. */
static void test_segments_take_their_time(void **state)
{
    struct payload *pair[2];
    struct script_shape shape = {.lanes = 2, .caps = TRANSPORT_REGISTERS, .spread = true};
    struct script *script = start_breaking(shape, pair);
    struct link_lane *lane = &script->side[0].link->lane[1];
    uint64_t now = clock_ns();
    look_for(script, 3000, true, &now);
    assert_int_equal(lane->state, LANE_UP);
    lane->pace.slowest = NS_PER_S;
    look_for(script, 3900, true, &now);
    assert_int_equal(lane->state, LANE_UP);
    look_for(script, 300, true, &now);
    assert_int_not_equal(lane->state, LANE_UP);
    end_breaking(script, pair);
}

/* An idle lane is not given up for a question that nobody answers, for on a slow interface that takes long. But nothing
 * goes there. The lane for messages is given up. */
static void test_idle_lanes_have_time(void **state)
{
    setenv("TUTTI_LANE_SILENCE", "500ms", 1);
    setenv("TUTTI_PROBE_AFTER", "1s", 1);
    param_reload();
    struct script *script = script_start((struct script_shape){.lanes = 2});
    struct link *link = script->side[0].link;
    struct payload *recv = payload_new(false, 1, 7, 10);
    payload_start(recv, link);
    uint64_t now = clock_ns();
    assert_true(silence_question(&link->lane[1]));
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    look_for(script, 5000, true, &now);
    assert_int_equal(link->lane[1].state, LANE_UP);
    assert_int_equal(link->usable, 1);
    link->control = 1;
    look_for(script, 20, true, &now);
    assert_int_not_equal(link->lane[1].state, LANE_UP);
    assert_int_equal(link->control, 0);
    payload_cancel(recv, link);
    payload_free(recv);
    script_settle(script);
    script_free(script);
    script_setup(NULL);
}

/* No answer to a question: where the peer's system has it, and says so, the process stands still, and the lane lives.
 * An adapter tells by itself that its lane has died. */
static void test_no_answer(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct script *script = script_start((struct script_shape){.lanes = 1, .caps = i ? TRANSPORT_JUDGES : 0});
        struct link *link = script->side[0].link;
        struct payload *recv = payload_new(false, 1, 7, 10);
        payload_start(recv, link);
        script_tick(script, 3601 * 1000);
        assert_true(link->lane[0].signs.probed);
        if (!i)
            assert_true(script_act(script, 0, 0, SCRIPT_DELIVER)); /* no more than to the peer's system */
        link->lane[0].signs.probed += !i;
        link_tick(script->side[0].domain, clock_deadline_ms(7200 * 1000));
        assert_int_equal(link->lane[0].state, LANE_UP);
        link_cancel_recv(link, &recv->recv);
        payload_free(recv);
        script_settle(script);
        script_free(script);
    }
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_probe),
                                       CASE(test_not_looking),
                                       CASE(test_one_stands_still),
                                       CASE(test_the_last_segments_are_lost),
                                       CASE(test_all_stand_still),
                                       CASE(test_it_goes_on),
                                       CASE(test_messages_go_on),
                                       CASE(test_segments_take_their_time),
                                       CASE(test_idle_lanes_have_time),
                                       CASE(test_no_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
