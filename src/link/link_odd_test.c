/* SPDX-License-Identifier: Apache-2.0 */
/* What is out of the ordinary: payloads given up, peers that talk nonsense or too much, callbacks that call back. */
#include "link/link_testing.h"
#include "link/early.h"

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

/* ---- Giving up ---- */

static void test_cancel_what_waits(void **state)
{
    struct script *script = start(1);
    struct payload *send = payload_new(true, 1, 7, 3 * SEGMENT), *recv = payload_new(false, 2, 7, 10), *pair[2];
    payload_start(send, script->side[0].link);
    payload_start(recv, script->side[0].link);
    payload_cancel(send, script->side[0].link);
    payload_cancel(recv, script->side[0].link);
    assert_int_equal(send->done + recv->done, 0);
    payload_free(send);
    payload_free(recv);
    payload_pair(script, 0, 3, 3 * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* The receive's memory is gone when its segments come; the slot is not given to another receive. */
static void test_cancel_receive_under_way(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2], *next[2];
    payload_pair(script, 0, 1, 6 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    script_act(script, 0, 0, SCRIPT_DELIVER);
    script_act(script, 0, 1, SCRIPT_PART);
    payload_cancel(pair[1], script->side[1].link);
    payload_free(pair[1]);
    payload_pair(script, 0, 2, 6 * SEGMENT, next);
    script_settle(script);
    assert_true(payload_pair_right(next));
    assert_int_equal(pair[0]->done, 0); /* nobody says DONE */
    payload_cancel(pair[0], script->side[0].link);
    payload_free(pair[0]);
    payload_pair_free(next);
    script_free(script);
}

/* Segments are on their way, some of them half: the memory is given back at once, and lanes and other payloads are none
 * the worse. */
static void test_cancel_send_that_is_read(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2], *next[2];
    payload_pair(script, 0, 1, 6 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    script_act(script, 0, 0, SCRIPT_PART);
    assert_true(pair[0]->send.in_flight > 1);
    payload_cancel(pair[0], script->side[0].link);
    assert_int_equal(pair[0]->done, 0);
    payload_free(pair[0]);
    payload_pair(script, 0, 2, 6 * SEGMENT, next);
    script_settle(script);
    assert_true(payload_pair_right(next));
    assert_int_equal(pair[1]->done, 0);
    for (int lane = 0; lane < 2; lane++) {
        assert_int_equal(script->side[0].link->lane[lane].state, LANE_UP);
        assert_int_equal(script->side[0].link->lane[lane].puts, 0);
    }
    payload_cancel(pair[1], script->side[1].link);
    payload_free(pair[1]);
    payload_pair_free(next);
    script_free(script);
}

/* A receive that failed by a mistake of the call leaves its slot unused: segments that still come land nowhere. */
static void test_failed_receive_keeps_its_slot(void **state)
{
    struct script *script = start(1);
    struct payload *pair[2], *next[2], *stray = payload_new(true, 1, 8, 10);
    pair[0] = payload_new(true, 1, 7, 2 * SEGMENT);
    pair[1] = payload_new(false, 1, 7, 2 * SEGMENT);
    pair[0]->send.tag.slice = pair[1]->recv.tag.slice = stray->send.tag.slice = 0;
    stray->send.tag.round = 1;
    payload_start(pair[1], script->side[1].link);
    payload_start(pair[0], script->side[0].link);
    payload_start(stray, script->side[0].link);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER)); /* the stray; the segments are under way */
    script_tick(script, 200);
    assert_int_equal(pair[1]->result, TUTTI_INVALID_USAGE);
    payload_free(pair[1]);
    payload_pair(script, 0, 2, 2 * SEGMENT, next);
    script_settle(script);
    assert_true(payload_pair_right(next));
    assert_int_equal(pair[0]->done, 0);
    payload_cancel(pair[0], script->side[0].link);
    payload_free(pair[0]);
    payload_free(stray);
    payload_pair_free(next);
    script_free(script);
}

/* ---- Callbacks that call back ---- */

struct other {
    struct payload *payload;
    struct link *link;
};

static void cancel_other(struct payload *payload)
{
    struct other *other = payload->user;
    payload_cancel(other->payload, other->link);
}

