/* SPDX-License-Identifier: Apache-2.0 */
/* What a link does while its lanes live: matching, small and large payloads, windows, order, cancelling, calls that
 * differ. */
#include "link/link_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEGMENT SCRIPT_SEGMENT
#define EAGER   SCRIPT_EAGER

static struct script *start(int lanes)
{
    return script_start((struct script_shape){.lanes = lanes});
}

/* ---- Matching ---- */

static const size_t lengths[] = {0, 1, EAGER, EAGER + 1, SEGMENT, SEGMENT + 1, 5 * SEGMENT, 65 * SEGMENT + 17};
#define LENGTHS (sizeof lengths / sizeof *lengths)

static void test_receive_first(void **state)
{
    struct script *script = start(2);
    for (uint32_t i = 0; i < LENGTHS * 2; i++) {
        struct payload *pair[2];
        payload_pair(script, i % 2, i, lengths[i / 2], pair);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        payload_pair_free(pair);
    }
    script_free(script);
}

static void test_send_first(void **state)
{
    struct script *script = start(2);
    for (uint32_t i = 0; i < LENGTHS; i++) {
        struct payload *send = payload_new(true, i, 7, lengths[i]), *recv = payload_new(false, i, 7, lengths[i]);
        payload_start(send, script->side[0].link);
        assert_int_equal(send->done, lengths[i] <= EAGER);
        script_settle(script);
        payload_start(recv, script->side[1].link);
        script_settle(script);
        assert_true(payload_pair_right((struct payload *[]){send, recv}));
        payload_free(send);
        payload_free(recv);
    }
    script_free(script);
}

/* The credit comes before there is a send. */
static void test_credit_waits_for_the_send(void **state)
{
    struct script *script = start(1);
    struct payload *recv = payload_new(false, 1, 7, 3 * SEGMENT), *send = payload_new(true, 1, 7, 3 * SEGMENT);
    payload_start(recv, script->side[1].link);
    script_settle(script);
    payload_start(send, script->side[0].link);
    script_settle(script);
    assert_true(payload_pair_right((struct payload *[]){send, recv}));
    payload_free(send);
    payload_free(recv);
    script_free(script);
}

static void test_many_at_once_in_any_order(void **state)
{
    enum { N = 60 };
    struct script *script = start(3);
    struct payload *send[N], *recv[N];
    for (uint32_t i = 0; i < N; i++) {
        send[i] = payload_new(true, i, 7, lengths[i % LENGTHS]);
        recv[i] = payload_new(false, i, 7, lengths[i % LENGTHS]);
        payload_start(send[i], script->side[0].link);
    }
    for (uint32_t i = 0; i < N; i++)
        payload_start(recv[i * 7 % N], script->side[1].link);
    script_settle(script);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(payload_pair_right((struct payload *[]){send[i], recv[i]}));
        payload_free(send[i]);
        payload_free(recv[i]);
    }
    script_free(script);
}

/* A send that is over at once leaves nothing behind; one that is not is left to an ordinary send. A receive takes what
 * has come, and what comes while it is expected, also where the calls differ. */
static void test_at_once(void **state)
{
    struct script *script = start(1);
    struct link *from = script->side[0].link, *to = script->side[1].link;
    struct payload *send = payload_new(true, 1, 7, EAGER), *recv = payload_new(false, 1, 7, EAGER);
    tutti_result_t result = TUTTI_SYSTEM_ERROR;
    struct wire_message head = {.tag = send->send.tag, .call = send->send.call};
    assert_false(link_send_now(from, &head, send->data, EAGER + 1, &result)); /* needs a credit */
    for (int turn = 0; turn < 3; turn++) {
        head.call.signature += turn == 2;
        recv->done = 0;
        memset(recv->data, 0, EAGER);
        link_expect(to, &recv->recv);
        assert_int_equal(recv->done, 0);
        if (turn == 0)
            assert_false(link_expected(to)); /* has not come */
        assert_true(link_send_now(from, &head, send->data, EAGER, &result));
        assert_int_equal(result, TUTTI_SUCCESS);
        script_settle(script);
        if (turn == 0)
            link_expect(to, &recv->recv);
        assert_true(link_expected(to));
        assert_int_equal(recv->done, 1);
        assert_int_equal(recv->result, turn == 2 ? TUTTI_INVALID_USAGE : TUTTI_SUCCESS);
        assert_true(turn == 2 || payload_right(recv));
    }
    payload_free(send);
    payload_free(recv);
    script_free(script);
}

