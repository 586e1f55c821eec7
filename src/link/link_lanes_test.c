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

/* ---- As many lanes as there can be ---- */

static struct script *start_wide(const struct path_policy *policy)
{
    return script_start((struct script_shape){
        .lanes = 1, .data_lanes = LINK_DATA_LANES + 9, .messages = true, .nics = 8, .spread = true, .policy = policy});
}

/* All carry segments; some die with theirs under way, of every interface one, and come back. */
static void test_wide_links(void **state)
{
    struct script *script = start_wide(NULL);
    struct link *link = script->side[0].link;
    struct payload *pair[2];
    assert_int_equal(link_lanes(link), LINK_MAX_LANES - LINK_DATA_LANE + 1);
    payload_pair(script, 0, 1, 4 * LINK_DATA_LANES * SEGMENT - 5, pair);
    assert_true(script_act(script, 1, LINK_MESSAGE_LANE, SCRIPT_DELIVER)); /* the credit */
    for (int lane = 0; lane < LINK_DATA_LANES; lane++) {
        assert_int_equal(puts_on(script, DATA + lane), 2);
        assert_int_equal(link->lane[DATA + lane].view.nic->about.port, lane % 8 + 1);
    }
    for (int lane = DATA; lane < LINK_MESSAGE_LANE; lane += 9) {
        assert_true(script_act(script, 0, lane, lane % 2 ? SCRIPT_DELIVER : SCRIPT_PART));
        break_lane(script, lane);
        assert_false(link->usable & lane_bit((unsigned)lane));
    }
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_tick(script, 2500);
    script_settle(script);
    for (int lane = DATA; lane < LINK_MESSAGE_LANE; lane++)
        assert_int_equal(link->lane[lane].state, LANE_UP);
    payload_pair(script, 1, 2, 4 * LINK_DATA_LANES * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    uint64_t now = clock_ns(), looked = 0;
    link_tick(script->side[0].domain, now);
    looked = link->life.look_at;
    assert_true(looked > now); /* not each time, */
    link_tick(script->side[0].domain, now + 1);
    assert_int_equal(link->life.look_at, looked);
    break_lane(script, DATA);
    assert_int_equal(link->life.look_at, 0); /* but at once where something has changed */
    script_settle(script);
    script_free(script);
}

/* What a lane's transport finds out while it is up: another round trip, another source port. Of few lanes and many. */
static void test_lanes_are_looked_at_anew(void **state)
{
    struct script_shape few = {.lanes = 1, .data_lanes = 2, .messages = true};
    for (int wide = 0; wide < 2; wide++) {
        struct script *script = wide ? start_wide(NULL) : script_start(few);
        struct link_lane *lane = &script->side[0].link->lane[DATA + 1];
        lane->carrier->trip = 5 + lane->view.trip;
        script_tick(script, 10);
        assert_int_equal(lane->view.trip, lane->carrier->trip);
        lane->carrier->source = (uint16_t)(lane->source + 7);
        script_tick(script, 20);
        assert_int_equal(lane->source, lane->carrier->source);
        script_settle(script);
        script_free(script);
    }
}

/* Each lane once, then the first one alone. */
static int pick_wide(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                     size_t length, uint64_t now)
{
    static int turn;
    return turn < count ? turn++ : 0;
}

/* What landed last on a lane stays among the reports, however much lands elsewhere before they are said. */
static void test_reports_of_wide_links(void **state)
{
    struct path_policy policy = script_policy;
    policy.pick = pick_wide;
    struct script *script = start_wide(&policy);
    struct link *link = script->side[0].link;
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * LINK_DATA_LANES * SEGMENT, pair);
    assert_true(script_act(script, 1, LINK_MESSAGE_LANE, SCRIPT_DELIVER));
    for (int lane = DATA + 1; lane < LINK_MESSAGE_LANE; lane++)
        assert_true(script_act(script, 0, lane, SCRIPT_DELIVER));
    for (int i = 0; i < LINK_LANDED; i++) {
        assert_true(script_act(script, 0, DATA, SCRIPT_DELIVER));
        assert_true(script_act(script, 0, DATA, SCRIPT_SENT));
    }
    struct link *peer = script->side[1].link;
    uint64_t first = peer->reports.next - LINK_LANDED, lanes = 0;
    for (uint64_t i = first; i < peer->reports.next; i++)
        lanes |= 1ull << (peer->reports.landed[i % LINK_LANDED].lane - DATA);
    assert_int_equal(lanes, UINT64_MAX);
    assert_int_equal(link->lane[LINK_MESSAGE_LANE - 1].view.segments, 1);
    script_settle(script);
    assert_int_equal(link->load.segments, 0);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* A hello with an index that no link has; and the last one that it has. */
static void test_lanes_beyond_the_last(void **state)
{
    static const int indexes[] = {LINK_MAX_LANES, LINK_MAX_LANES + 1, 127, 128, 0x7fff, UINT16_MAX};
    struct script *script = script_new(&(struct script_shape){.lanes = 1, .data_lanes = 1, .alone = true});
    assert_true(script_dial(script, 0, 0));
    script_get_link(script, 0);
    struct link *link = script->side[0].link;
    lane_set before = link->present;
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        script_dial(script, indexes[i], 0);
        assert_true(link->present == before);
    }
    assert_true(script_dial(script, LINK_MESSAGE_LANE - 1, 0));
    assert_int_equal(link->lane[LINK_MESSAGE_LANE - 1].state, LANE_UP);
    assert_true(link->present == (before | lane_bit(LINK_MESSAGE_LANE - 1)));
    script_free(script);
}