/* When one receive is found to be of another call, its owner gives up the others at once. */
static void test_cancel_inside_done(void **state)
{
    struct script *script = start(1);
    struct payload *recv[2], *theirs = payload_new(true, 1, 8, 50);
    for (int i = 0; i < 2; i++) {
        recv[i] = payload_new(false, 1, 7, 100);
        recv[i]->recv.tag.slice = 0;
        recv[i]->recv.tag.round = (uint32_t)i * LINK_LISTS; /* in one list */
    }
    theirs->send.tag.slice = 0;
    theirs->send.tag.round = 5;
    struct other other = {recv[1], script->side[0].link};
    recv[0]->then = cancel_other;
    recv[0]->user = &other;
    for (int i = 0; i < 2; i++)
        payload_start(recv[i], script->side[0].link);
    payload_start(theirs, script->side[1].link);
    script_settle(script);
    script_tick(script, 200);
    assert_int_equal(recv[0]->done, 1);
    assert_int_equal(recv[1]->done, 0);
    for (int i = 0; i < 2; i++)
        payload_free(recv[i]);
    payload_free(theirs);
    script_free(script);
}

struct chain {
    struct script *script;
    int left;
    struct payload *last;
};

static void send_next(struct payload *payload)
{
    struct chain *chain = payload->user;
    if (!chain->left--)
        return;
    chain->last = payload_new(payload->sends, payload->seed + 1, 7, payload->length);
    chain->last->then = send_next;
    chain->last->user = chain;
    payload_start(chain->last, chain->script->side[!payload->sends].link);
    payload_free(payload);
}

/* Each payload is begun from inside done() of the one before, at both ends. */
static void test_next_from_inside_done(void **state)
{
    static const size_t lengths[] = {10, 5 * SEGMENT};
    for (int i = 0; i < 4; i++) {
        struct script *script = start(2);
        struct chain send = {script, 40, payload_new(true, 1, 7, lengths[i % 2])};
        struct chain recv = {script, 40, payload_new(false, 1, 7, lengths[i % 2])};
        script->sent_at_once = i / 2;
        send.last->then = recv.last->then = send_next;
        send.last->user = &send;
        recv.last->user = &recv;
        payload_start(recv.last, script->side[1].link);
        payload_start(send.last, script->side[0].link);
        script_settle(script);
        assert_true(payload_pair_right((struct payload *[]){send.last, recv.last}));
        assert_int_equal(send.last->seed, 41);
        payload_free(send.last);
        payload_free(recv.last);
        script_free(script);
    }
}

/* The link is lost while payloads of all kinds wait, and each done() asks for more. */
static void test_next_from_inside_a_loss(void **state)
{
    struct script *script = start(2);
    struct chain chain[6];
    for (int i = 0; i < 6; i++) {
        chain[i] = (struct chain){script, 3, payload_new(i % 2, 100 * (uint32_t)i, 7, i < 4 ? 5 * SEGMENT : 10)};
        chain[i].last->then = send_next;
        chain[i].last->user = &chain[i];
        payload_start(chain[i].last, script->side[!chain[i].last->sends].link);
    }
    for (int side = 0; side < 2; side++)
        link_lose(script->side[side].link, "the test says so");
    for (int i = 0; i < 6; i++) {
        assert_int_equal(chain[i].last->done, 1);
        assert_int_equal(chain[i].last->result, i == 5 ? TUTTI_SUCCESS : TUTTI_REMOTE_ERROR);
        payload_free(chain[i].last);
    }
    script_free(script);
}

/* ---- Peers that talk nonsense ---- */

struct spoken {
    struct wire_sequence sequence;
    struct wire_message head;
    unsigned char body[600];
};

static struct script *start_alone(uint32_t caps)
{
    struct script_shape shape = {.caps = caps, .lanes = 1, .alone = true};
    struct script *script = script_new(&shape);
    assert_true(script_dial(script, 0, 0));
    script_get_link(script, 0);
    assert_int_equal(script->side[0].link->lane[0].state, LANE_UP);
    return script;
}

static void say(struct script *script, struct wire_message head, const void *body, size_t length)
{
    struct spoken spoken = {.sequence.sequence = script->side[0].link->out.received + 1, .head = head};
    if (length)
        memcpy(spoken.body, body, length);
    script_say(script, 0, &spoken, offsetof(struct spoken, body) + length);
}