static void test_self(void **state)
{
    struct script *script = start(1);
    struct link *self;
    assert_int_equal(link_get(script->side[0].domain, &script->side[0].self, 0, &self), TUTTI_SUCCESS);
    for (uint32_t i = 0; i < 4; i++) {
        struct payload *send = payload_new(true, i, 7, lengths[i]), *recv = payload_new(false, i, 7, lengths[i]);
        payload_start(i % 2 ? send : recv, self);
        assert_false(link_met(script->side[0].domain));
        payload_start(i % 2 ? recv : send, self);
        assert_true(payload_pair_right((struct payload *[]){send, recv}));
        assert_true(link_met(script->side[0].domain));
        payload_free(send);
        payload_free(recv);
    }
    script_free(script);
}

/* ---- Lanes ---- */

static void test_segments_are_spread_within_the_window(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 10 * SEGMENT, pair);
    assert_int_equal(script_act_all(script, 1, SCRIPT_DELIVER), 1); /* the credit */
    struct link *link = script->side[0].link;
    assert_int_equal(link->lane[0].puts, 2);
    assert_int_equal(link->lane[1].puts, 2);
    assert_int_equal(script_act_all(script, 0, SCRIPT_DELIVER), 4);
    script_act_all(script, 1, SCRIPT_DELIVER); /* what has landed, perhaps, but no DONE */
    assert_int_equal(pair[0]->send.in_flight, 4);
    assert_true(script_act(script, 0, 1, SCRIPT_SENT));
    assert_int_equal(link->lane[1].puts, 2); /* the next one went there */
    assert_int_equal(pair[0]->done + pair[1]->done, 0);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    assert_int_equal(link->lane[0].puts + link->lane[1].puts, 0);
    payload_pair_free(pair);
    script_free(script);
}

static void test_segments_overtake_each_other(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT - 5, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, 1, SCRIPT_PART));
    assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_int_equal(pair[1]->done, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_int_equal(pair[1]->done, 1);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* A lane that has no room is asked again when it has: nothing is lost, repeated or reordered. */
static void test_full_lanes(void **state)
{
    struct script *script = start(2);
    struct payload *pair[6][2];
    for (int lane = 0; lane < 2; lane++)
        for (int side = 0; side < 2; side++)
            assert_true(script_act(script, side, lane, SCRIPT_FULL));
    for (uint32_t i = 0; i < 6; i++)
        payload_pair(script, i % 2, i, lengths[i + 1], pair[i]);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(script_act_all(script, side, SCRIPT_DELIVER), 0);
        assert_true(script_act(script, side, 0, SCRIPT_ROOM));
    }
    for (int side = 0; side < 2; side++)
        script_act_all(script, side, SCRIPT_DELIVER);
    script_settle(script);
    for (int i = 0; i < 6; i++) {
        assert_true(payload_pair_right(pair[i]));
        payload_pair_free(pair[i]);
    }
    script_free(script);
}

static void test_lane_full_in_the_middle(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 12 * SEGMENT, pair);
    script_act(script, 0, 1, SCRIPT_FULL);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->side[0].link->lane[1].puts, 0);
    for (int i = 0; i < 3; i++)
        script_act_all(script, 0, SCRIPT_DELIVER);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* put() may say from inside that it has read the source: a long payload must not need a deep stack for that. */
