/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that die: what is named, and what is none of the network's business. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"
#include "wire/distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool nowhere(int from, int to)
{
    return false;
}

static void lose_at(struct made_job *job, int here, int there, uint64_t ago)
{
    struct blackbox *box = job->boxes[here];
    made_event(box, WIRE_EVENT_LANE_DOWN, 0, -1, 0, ago);
    box->events[box->event_count - 1].peer_pid = job->boxes[there]->header.pid;
    box->events[box->event_count - 1].lane = 0;
}

/* Lane 0 between the two went down, as both ends remember. */
static void lose(struct made_job *job, int from, int to, uint64_t ago)
{
    lose_at(job, from, to, ago);
    lose_at(job, to, from, ago);
}

static struct findings find(struct made_job *job)
{
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    made_free(job);
    return found;
}

static void expect(struct made_job job, enum finding_kind kind, int rank, const char *sentence, const char *evidence)
{
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, kind);
    assert_int_equal(found.items[0].culprit.world_rank, rank);
    assert_string_equal(found.items[0].sentence, sentence);
    assert_string_equal(found.items[0].evidence[0], evidence);
    assert_false(findings_may_be_chance(&found)); /* a second look is enough */
    findings_free(&found);
}

static void expect_nothing(struct made_job job)
{
    struct findings found = find(&job);
    if (found.count)
        fail_msg("%s", found.items[0].sentence);
    findings_free(&found);
}

/* Lanes died between node0 and node2, and once between node1 and node3. */
static struct made_job with_hole(void)
{
    struct made_job job = made_cluster(nowhere);
    lose(&job, 1, 5, 9 * NS_PER_S);
    lose(&job, 4, 0, 8 * NS_PER_S);
    lose(&job, 3, 7, 8 * NS_PER_S);
    return job;
}

static void test_path(void **state)
{
    expect(
        with_hole(), FINDING_LINK, 0,
        "the path from rank 0 on node0 to rank 4 on node2 loses what goes into it: lanes between these hosts die; in "
        "the last 30.0 s 6 ends of lanes went down whose processes live",
        "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 8.0 s ago");
}

static void test_interface(void **state)
{
    struct made_job job = made_cluster(nowhere);
    lose(&job, 5, 1, 9 * NS_PER_S);
    lose(&job, 4, 6, 8 * NS_PER_S);
    expect(
        job, FINDING_INTERFACE, 5,
        "interface n0 of host node2: lanes over it die, to each of 2 other hosts; in the last 30.0 s 4 ends of lanes "
        "went down whose processes live",
        "lanes between node0 and node2 went down, as their ends tell: 2 times, the latest 9.0 s ago");
}

/* ---- Ranks that wait for each other ---- */

static void put_down(struct made_job *job, int from, int to)
{
    for (int end = 0; end < 2; end++) {
        struct blackbox *box = job->boxes[end ? to : from], *peer = job->boxes[end ? from : to];
        for (size_t i = 0; i < box->lane_count; i++)
            if (box->lanes[i].peer_pid == peer->header.pid)
                box->lanes[i].state = WIRE_LANE_DOWN;
    }
    lose(job, from, to, 40 * NS_PER_S);
}

/* Rank 4 on node2 waits for a message of rank 0 on node0. So did jobs on emulated hosts, after the only interface of a
 * host was switched off, and behind a firewall. */
static struct made_job with_a_message(uint64_t waits)
{
    struct made_job job = made_cluster(nowhere);
    for (int end = 0; end < 2; end++) {
        struct blackbox_op *op = made_wait(made_comm(job.boxes[4 * end], 20, "pipeline", end, 2), 21, 1 - end, 10);
        op->collective = end ? WIRE_RECV : WIRE_SEND;
        op->root = 1 - end;
        op->begin = op->start = op->wait_since = MADE_NOW - waits;
    }
    return job;
}

