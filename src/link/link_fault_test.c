/* SPDX-License-Identifier: Apache-2.0 */
/* What a link does when lanes die, come back, or never come; when payloads are given up; when a peer is lost or says
 * nonsense. */
#include "link/link_testing.h"

#include "base/param.h"
#include "link/lanes.h"
#include "link/message.h"

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

static void both_learn(struct script *script, int lane)
{
    assert_true(script_act(script, 0, lane, SCRIPT_DOWN));
    assert_true(script_act(script, 1, lane, SCRIPT_DOWN));
}

/* Lets lanes that are down be connected again. */
static void reconnect(struct script *script)
{
    script_settle(script);
    script_tick(script, 2500);
    script_settle(script);
}

/* ---- Failover ---- */

/* Lane 1 dies with one segment arrived, one half landed; the rest goes over lane 0, and what has arrived does not go
 * again. */
static void test_lane_dies_in_the_middle(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 1, SCRIPT_PART));
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    both_learn(script, 1);
    struct link *link = script->side[0].link;
    assert_int_equal(link->lane[0].puts, 2); /* the segment of lane 1 is not put again before the peer has confirmed */
    script_act_all(script, 0, SCRIPT_DELIVER);
    assert_int_equal(pair[1]->recv.arrived, 3);
    assert_int_equal(pair[1]->done, 0);
    script_act_all(script, 0, SCRIPT_SENT);
    assert_int_equal(link->lane[0].puts, 0);
    script_act_all(script, 1, SCRIPT_DELIVER); /* HAVE, DOWN_OK */
    assert_int_equal(link->lane[0].puts, 1);   /* one, not two */
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* What lies in a closed lane of the old epoch is delivered late: the peer's end is closed before the segment goes
 * again. */
static void test_nothing_late_lands(void **state)
{
    struct script *script = start(2);
    struct payload *first[2], *second[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, first);
    script_act_all(script, 1, SCRIPT_DELIVER);
    error_note(TUTTI_SYSTEM_ERROR, "the test ends lane 1");
    lane_down(&script->side[0].link->lane[1], TUTTI_SYSTEM_ERROR); /* as after silence: only one side knows */
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));         /* segment 0 */
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));         /* DOWN */
    assert_false(script_act(script, 0, 1, SCRIPT_DELIVER));
    script_settle(script);
    assert_true(payload_pair_right(first));
    payload_pair(script, 0, 2, 2 * SEGMENT, second); /* the same slot */
    assert_false(script_act(script, 0, 1, SCRIPT_DELIVER));
    script_settle(script);
    assert_true(payload_pair_right(second));
    payload_pair_free(first);
    payload_pair_free(second);
    script_free(script);
}