static void test_sources_read_at_once(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    script->sent_at_once = true;
    payload_pair(script, 0, 1, 60000ul * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* ---- DONE before the source is read ---- */

static void deliver_credit_and_segments(struct script *script)
{
    assert_int_equal(script_act_all(script, 1, SCRIPT_DELIVER), 1);
    script_act_all(script, 0, SCRIPT_DELIVER);
}

static void test_done_before_sent(void **state)
{
    struct script *script = start(1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, pair);
    deliver_credit_and_segments(script);
    assert_int_equal(pair[1]->done, 1);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0); /* DONE, and reports about what landed */
    assert_true(pair[0]->send.finished);
    assert_int_equal(pair[0]->done, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_int_equal(pair[0]->done, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* The receiver gives the slot out again while the lane still reads the payload before. */
static void test_slot_again_before_sent(void **state)
{
    struct script *script = start(1);
    struct payload *first[2], *second[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, first);
    deliver_credit_and_segments(script);
    assert_int_equal(first[1]->done, 1);
    payload_pair(script, 0, 2, 2 * SEGMENT - 1, second);
    assert_int_equal(second[1]->recv.slot, first[0]->send.slot);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) >= 2); /* DONE, and the credit of the second */
    assert_true(first[0]->send.finished);
    assert_int_equal(first[0]->done, 0);
    assert_int_equal(second[0]->done, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_true(payload_pair_right(first));
    script_settle(script);
    assert_true(payload_pair_right(second));
    payload_pair_free(first);
    payload_pair_free(second);
    script_free(script);
}

/* ---- Calls that differ ---- */

static void differ(size_t send_length, size_t recv_length, uint32_t signature, bool send_first)
{
    struct script *script = start(2);
    struct payload *send = payload_new(true, 1, 7, send_length), *recv = payload_new(false, 1, signature, recv_length);
    payload_start(send_first ? send : recv, script->side[!send_first].link);
    script_settle(script);
    payload_start(send_first ? recv : send, script->side[send_first].link);
    script_settle(script);
    script_tick(script, 150); /* a send that waits for a credit announces itself */
    script_settle(script);
    assert_int_equal(recv->done, 1);
    assert_int_equal(recv->result, TUTTI_INVALID_USAGE);
    assert_non_null(strstr(recv->text, WIRE_ENDS_DIFFER));
    if (send_length > EAGER && recv_length > EAGER) {
        assert_int_equal(send->done, 1);
        assert_int_equal(send->result, TUTTI_INVALID_USAGE);
        assert_non_null(strstr(send->text, WIRE_ENDS_DIFFER));
    }
    if (!send->done)
        payload_cancel(send, script->side[0].link);
    payload_free(send);
    payload_free(recv);
    script_free(script);
}

static void test_differing_calls(void **state)
{
    static const size_t some[] = {0, 100, 3 * SEGMENT, 4 * SEGMENT};
    for (int i = 0; i < 64; i++) {
        size_t a = some[i & 3], b = some[i >> 2 & 3];
        if (a != b)
            differ(a, b, 7, i >> 4 & 1);
        else
            differ(a, b, 8, i >> 4 & 1);
    }
}

/* Two ranks in different collectives wait for tags that the other never uses. */
static void test_stray_of_another_call(void **state)
{
    struct script *script = start(1);
    struct payload *mine[2] = {payload_new(false, 1, 7, 100), payload_new(false, 1, 7, 3 * SEGMENT)};
    struct payload *theirs = payload_new(true, 1, 8, 50);
    for (int i = 0; i < 2; i++) {
        mine[i]->recv.tag.slice = 0;
        mine[i]->recv.tag.round = (uint32_t)i;
        payload_start(mine[i], script->side[0].link);
    }
    theirs->send.tag.slice = 0;
    theirs->send.tag.round = 5;
    payload_start(theirs, script->side[1].link);
    script_settle(script);
    assert_int_equal(mine[0]->done + mine[1]->done, 0);
    script_tick(script, 200);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mine[i]->done, 1);
        assert_int_equal(mine[i]->result, TUTTI_INVALID_USAGE);
        payload_free(mine[i]);
    }
    payload_free(theirs);
    script_settle(script);
    script_free(script);
}

#define CASE(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_receive_first),
        CASE(test_send_first),
        CASE(test_credit_waits_for_the_send),
        CASE(test_many_at_once_in_any_order),
        CASE(test_at_once),
        CASE(test_self),
        CASE(test_segments_are_spread_within_the_window),
        CASE(test_segments_overtake_each_other),
        CASE(test_full_lanes),
        CASE(test_lane_full_in_the_middle),
        CASE(test_done_before_sent),
        CASE(test_slot_again_before_sent),
        CASE(test_differing_calls),
        CASE(test_stray_of_another_call),
        CASE(test_sources_read_at_once),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