static void test_unknown_slots(void **state)
{
    struct script *script = start_alone(0);
    struct payload *send = payload_new(true, 1, 7, 3 * SEGMENT), *recv = payload_new(false, 2, 7, 3 * SEGMENT);
    unsigned char bits[64] = {0xff, 0xff};
    payload_start(send, script->side[0].link);
    payload_start(recv, script->side[0].link);
    static const uint16_t slots[] = {0, 1, 15, 16, 17, 16383, 16384, 65535};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        say(script, (struct wire_message){.kind = WIRE_DONE, .slot = slots[i]}, NULL, 0);
        say(script, (struct wire_message){.kind = WIRE_HAVE, .slot = slots[i]}, bits, sizeof bits);
        say(script, (struct wire_message){.kind = WIRE_DOWN, .slot = slots[i] + 1}, NULL, 0);
        say(script, (struct wire_message){.kind = WIRE_DOWN_OK, .slot = slots[i]}, NULL, 0);
        script_throw(script, 0, (uint32_t)(slots[i] + 1) << 16, 0, SEGMENT, true);
    }
    assert_int_equal(send->done + recv->done, 0);
    assert_int_equal(recv->recv.arrived, 0);
    payload_cancel(recv, script->side[0].link);
    payload_cancel(send, script->side[0].link);
    payload_free(send);
    payload_free(recv);
    script_free(script);
}

/* Wrong offsets, lengths and segments of a slot that is in use. */
static void test_segments_that_do_not_fit(void **state)
{
    struct script *script = start_alone(0);
    struct payload *recv = payload_new(false, 1, 7, 3 * SEGMENT - 1);
    payload_start(recv, script->side[0].link);
    uint32_t slot = (uint32_t)recv->recv.slot << 16;
    assert_true(script_throw(script, 0, slot, 1, SEGMENT, true));
    assert_true(script_throw(script, 0, slot, 0, SEGMENT + 1, true));
    assert_true(script_throw(script, 0, slot, 0, SEGMENT - 1, true));
    assert_true(script_throw(script, 0, slot | 1, 0, SEGMENT, true));
    assert_true(script_throw(script, 0, slot | 2, 2 * SEGMENT, SEGMENT, true));
    assert_true(script_throw(script, 0, slot | 3, 3 * SEGMENT, SEGMENT, true));
    assert_true(script_throw(script, 0, slot | 0xffff, UINT64_MAX - SEGMENT, SEGMENT, true));
    assert_int_equal(recv->recv.arrived, 0);
    assert_true(script_throw(script, 0, slot | 2, 2 * SEGMENT, SEGMENT - 1, true));
    assert_true(script_throw(script, 0, slot | 2, 2 * SEGMENT, SEGMENT - 1, true)); /* a second time: not counted */
    assert_true(script_throw(script, 0, slot | 1, SEGMENT, SEGMENT, true));
    assert_int_equal(recv->recv.arrived, 2);
    assert_true(script_throw(script, 0, slot, 0, SEGMENT, true));
    assert_int_equal(recv->done, 1);
    payload_free(recv);
    script_free(script);
}

static void bad_credit(uint16_t slot, uint64_t segment, bool taken)
{
    struct script *script = start_alone(0);
    struct payload *send = payload_new(true, 1, 7, 3 * SEGMENT);
    struct wire_credit credit = {.length = 3 * SEGMENT, .segment = segment};
    payload_start(send, script->side[0].link);
    say(script, (struct wire_message){.tag = script_tag(1), .kind = WIRE_CREDIT, .slot = slot, .call.signature = 7},
        &credit, sizeof credit);
    assert_int_equal(send->done, taken ? 0 : 1);
    if (!taken)
        assert_int_equal(send->result, TUTTI_SYSTEM_ERROR);
    script_act_all(script, 0, SCRIPT_SENT);
    payload_cancel(send, script->side[0].link);
    payload_free(send);
    script_free(script);
}

static void test_bad_credits(void **state)
{
    bad_credit(0, SEGMENT, true);
    bad_credit(16383, 3 * SEGMENT, true);
    bad_credit(16384, SEGMENT, false);
    bad_credit(65535, SEGMENT, false);
    bad_credit(0, 0, false);
    bad_credit(0, 1, true);
    bad_credit(0, UINT64_MAX, false);
    bad_credit(0, UINT64_MAX - SEGMENT, false);
}