/* The late segment comes before the peer hears of the lane's end: then it counts, and is not put again. */
static void test_late_segment_that_still_counts(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    error_note(TUTTI_SYSTEM_ERROR, "the test ends lane 1");
    lane_down(&script->side[0].link->lane[1], TUTTI_SYSTEM_ERROR);
    assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_int_equal(pair[1]->done, 1);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* A lane that is up at one end only is closed there: the other must not let it come up later, with what was put on it.
 */
static void test_dead_before_it_was_up(void **state)
{
    struct script_shape shape = {.lanes = 2};
    struct script *script = script_new(&shape);
    struct payload *first[2];
    script_get_link(script, 0);
    assert_true(script_act(script, 0, 0, SCRIPT_CONNECT));
    assert_true(script_act(script, 0, 0, SCRIPT_UP));
    assert_true(script_act(script, 0, 1, SCRIPT_CONNECT)); /* up at side 1 only */
    script_get_link(script, 1);
    payload_pair(script, 1, 1, 2 * SEGMENT, first);
    script_act_all(script, 0, SCRIPT_DELIVER); /* the credit: segments go on both lanes */
    assert_int_equal(script->side[1].link->lane[1].puts, 1);
    error_note(TUTTI_SYSTEM_ERROR, "the test ends lane 1");
    lane_down(&script->side[1].link->lane[1], TUTTI_SYSTEM_ERROR);
    while (script_act(script, 1, 0, SCRIPT_DELIVER) || script_act(script, 0, 0, SCRIPT_DELIVER) ||
           script_act(script, 1, 0, SCRIPT_SENT))
        ;
    assert_true(payload_pair_right(first));
    script_act(script, 0, 1, SCRIPT_UP);
    assert_false(script_act(script, 1, 1, SCRIPT_DELIVER));
    payload_pair_free(first);
    reconnect(script);
    assert_int_equal(script->side[0].link->lane[1].state, LANE_UP);
    script_free(script);
}

/* Which side has the smaller uuid is drawn: 0 or 1. */
static int smaller_side(const struct script *script)
{
    return memcmp(script->side[0].self.uuid, script->side[1].self.uuid, WIRE_UUID_BYTES) < 0 ? 0 : 1;
}

/*
 * Both sides connect at once, and the greater one several times before it hears of the other. Its last attempt comes
 * when the lane of the smaller one is up: it was begun before, so it ends no lane.
 */
static void test_late_attempt_ends_nothing(void **state)
{
    struct script_shape shape = {.lanes = 1};
    struct script *script = script_new(&shape);
    script->newest = true;
    script_get_link(script, 0);
    script_get_link(script, 1);
    int smaller = smaller_side(script), greater = 1 - smaller;
    struct link_lane *mine = &script->side[smaller].link->lane[0], *theirs = &script->side[greater].link->lane[0];
    for (int i = 0; i < 2; i++) {
        assert_true(script_act(script, greater, 0, SCRIPT_CONNECT));
        assert_true(script_act(script, greater, 0, SCRIPT_UP)); /* declined, without a word that it was up */
        assert_int_equal(theirs->state, LANE_DOWN);
        script_tick(script, 3000);
        assert_int_equal(theirs->state, LANE_CONNECTING);
    }
    assert_true(script_act(script, smaller, 0, SCRIPT_CONNECT));
    assert_true(script_act(script, smaller, 0, SCRIPT_UP));
    assert_int_equal(mine->state + theirs->state, 2 * LANE_UP);
    assert_true(script_act(script, greater, 0, SCRIPT_CONNECT)); /* the attempt that was given up since */
    script_settle(script);
    assert_int_equal(mine->state + theirs->state, 2 * LANE_UP);
    assert_int_equal(mine->epoch, theirs->epoch);
    assert_int_equal(mine->life.attempts, 1);
    script_free(script);
}

/* News of an attempt's end closes no other, though both were the first of their side. */
static void test_news_of_one_attempt(void **state)
{
    struct script *script = start(1);
    int smaller = smaller_side(script);
    struct link *link = script->side[smaller].link;
    uint32_t other = wire_epoch(1, true);
    assert_int_equal(link->lane[0].epoch, wire_epoch(1, false));
    lane_down_at_peer(link, 0, other);
    assert_int_equal(link->lane[0].state, LANE_UP);
    lane_down_at_peer(link, 0, link->lane[0].epoch);
    assert_int_equal(link->lane[0].state, LANE_DOWN);
    script_free(script);
}

static void test_lane_comes_back(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    for (uint32_t i = 0; i < 5; i++) {
        int lane = (int)i % 2;
        payload_pair(script, (int)i / 2 % 2, i, 6 * SEGMENT, pair);
        script_act_all(script, 1 - (int)i / 2 % 2, SCRIPT_DELIVER);
        assert_true(script_act(script, 0, lane, SCRIPT_KILL));
        script->fail_opens = (int)i;
        for (int turn = 0; turn < 7; turn++)
            reconnect(script);
        assert_true(payload_pair_right(pair));
        payload_pair_free(pair);
        for (int side = 0; side < 2; side++)
            assert_int_equal(script->side[side].link->lane[lane].state, LANE_UP);
    }
    assert_true(script->side[0].link->lane[0].epoch >= wire_epoch(3, false));
    payload_pair(script, 0, 9, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->side[0].link->lane[0].puts, 2); /* both carry again */
    assert_int_equal(script->side[0].link->lane[1].puts, 2);
    script_settle(script);
    payload_pair_free(pair);
    script_free(script);
}

/* The only lane dies again and again while a payload is under way. */
static void test_the_only_lane_dies(void **state)
{
    struct script *script = start(1);
    struct payload *pair[2];
    payload_pair(script, 1, 1, 8 * SEGMENT, pair);
    for (int i = 0; i < 6; i++) {
        script_act_all(script, 0, SCRIPT_DELIVER);
        script_act(script, 1, 0, SCRIPT_DELIVER);
        script_act(script, 1, 0, SCRIPT_PART);
        assert_true(script_act(script, 0, 0, SCRIPT_KILL));
        both_learn(script, 0);
        script_tick(script, 2500);
        assert_true(script_act(script, 0, 0, SCRIPT_CONNECT));
        assert_true(script_act(script, 0, 0, SCRIPT_UP));
        script_act_all(script, 1, SCRIPT_DELIVER);
    }
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

static void test_both_connect_first(void **state)
{
    struct script_shape shape = {.lanes = 2};
    struct script *script = script_new(&shape);
    struct payload *pair[2];
    script_get_link(script, 0);
    script_get_link(script, 1);
    payload_pair(script, 0, 1, 3 * SEGMENT, pair);
    for (int lane = 0; lane < 2; lane++) {
        script_act(script, 1, lane, SCRIPT_CONNECT);
        script_act(script, 0, lane, SCRIPT_CONNECT);
    }
    reconnect(script);
    assert_true(payload_pair_right(pair));
    for (int lane = 0; lane < 2; lane++) {
        assert_int_equal(script->side[0].link->lane[lane].state, LANE_UP);
        assert_int_equal(script->side[1].link->lane[lane].state, LANE_UP);
    }
    payload_pair_free(pair);
    script_free(script);
}

/* ---- Messages ---- */

/* Of the messages under way some arrive, all acknowledgements are lost: all go again, the peer takes each once, in
 * order. */
static void test_messages_repeated(void **state)
{
    enum { N = 12 };
    struct script *script = start(2);
    struct payload *pair[N][2];
    for (uint32_t i = 0; i < N; i++)
        payload_pair(script, 0, i, 100, pair[i]);
    for (int i = 0; i < 5; i++)
        assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    both_learn(script, 0);
    assert_int_equal(script_act_all(script, 0, SCRIPT_DELIVER), N + 1); /* all, and LANE_DOWN, over lane 1 */
    for (int i = 0; i < N; i++) {
        assert_true(payload_pair_right(pair[i]));
        payload_pair_free(pair[i]);
    }
    assert_false(list_empty(&script->side[0].link->out.kept));
    for (int turn = 0; turn < 2; turn++) {
        script_settle(script);
        script_tick(script, 0);
    }
    script_settle(script);
    assert_true(list_empty(&script->side[0].link->out.kept)); /* all acknowledged */
    script_free(script);
}

/* An acknowledgement that the lane refuses is not taken for sent. */
static void test_acknowledgement_refused(void **state)
{
    struct script *script = start(1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 100, pair);
    assert_true(script_act(script, 1, 0, SCRIPT_FULL));
    script_act_all(script, 0, SCRIPT_DELIVER);
    script_tick(script, 0);
    assert_true(script_act(script, 1, 0, SCRIPT_ROOM));
    script_tick(script, 0);
    assert_int_equal(script_act_all(script, 1, SCRIPT_DELIVER), 1);
    assert_true(list_empty(&script->side[0].link->out.kept));
    payload_pair_free(pair);
    script_free(script);
}

/* A transport may tell of the lane's end from inside msg(): nothing is lost, and nobody sends into a closed lane. */
static void test_down_inside_a_message(void **state)
{
    for (int lanes = 1; lanes < 3; lanes++) {
        struct script *script = start(lanes);
        struct payload *pair[8][2];
        script->down_inside = true;
        for (uint32_t i = 0; i < 4; i++)
            payload_pair(script, 0, i, i % 2 ? 100 : 3 * SEGMENT, pair[i]);
        assert_true(script_act(script, 0, 0, SCRIPT_KILL));
        for (uint32_t i = 4; i < 8; i++)
            payload_pair(script, 0, i, i % 2 ? 100 : 3 * SEGMENT, pair[i]);
        for (int turn = 0; turn < 3; turn++)
            reconnect(script);
        for (int i = 0; i < 8; i++) {
            assert_true(payload_pair_right(pair[i]));
            payload_pair_free(pair[i]);
        }
        script_free(script);
    }
}

/* Messages wait for room; while they go out one by one, the lane ends. */
static void test_down_inside_a_flush(void **state)
{
    struct script *script = start(2);
    struct payload *pair[6][2];
    assert_true(script_act(script, 0, 0, SCRIPT_FULL));
    for (uint32_t i = 0; i < 6; i++)
        payload_pair(script, 0, i, 100, pair[i]);
    script->down_inside = true;
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    message_flush(script->side[0].link);
    assert_int_equal(script->side[0].link->control, 1);
    assert_true(script->side[0].link->out.unsent == &script->side[0].link->out.kept); /* all have gone by lane 1 */
    script_settle(script);
    for (int i = 0; i < 6; i++) {
        assert_true(payload_pair_right(pair[i]));
        payload_pair_free(pair[i]);
    }
    script_free(script);
}

/* Messages wait for room, and the transport says from inside msg() that there is more: each goes once. */
static void test_room_inside_a_flush(void **state)
{
    for (int lossless = 0; lossless < 2; lossless++) {
        struct script_shape shape = {.caps = lossless ? TRANSPORT_LOSSLESS : 0, .lanes = 1};
        struct script *script = script_new(&shape);
        struct payload *pair[6][2];
        script_join(script);
        assert_true(script_act(script, 0, 0, SCRIPT_FULL));
        for (uint32_t i = 0; i < 6; i++)
            payload_pair(script, 0, i, 100, pair[i]);
        script->room_inside = true;
        assert_true(script_act(script, 0, 0, SCRIPT_ROOM));
        assert_int_equal(script_act_all(script, 0, SCRIPT_DELIVER), 6);
        for (int i = 0; i < 6; i++) {
            assert_true(payload_pair_right(pair[i]));
            payload_pair_free(pair[i]);
        }
        script_free(script);
    }
}

/* ---- A lost peer ---- */

static void assert_lost(struct script *script, struct payload *payload)
{
    assert_int_equal(script->side[0].lost, 1);
    assert_true(link_is_lost(script->side[0].link));
    assert_non_null(strstr(script->side[0].lost_text, "1001"));
    assert_int_equal(payload->done, 1);
    assert_int_equal(payload->result, TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(payload->text, "1001"));
}

/* The network is away for some seconds: the link outlasts any number of failures to connect. */
static void test_network_is_away(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 5 * SEGMENT, pair);
    for (int lane = 0; lane < 2; lane++) {
        assert_true(script_act(script, 0, lane, SCRIPT_KILL));
        both_learn(script, lane);
    }
    script->unreachable = true;
    for (int i = 0; i < 5; i++) {
        script_tick(script, 2500);
        assert_int_equal(script_act_all(script, 0, SCRIPT_REFUSE), 2);
        script_act_all(script, 1, SCRIPT_REFUSE);
    }
    assert_int_equal(script->side[0].lost + script->side[1].lost, 0);
    reconnect(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* However long it was away, its return is found within a second. */
static void test_tried_each_second(void **state)
{
    struct script *script = start(1);
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    both_learn(script, 0);
    script->unreachable = true;
    for (int i = 0; i < 10; i++) {
        script_tick(script, 1000);
        assert_int_equal(script_act_all(script, 0, SCRIPT_REFUSE), 1);
        script_act_all(script, 1, SCRIPT_REFUSE);
    }
    script_free(script);
}

static void test_nobody_listens_any_more(void **state)
{
    struct script *script = start(2);
    struct payload *waits[3];
    for (uint32_t i = 0; i < 3; i++) {
        waits[i] = payload_new(i % 2, i, 7, i < 2 ? 5 * SEGMENT : 10);
        payload_start(waits[i], script->side[0].link);
    }
    for (int lane = 0; lane < 2; lane++) {
        assert_true(script_act(script, 0, lane, SCRIPT_KILL));
        assert_true(script_act(script, 0, lane, SCRIPT_DOWN));
    }
    assert_int_equal(script->side[0].lost, 0);
    for (int i = 0; i < 3; i++) {
        script_tick(script, 2500);
        assert_int_equal(script->side[0].lost, 0);
        assert_int_equal(script_act_all(script, 0, SCRIPT_REFUSE), 2);
    }
    for (int i = 0; i < 3; i++) {
        assert_lost(script, waits[i]);
        payload_free(waits[i]);
    }
    struct payload *late = payload_new(true, 9, 7, 10);
    payload_start(late, script->side[0].link);
    assert_lost(script, late);
    payload_free(late);
    script_free(script);
}

static void test_no_lane_within_the_timeout(void **state)
{
    struct script_shape shape = {.lanes = 1};
    struct script *script = script_new(&shape);
    struct payload *send = payload_new(true, 1, 7, 5 * SEGMENT);
    script->fail_opens = 1000;
    script_get_link(script, 0);
    payload_start(send, script->side[0].link);
    script_tick(script, 1000);
    assert_int_equal(script->side[0].lost, 0);
    script_tick(script, 3600 * 1000 + 1000);
    assert_lost(script, send);
    payload_free(send);
    script_free(script);
}

/* On a transport that loses nothing, nothing is kept: then the end of any lane is the end of the peer. */
static void test_lossless_lane_ends(void **state)
{
    for (int lane = 0; lane < 2; lane++) {
        struct script_shape shape = {.caps = TRANSPORT_LOSSLESS, .lanes = 2};
        struct script *script = script_new(&shape);
        struct payload *pair[2], *recv = payload_new(false, 2, 7, 5 * SEGMENT);
        script_join(script);
        payload_pair(script, 0, 1, 5 * SEGMENT, pair);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        payload_pair_free(pair);
        payload_start(recv, script->side[0].link);
        assert_true(script_act(script, 0, lane, SCRIPT_KILL));
        assert_true(script_act(script, 0, lane, SCRIPT_DOWN));
        assert_lost(script, recv);
        payload_free(recv);
        script_free(script);
    }
}

/* The end of the lane, and so of the link, is told from inside msg(): nothing is kept for nobody. */
static void test_lossless_lane_ends_inside_a_message(void **state)
{
    struct script_shape shape = {.caps = TRANSPORT_LOSSLESS, .lanes = 1};
    struct script *script = script_new(&shape);
    struct payload *send = payload_new(true, 1, 7, 10);
    script_join(script);
    script->down_inside = true;
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    payload_start(send, script->side[0].link);
    assert_lost(script, send);
    assert_true(list_empty(&script->side[0].link->out.kept));
    payload_free(send);
    script_free(script);
}

/* The peer says goodbye and ends: what it sent before still counts, what is expected from it fails. */
static void test_peer_leaves(void **state)
{
    struct script *script = start(2);
    struct payload *said = payload_new(true, 1, 7, 10), *heard = payload_new(false, 1, 7, 10),
                   *vain = payload_new(false, 2, 7, 10);
    payload_start(said, script->side[1].link);
    payload_start(vain, script->side[0].link);
    script->automatic = true;
    link_domain_close(script->side[1].domain);
    script->side[1].domain = NULL;
    script_settle(script);
    assert_lost(script, vain);
    assert_non_null(strstr(vain->text, "has left"));
    payload_start(heard, script->side[0].link);
    assert_true(heard->done == 1 && heard->result == TUTTI_SUCCESS && payload_right(heard));
    payload_free(said);
    payload_free(heard);
    payload_free(vain);
    script_free(script);
}

/* Words to a process that others have seen die keep nobody waiting until connecting to it has failed. */
static void test_nobody_waits_for_the_dead(void **state)
{
    struct script *script = start(1);
    struct link *link = script->side[0].link;
    struct link_domain *domain = script->side[0].domain;
    link_abort(link, 7, &(struct wire_abort){.result = TUTTI_REMOTE_ERROR});
    assert_false(link_all_heard(domain));
    link_mourn(domain, link_peer(link)->uuid);
    assert_false(link_all_heard(domain)); /* while its lane is up it may hear */
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    assert_true(script_act(script, 0, 0, SCRIPT_DOWN));
    assert_false(link_is_lost(link));
    assert_true(link_all_heard(domain));
    script_free(script);
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_lane_dies_in_the_middle),
        CASE(test_nothing_late_lands),
        CASE(test_late_segment_that_still_counts),
        CASE(test_dead_before_it_was_up),
        CASE(test_late_attempt_ends_nothing),
        CASE(test_news_of_one_attempt),
        CASE(test_lane_comes_back),
        CASE(test_the_only_lane_dies),
        CASE(test_both_connect_first),
        CASE(test_messages_repeated),
        CASE(test_acknowledgement_refused),
        CASE(test_down_inside_a_message),
        CASE(test_down_inside_a_flush),
        CASE(test_room_inside_a_flush),
        CASE(test_nobody_listens_any_more),
        CASE(test_network_is_away),
        CASE(test_tried_each_second),
        CASE(test_no_lane_within_the_timeout),
        CASE(test_lossless_lane_ends),
        CASE(test_lossless_lane_ends_inside_a_message),
        CASE(test_peer_leaves),
        CASE(test_nobody_waits_for_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