/* Where the sender's interfaces do not divide eight, a bit of a message still means lanes by one interface. */
static void test_folded_lanes(void **state)
{
    for (unsigned ports = 0; ports <= WIRE_DEVICES; ports++) {
        struct wire_process process = {.pid = 1};
        int of[16];
        for (unsigned i = 0; i < ports; i++)
            process.verbs[i].family = 4;
        memset(of, -1, sizeof of);
        for (unsigned lane = LINK_DATA_LANE; lane < LINK_MESSAGE_LANE; lane++) {
            unsigned bit = wire_fold(&process, lane);
            assert_in_range(bit, LINK_DATA_LANE, 15);
            assert_true(!ports || of[bit] < 0 || of[bit] == (int)(lane % ports));
            of[bit] = ports ? (int)(lane % ports) : 0;
        }
        for (unsigned lane = 0; lane < LINK_DATA_LANE; lane++)
            assert_int_equal(wire_fold(&process, lane), lane);
    }
}

/* Three ports at one side, five at the other. */
static tutti_result_t have_ports(struct wire_process *self)
{
    static unsigned sides;
    for (unsigned i = 0, ports = sides++ % 2 ? 3 : 5; i < ports; i++)
        self->verbs[i].family = 4;
    return TUTTI_SUCCESS;
}

/* Each end folds by the ports of the one that says the bits. */
static void test_folded_lanes_of_unlike_ends(void **state)
{
    struct path_policy policy = script_policy;
    policy.open = have_ports;
    struct script *script = start_wide(&policy);
    struct link *link[2] = {script->side[0].link, script->side[1].link};
    unsigned unlike = 0;
    for (unsigned lane = LINK_DATA_LANE; lane < LINK_MESSAGE_LANE; lane++) {
        for (int side = 0; side < 2; side++)
            assert_int_equal(link[side]->lane[lane].bit, link[!side]->lane[lane].peer_bit);
        unlike += link[0]->lane[lane].bit != link[1]->lane[lane].bit;
    }
    assert_true(unlike > 0);
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
        CASE(test_wide_links),
        CASE(test_lanes_are_looked_at_anew),
        CASE(test_reports_of_wide_links),
        CASE(test_lanes_beyond_the_last),
        CASE(test_folded_lanes),
        CASE(test_folded_lanes_of_unlike_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