/* Two credits for one slot: the second payload fails, the first does not suffer. */
static void test_slot_credited_twice(void **state)
{
    struct script *script = start_alone(0);
    struct payload *send[2];
    struct wire_credit credit = {.length = 3 * SEGMENT, .segment = SEGMENT};
    for (uint32_t i = 0; i < 2; i++) {
        send[i] = payload_new(true, i, 7, 3 * SEGMENT);
        payload_start(send[i], script->side[0].link);
        say(script, (struct wire_message){.tag = script_tag(i), .kind = WIRE_CREDIT, .slot = 5, .call.signature = 7},
            &credit, sizeof credit);
    }
    assert_int_equal(send[0]->done, 0);
    assert_int_equal(send[1]->done, 1);
    assert_int_equal(send[1]->result, TUTTI_SYSTEM_ERROR);
    script_act_all(script, 0, SCRIPT_SENT);
    say(script, (struct wire_message){.kind = WIRE_DONE, .slot = 5}, NULL, 0);
    assert_int_equal(send[0]->result, TUTTI_SUCCESS);
    assert_int_equal(send[0]->done, 1);
    payload_free(send[0]);
    payload_free(send[1]);
    script_free(script);
}

static void test_short_messages(void **state)
{
    for (int lossless = 0; lossless < 2; lossless++) {
        struct script *script = start_alone(lossless ? TRANSPORT_LOSSLESS : 0);
        unsigned char bytes[80] = {0};
        for (size_t length = 1; length < sizeof bytes; length++)
            for (int kind = 0; kind < 20; kind++) {
                struct wire_sequence sequence = {script->side[0].link->out.received + 1, UINT64_MAX};
                struct wire_message head = {.kind = (uint8_t)kind, .slot = 3};
                size_t skip = lossless ? 0 : sizeof sequence;
                memcpy(bytes, &sequence, skip);
                memcpy(bytes + skip, &head, sizeof head);
                assert_true(script_say(script, 0, bytes, length) || script->side[0].link->lane[0].state != LANE_UP);
            }
        script_free(script);
    }
}

static void scribble(struct payload *payload)
{
    struct script *script = payload->user;
    memset(script->current, 0xff, script->current_length);
}

/* The bytes of a message may change while it is handled: what was checked is what is used. */
static void test_message_that_changes(void **state)
{
    struct script *script = start_alone(TRANSPORT_LOSSLESS);
    struct payload *recv = payload_new(false, 1, 7, 4);
    struct {
        struct wire_message head;
        unsigned char body[4];
    } bytes = {{.tag = script_tag(1), .kind = WIRE_EAGER, .call.signature = 7}, {0}};
    payload_start(recv, script->side[0].link);
    recv->then = scribble;
    recv->user = script;
    assert_true(script_say(script, 0, &bytes, sizeof bytes.head + sizeof bytes.body));
    assert_int_equal(recv->result, TUTTI_SUCCESS);
    assert_int_equal(script->side[0].lost, 0);
    payload_free(recv);
    script_free(script);
}

/* ---- Payloads that nobody asks for ---- */

static void bound_early(struct script *script, size_t most)
{
    for (int side = 0; side < 2; side++)
        if (script->side[side].link)
            script->side[side].link->early.most = most;
}

#define AHEAD 100

/* A sender that is far ahead is held back, and goes on when its payloads are asked for, in whatever order. */
static void test_far_ahead(void **state)
{
    for (int round = 0; round < 3; round++) {
        struct script *script = start(2);
        struct payload *send[AHEAD], *recv[AHEAD];
        int done = 0;
        bound_early(script, 20000);
        for (uint32_t i = 0; i < AHEAD; i++) {
            send[i] = payload_new(true, i, 7, EAGER);
            recv[i] = payload_new(false, i, 7, EAGER);
            payload_start(send[i], script->side[0].link);
            if (round < 2) /* else nothing arrives: too much waits to be acknowledged */
                script_settle(script);
            done += send[i]->done;
        }
        assert_true(round < 2 ? done > 8 && done < 14 : done > 3 && done < 8);
        script_settle(script);
        assert_true(script->side[1].link->early.holding == (round < 2));
        for (uint32_t i = 0; i < AHEAD; i++)
            payload_start(recv[round == 1 ? AHEAD - 1 - i : i], script->side[1].link);
        script_settle(script);
        for (uint32_t i = 0; i < AHEAD; i++) {
            assert_true(payload_pair_right((struct payload *[]){send[i], recv[i]}));
            payload_free(send[i]);
            payload_free(recv[i]);
        }
        assert_false(script->side[1].link->early.holding);
        assert_int_equal(script->side[1].link->early.bytes, 0);
        script_tick(script, 0);
        script_settle(script);
        assert_false(early_is_held(script->side[0].link));
        script_free(script);
    }
}