static void test_interface_is_off(void **state)
{
    struct made_job job = with_a_message(40 * NS_PER_S);
    put_down(&job, 4, 0);
    put_down(&job, 5, 1);
    put_down(&job, 4, 6);
    expect(
        job, FINDING_CUT, 4,
        "interface n0 of host node2: nothing comes through, to or from 2 other hosts; 6 ends of lanes are down whose "
        "processes live",
        "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 40.0 s ago");
}

/* The message before took half a second. Lanes that are down tell earlier that this one does not come. */
static void test_late_and_down(void **state)
{
    for (uint64_t waits = 5; waits < 8; waits += 2)
        for (int down = 0; down < 2; down++) {
            struct made_job job = with_a_message(waits * NS_PER_S);
            for (size_t i = 0; i < job.boxes[0]->lane_count; i++)
                job.boxes[0]->lanes[i].segments[job.boxes[0]->lanes[i].segment_count - 1].completed += NS_PER_S / 2;
            for (int rank = 0; down && rank < 2; rank++)
                put_down(&job, rank, 4 + rank);
            if (down && waits > 6)
                expect(job, FINDING_CUT, 0,
                       "nothing comes through between rank 0 on node0 and rank 4 on node2; 4 ends "
                       "of lanes are down whose processes live",
                       "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 40.0 s ago");
            else
                expect_nothing(job);
        }
}

/* The sender waits until its data is gone, and names nobody. Its own finding stays where no lane is down. */
static void test_data_does_not_go(void **state)
{
    for (int down = 0; down < 2; down++) {
        struct made_job job = with_a_message(40 * NS_PER_S);
        struct blackbox_comm *pipeline = &job.boxes[0]->comms[job.boxes[0]->comm_count - 1];
        pipeline->ops[0].wait_peer = -1;
        for (int rank = 0; down && rank < 2; rank++)
            put_down(&job, rank, 4 + rank);
        expect(
            job, down ? FINDING_CUT : FINDING_STILL, 0,
            down ? "nothing comes through between rank 0 on node0 and rank 4 on node2; 4 ends of lanes are down whose "
                   "processes live"
                 : "rank 0 of world (process 1000 on node0; rank 0 of pipeline) is waited for by rank 4 of world in "
                   "recv #21 of communicator pipeline, for 40.0 s",
            down ? "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 40.0 s ago"
                 : "rank 4 of world waits for rank 0 of world in round 11 of 6 of recv #21, 40.0 s");
    }
}

static void test_firewall(void **state)
{
    struct made_job job = with_a_message(40 * NS_PER_S);
    put_down(&job, 4, 0);
    put_down(&job, 5, 1);
    expect(
        job, FINDING_CUT, 0,
        "nothing comes through between rank 0 on node0 and rank 4 on node2; 4 ends of lanes are down whose processes "
        "live",
        "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 40.0 s ago");
}

/* Lanes between other hosts are down, or none are: the message is lost, and the ranks are named. Lanes of one process
 * say nothing. */
static void test_message_alone(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct made_job job = with_a_message(40 * NS_PER_S);
        if (how == 1)
            put_down(&job, 3, 7);
        if (how == 1)
            put_down(&job, 2, 6);
        if (how == 2)
            put_down(&job, 4, 0);
        struct findings found = find(&job);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.items->kind, FINDING_UNREAD);
        findings_free(&found);
    }
    expect_nothing(with_a_message(3 * NS_PER_S)); /* lanes die after 2 s of silence, so nothing is known so far */
}

/* Messages that fit into one of the transport leave no segments: the numbers of processes tell where lanes lead. */
static void test_small_messages(void **state)
{
    for (int again = 0; again < 2; again++) {
        struct made_job job = with_a_message(40 * NS_PER_S);
        put_down(&job, 4, 0);
        put_down(&job, 5, 1);
        for (int rank = 0; rank < CLUSTER_RANKS; rank++)
            for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
                job.boxes[rank]->lanes[i].segment_count = 0;
        if (again)
            job.boxes[7]->header.pid =
                job.boxes[0]->header.pid; /* in another namespace, without a lane to rank 5 or 4 */
        expect(job, FINDING_CUT, 0,
               "nothing comes through between rank 0 on node0 and rank 4 on node2; 4 ends of lanes are down whose "
               "processes live",
               "lanes between node0 and node2 went down, as their ends tell: 4 times, the latest 40.0 s ago");
    }
}

