/* SPDX-License-Identifier: Apache-2.0 */
/* Credits that stand: what goes by them is not asked for, comes where it belongs, and not behind the end. */
#include "link/link_testing.h"

#include "base/known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEGMENTS 3
#define LENGTH   (SEGMENTS * SCRIPT_SEGMENT)
#define DATA     LINK_DATA_LANE

static struct script *script;
static struct payload *gate;
static struct link_grant grant;

static int setup_shape(const struct script_shape *shape)
{
    script_setup(NULL);
    script = script_new(shape);
    script_join(script);
    gate = payload_new(false, 1, 7, LENGTH);
    link_grant_begin(&grant);
    return 0;
}

static int setup_keys(void **state)
{
    return setup_shape(&(struct script_shape){.lanes = 1, .data_lanes = 2, .registers = true});
}

static int setup_plain(void **state)
{
    return setup_shape(&(struct script_shape){.lanes = 2});
}

static int teardown(void **state)
{
    script_tick(script, 2500);
    script_settle(script);
    script_free(script);
    payload_free(gate);
    return 0;
}

/* Side 0 sends by the grant, or asks for it. */
static struct payload *put(uint32_t seq)
{
    struct payload *payload = payload_new(true, seq, 7, LENGTH);
    link_send_granted(script->side[0].link, &payload->send, &grant);
    return payload;
}

/* Side 1 expects what has this tag. */
static void expect(uint32_t seq)
{
    memset(gate->data, 0, LENGTH);
    gate->recv.tag = script_tag(seq);
    gate->seed = seq;
    gate->done = 0;
    link_recv_again(script->side[1].link, &gate->recv);
}

static void must_be_there(struct payload *sent)
{
    struct payload *pair[2] = {sent, gate};
    assert_true(payload_pair_right(pair));
    payload_free(sent);
}

static void first_use(void)
{
    link_recv_standing(script->side[1].link, &gate->recv);
    struct payload *sent = put(1);
    assert_false(grant.stands);
    assert_ptr_equal(grant.send, &sent->send);
    script_settle(script);
    must_be_there(sent);
    assert_true(grant.stands && !grant.send && gate->recv.parked);
}

static uint64_t said(int side)
{
    return script->side[side].link->out.next_sequence;
}

/* The receiver says DONE, and nothing else is said. */
static void test_nothing_is_asked(void **state)
{
    first_use();
    uint64_t before[2] = {said(0), said(1)};
    int registered = script->registrations;
    for (uint32_t seq = 2; seq < 12; seq++) {
        struct payload *sent = put(seq);
        assert_int_equal(sent->send.in_flight, SEGMENTS);
        expect(seq);
        assert_int_equal(gate->done, 0);
        script_settle(script);
        must_be_there(sent);
    }
    assert_int_equal(said(0) - before[0], 0);
    assert_int_equal(said(1) - before[1], 10);
    assert_int_equal(script->registrations, registered); /* the target's is kept */
    link_recv_part(script->side[1].link, &gate->recv);
    link_grant_end(&grant);
    assert_int_equal(script->registrations, 0);
}

/* The word about it comes behind the payload. */
static void test_comes_before_it_is_expected(void **state)
{
    first_use();
    for (uint32_t seq = 2; seq < 5; seq++) {
        gate->done = 0;
        memset(gate->data, 0, LENGTH);
        struct payload *sent = put(seq);
        script_settle(script);
        assert_int_equal(gate->done, 0);
        assert_int_equal(sent->done, 0); /* its slot is not free */
        gate->recv.tag = script_tag(seq);
        gate->seed = seq;
        link_recv_again(script->side[1].link, &gate->recv);
        assert_int_equal(gate->done, 1);
        script_settle(script);
        must_be_there(sent);
    }
    link_recv_part(script->side[1].link, &gate->recv);
}

/* A lane dies under a payload of which some has come, asked for or not. What the peer says it has is of this one, not
 * of the one before. */
static void lane_dies(bool expected, int delivered)
{
    int lane = DATA;
    first_use();
    if (!(script->side[0].link->present & lane_bit(DATA)))
        lane = 1;
    struct payload *sent = put(2);
    if (expected)
        expect(2);
    else
        memset(gate->data, 0, LENGTH);
    for (int i = 0; i < delivered; i++)
        script_act(script, 0, lane, SCRIPT_DELIVER);
    script_act(script, 0, lane, SCRIPT_KILL);
    script_act(script, 0, lane, SCRIPT_DOWN);
    script_settle(script);
    if (!expected) {
        gate->done = 0;
        gate->recv.tag = script_tag(2);
        gate->seed = 2;
        link_recv_again(script->side[1].link, &gate->recv);
    }
    script_settle(script);
    must_be_there(sent);
    struct payload *again = put(3);
    expect(3);
    script_settle(script);
    must_be_there(again);
    link_recv_part(script->side[1].link, &gate->recv);
}