/* Calls that differ are found also when a small payload is held back; an empty one is never held back. */
static void test_held_back_in_another_call(void **state)
{
    for (int send_first = 0; send_first < 2; send_first++) {
        struct script *script = start(1);
        struct payload *send = payload_new(true, 1, 7, 100), *recv = payload_new(false, 1, 7, 101),
                       *empty = payload_new(true, 2, 7, 0);
        script->side[0].link->early.held = true;
        payload_start(empty, script->side[0].link);
        assert_int_equal(empty->done, 1);
        payload_start(send_first ? send : recv, script->side[!send_first].link);
        script_settle(script);
        payload_start(send_first ? recv : send, script->side[send_first].link);
        script_settle(script);
        assert_int_equal(recv->result, TUTTI_INVALID_USAGE);
        assert_non_null(strstr(recv->text, "of 100 there"));
        payload_cancel(send, script->side[0].link);
        payload_free(send);
        payload_free(recv);
        payload_free(empty);
        script_free(script);
    }
}

/* A peer that does not hold back is given up before it fills the memory. */
static void test_too_much_too_early(void **state)
{
    struct script *script = start_alone(0);
    unsigned char body[500] = {0};
    int said = 0;
    bound_early(script, 20000);
    for (; said < 100 && !script->side[0].lost; said++)
        say(script, (struct wire_message){.tag = script_tag((uint32_t)said), .kind = WIRE_EAGER}, body, sizeof body);
    assert_true(said > 30 && said < 40);
    assert_non_null(strstr(script->side[0].lost_text, "TUTTI_EARLY"));
    assert_non_null(strstr(script->side[0].lost_text, "1001"));
    script_free(script);
}

/* Credits count too; those of a communicator that ends are dropped. */
static void test_early_credits(void **state)
{
    struct script *script = start_alone(0);
    struct wire_credit credit = {.length = 3 * SEGMENT, .segment = SEGMENT};
    bound_early(script, 20000);
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < 100; i++)
            say(script, (struct wire_message){.tag = script_tag(i), .kind = WIRE_CREDIT, .slot = (uint16_t)i}, &credit,
                sizeof credit);
        assert_int_equal(script->side[0].lost, 0);
        assert_true(script->side[0].link->early.bytes > 100 * sizeof credit);
        link_forget_comm(script->side[0].domain, 1);
        assert_int_equal(script->side[0].link->early.bytes, 0);
    }
    for (uint32_t i = 0; i < 400; i++)
        say(script, (struct wire_message){.tag = script_tag(i), .kind = WIRE_CREDIT, .slot = (uint16_t)i}, &credit,
            sizeof credit);
    assert_int_equal(script->side[0].lost, 1);
    script_free(script);
}

static void test_abort_is_told(void **state)
{
    struct script *script = start(2);
    struct wire_abort abort = {.culprit = 3, .result = TUTTI_REMOTE_ERROR};
    memset(abort.text, 'x', sizeof abort.text);
    assert_true(script_act(script, 0, 0, SCRIPT_KILL)); /* it is repeated like every message */
    link_abort(script->side[0].link, 1, &abort);
    script_settle(script);
    assert_int_equal(script->side[1].aborted, 1);
    assert_int_equal(script->side[1].abort.culprit, 3);
    assert_int_equal(strlen(script->side[1].abort.text), sizeof abort.text - 1);
    script_free(script);
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_cancel_what_waits),
        CASE(test_cancel_receive_under_way),
        CASE(test_cancel_send_that_is_read),
        CASE(test_failed_receive_keeps_its_slot),
        CASE(test_cancel_inside_done),
        CASE(test_next_from_inside_done),
        CASE(test_next_from_inside_a_loss),
        CASE(test_unknown_slots),
        CASE(test_segments_that_do_not_fit),
        CASE(test_bad_credits),
        CASE(test_slot_credited_twice),
        CASE(test_short_messages),
        CASE(test_message_that_changes),
        CASE(test_far_ahead),
        CASE(test_held_back_in_another_call),
        CASE(test_too_much_too_early),
        CASE(test_early_credits),
        CASE(test_abort_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