/* Lanes of one process are down. It runs, and gets processors: so these are not the reason. */
static void test_one_process_runs(void **state)
{
    for (int starved = 0; starved < 2; starved++) {
        struct made_job job = with_a_message(40 * NS_PER_S), before = made_job(CLUSTER_RANKS);
        put_down(&job, 4, 0);
        for (int rank = 0; rank < CLUSTER_RANKS; rank++) {
            struct process_facts facts = {.state = PROCESS_SLEEPS, .at = MADE_NOW - NS_PER_S, .thread_count = 1};
            before.facts[rank] = facts;
            facts.at = MADE_NOW;
            facts.threads[0].ran = 10 * NS_PER_MS;
            facts.threads[0].delayed = starved * 400 * NS_PER_MS;
            job.facts[rank] = facts;
        }
        const struct snapshot looks = {
            .now = made_look(&job), .before = {job.boxes, before.facts, CLUSTER_RANKS}, .stuck = MADE_STUCK};
        struct findings found = diagnosis_find(&looks);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.items->kind, starved ? FINDING_UNREAD : FINDING_CUT);
        findings_free(&found);
        made_free(&before);
        made_free(&job);
    }
}

/* ---- What is not ---- */

static void test_long_ago(void **state)
{
    struct made_job job = made_cluster(nowhere);
    lose(&job, 1, 5, 31 * NS_PER_S);
    lose(&job, 4, 0, 300 * NS_PER_S);
    expect_nothing(job);
}

static void test_once(void **state)
{
    struct made_job job = made_cluster(nowhere);
    lose_at(&job, 1, 5, NS_PER_S);
    expect_nothing(job);
}

/* The process was stopped for a while: its neighbour lost no lane. */
static void test_one_process(void **state)
{
    struct made_job job = made_cluster(nowhere);
    lose(&job, 5, 1, 9 * NS_PER_S);
    lose(&job, 5, 3, 9 * NS_PER_S);
    lose(&job, 5, 7, 9 * NS_PER_S);
    expect_nothing(job);
}

/* The ranks left: in order, by an abort, or because they died, and the others have gone on since. */
static void test_left(void **state)
{
    for (int how = 0; how < 2; how++) {
        struct made_job job = with_hole();
        for (int rank = 0; rank < CLUSTER_RANKS / 2; rank++)
            if (how)
                job.boxes[rank]->comms[0].state = WIRE_COMM_CLOSED;
            else
                for (size_t i = 0; i < job.boxes[rank]->lane_count; i++) /* of a communicator that no rank has */
                    job.boxes[rank]->lanes[i].segment_count = 0;
        for (int rank = CLUSTER_RANKS / 2; rank < CLUSTER_RANKS; rank++)
            for (size_t i = 0; i < job.boxes[rank]->lane_count && !how; i++)
                job.boxes[rank]->lanes[i].segment_count = 0;
        expect_nothing(job);
    }
}

static void test_within_a_host(void **state)
{
    struct made_job job = made_cluster(nowhere);
    lose(&job, 0, 1, NS_PER_S);
    lose(&job, 2, 3, NS_PER_S);
    expect_nothing(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interface_is_off),
        cmocka_unit_test(test_late_and_down),
        cmocka_unit_test(test_data_does_not_go),
        cmocka_unit_test(test_firewall),
        cmocka_unit_test(test_small_messages),
        cmocka_unit_test(test_one_process_runs),
        cmocka_unit_test(test_message_alone),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_interface),
        cmocka_unit_test(test_long_ago),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_within_a_host),
    };
    return cmocka_run_group_tests_name("lanes that die", tests, NULL, NULL);
}