static void test_lane_dies(void **state)
{
    lane_dies(true, 1);
}

static void test_lane_dies_before_it_is_expected(void **state)
{
    lane_dies(false, 1);
}

static void test_lane_dies_with_all(void **state)
{
    lane_dies(false, 0);
}

/* Another receive in the same registered memory is given up: the key ends, and the credit stays without it. */
static void test_key_ends(void **state)
{
    static unsigned char memory[2 * LENGTH];
    uint64_t known = known_add(memory, sizeof memory);
    struct payload *other = payload_new(false, 50, 7, LENGTH);
    payload_move(gate, memory);
    payload_move(other, memory + LENGTH);
    first_use();
    assert_int_not_equal(grant.memory.devices, 0);
    payload_start(other, script->side[1].link);
    assert_ptr_equal(other->recv.memory, gate->recv.memory);
    payload_cancel(other, script->side[1].link);
    script_tick(script, 10);
    script_settle(script);
    assert_int_equal(grant.memory.devices, 0);
    assert_null(gate->recv.memory);
    struct payload *sent = put(2);
    assert_null(sent->send.memory);
    expect(2);
    script_tick(script, 2500);
    script_settle(script);
    must_be_there(sent);
    assert_int_equal(script->refused, 0);
    link_recv_part(script->side[1].link, &gate->recv);
    payload_free(other);
    known_remove(known);
}

/* A parked receive is given up with a payload on its way: not a byte comes. */
static void test_no_late_write(void **state)
{
    first_use();
    struct payload *sent = put(2);
    memset(gate->data, 0x5a, LENGTH);
    payload_cancel(gate, script->side[1].link);
    script_settle(script);
    script_tick(script, 2500);
    script_settle(script);
    for (size_t i = 0; i < LENGTH; i++)
        assert_int_equal(gate->data[i], 0x5a);
    assert_int_equal(sent->done, 0);
    payload_cancel(sent, script->side[0].link);
    assert_false(grant.stands || grant.send); /* nobody knows what the slot has */
    payload_free(sent);
}

/* A sender that forgets a grant in use does not hear of it again. */
static void test_forgotten_in_use(void **state)
{
    first_use();
    struct payload *sent = put(2);
    link_grant_end(&grant);
    assert_null(sent->send.grant);
    expect(2);
    script_settle(script);
    must_be_there(sent);
    assert_false(grant.stands);
    link_recv_part(script->side[1].link, &gate->recv);
}

/* The link ends: both are told. */
static void test_link_is_lost(void **state)
{
    first_use();
    struct payload *sent = put(2);
    gate->done = 0;
    for (int side = 0; side < 2; side++)
        link_lose(script->side[side].link, "the test ends it");
    assert_int_equal(sent->done, 1);
    assert_int_equal(sent->result, TUTTI_REMOTE_ERROR);
    assert_false(grant.stands || grant.send);
    assert_int_equal(gate->done, 1);
    assert_int_equal(gate->result, TUTTI_REMOTE_ERROR);
    assert_false(gate->recv.parked);
    payload_free(sent);
}

/* A receiver whose credits do not stand is asked each time. */
static void test_not_granted(void **state)
{
    for (uint32_t seq = 1; seq < 4; seq++) {
        struct payload *pair[2] = {put(seq), payload_new(false, seq, 7, LENGTH)};
        payload_start(pair[1], script->side[1].link);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        assert_false(grant.stands || grant.send);
        payload_pair_free(pair);
    }
}

#define KEYS(name)  cmocka_unit_test_setup_teardown(name, setup_keys, teardown)
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, setup_plain, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEYS(test_nothing_is_asked),
        PLAIN(test_nothing_is_asked),
        KEYS(test_comes_before_it_is_expected),
        PLAIN(test_comes_before_it_is_expected),
        KEYS(test_lane_dies),
        PLAIN(test_lane_dies),
        KEYS(test_lane_dies_before_it_is_expected),
        PLAIN(test_lane_dies_before_it_is_expected),
        KEYS(test_lane_dies_with_all),
        KEYS(test_key_ends),
        KEYS(test_no_late_write),
        PLAIN(test_no_late_write),
        KEYS(test_forgotten_in_use),
        KEYS(test_link_is_lost),
        KEYS(test_not_granted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
