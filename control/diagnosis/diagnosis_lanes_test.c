/* SPDX-License-Identifier: Apache-2.0 */
/* Slow interfaces and paths, by the segments of lanes: what is named, and what is none of the network's business. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"
#include "wire/distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS CLUSTER_HOSTS
#define EACH  CLUSTER_EACH
#define RANKS CLUSTER_RANKS
#define QUICK CLUSTER_QUICK
#define LATE  CLUSTER_LATE

static int host_of(int rank)
{
    return rank / EACH;
}

static bool nowhere(int from, int to)
{
    return false;
}

static bool at_host_1(int from, int to)
{
    return host_of(from) == 1 || host_of(to) == 1;
}

static bool out_of_host_2(int from, int to)
{
    return host_of(from) == 2;
}

static bool of_two_hosts(int from, int to)
{
    return at_host_1(from, to) || host_of(from) == 3 || host_of(to) == 3;
}

static bool on_two_paths(int from, int to)
{
    return (from == 3 && to == 7) || (from == 4 && to == 2);
}

static bool of_rank_5(int from, int to)
{
    return from == 5 || to == 5;
}

/* ---- What is found ---- */

static struct findings find(struct made_job *job)
{
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    made_free(job);
    return found;
}

static void expect(struct findings *found, size_t at, enum finding_kind kind, const char *host, const char *words)
{
    assert_true(found->count > at);
    const struct finding *one = &found->items[at];
    if (one->kind != kind || strcmp(one->culprit.host, host) != 0 || !strstr(one->sentence, words))
        fail_msg("%s of %s: %s", finding_row(one->kind)->name, one->culprit.host, one->sentence);
}

static void expect_nothing(struct made_job job)
{
    struct findings found = find(&job);
    if (found.count)
        fail_msg("%s", found.items[0].sentence);
    findings_free(&found);
}

static void test_interface(void **state)
{
    struct made_job job = made_cluster(at_host_1);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_INTERFACE, "node1",
           "interface n0 of host node1: what goes out of and comes into it is slow: 160000 bytes take up to 60.0 ms, "
           "on quick lanes elsewhere 6000.0 us");
    assert_int_equal(found.items[0].culprit.world_rank, 2);
    assert_string_equal(found.items[0].evidence[0], "6 of 6 lanes out of it and 6 of 6 lanes into it are slow");
    assert_string_equal(found.items[0].evidence[1], "of 12 lanes between other interfaces 0 are slow");
    findings_free(&found);
}

/* Rank 3 borrows the interface of rank 2: its lanes there are left out, and the verdict says so. */
static void test_interface_is_borrowed(void **state)
{
    struct made_job job = made_cluster(at_host_1);
    for (size_t i = 0; i < job.boxes[3]->lane_count; i++) {
        job.boxes[3]->lanes[i].borrowed = 2500000;
        job.boxes[3]->lanes[i].owner = job.boxes[2]->header.pid;
    }
    char said[128];
    snprintf(said, sizeof said,
             "not judged: 1 process borrows the interface; process %u most, %.1f MB, of late from process %u",
             job.boxes[3]->header.pid, 2.5 * (double)job.boxes[3]->lane_count, job.boxes[2]->header.pid);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_INTERFACE, "node1", "interface n0 of host node1");
    assert_int_equal(found.items[0].culprit.world_rank, 2);
    assert_string_equal(found.items[0].evidence[0], "3 of 3 lanes out of it and 6 of 6 lanes into it are slow");
    assert_string_equal(found.items[0].evidence[3], said);
    findings_free(&found);
}

static void test_one_way(void **state)
{
    struct made_job job = made_cluster(out_of_host_2);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_INTERFACE, "node2", "what goes out of it is slow");
    findings_free(&found);
}

/* Rank 2's lanes to other hosts were slow at one time, of late or long ago. */
static struct made_job with_hiccup(uint64_t ago)
{
    struct made_job job = made_cluster(nowhere);
    struct blackbox *box = job.boxes[2];
    for (size_t i = 0; i < box->lane_count; i++) {
        struct wire_box_watch *watch = calloc(1, sizeof *watch);
        uint64_t begin = box->now - ago - 300 * NS_PER_MS + i;
        *watch = (struct wire_box_watch){.windows = 500, .slows = 1};
        watch->slow[0] =
            (struct wire_box_slow){begin, begin + 300 * NS_PER_MS, 290 * NS_PER_MS, 2900000, 100000000, 3, 0};
        box->lanes[i].watch = watch;
    }
    return job;
}

/* What was slow for a third of a second is a note two minutes later, and no fault. */
static void test_hiccup(void **state)
{
    struct made_job job = with_hiccup(120 * NS_PER_S);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    assert_int_equal(findings_faults(&found), 0);
    expect(&found, 0, FINDING_HICCUP, "node1", "interface n0 of host node1: what goes out of it was slow for 300.0 ms");
    assert_non_null(strstr(found.items[0].sentence, "120.0 s ago"));
    assert_non_null(strstr(found.items[0].evidence[0], "10.0 MB/s in 3 windows, usual 100.0 MB/s, network"));
    findings_free(&found);
    job = with_hiccup(120 * NS_PER_S);
    for (size_t i = 0; i < job.boxes[2]->lane_count; i++)
        job.boxes[2]->lanes[i].watch->slow[0].end = job.boxes[2]->now + 1; /* a time that cannot be */
    expect_nothing(job);
    job = with_hiccup(120 * NS_PER_S); /* of most lanes of the interface not: it is not to blame */
    for (size_t i = 1; i < job.boxes[2]->lane_count; i++)
        job.boxes[2]->lanes[i].watch->slow[0].windows = 0;
    expect_nothing(job);
}

/* Twice as many lanes of rank 3 say nothing about the interface: they borrow it, or have carried nothing. */
static void test_hiccup_beside_borrowers(void **state)
{
    for (int borrows = 0; borrows < 2; borrows++) {
        struct made_job job = with_hiccup(120 * NS_PER_S);
        for (size_t i = 0; i < 2 * job.boxes[2]->lane_count; i++) {
            struct blackbox_lane *lane = made_lane(job.boxes[3], job.boxes[0], 0);
            lane->watch = calloc(1, sizeof *lane->watch);
            lane->watch->windows = borrows ? 500 : 0;
            lane->borrowed = borrows ? 1000 : 0;
        }
        struct findings found = find(&job);
        assert_int_equal(found.count, 1);
        expect(&found, 0, FINDING_HICCUP, "node1", "interface n0 of host node1");
        findings_free(&found);
    }
}

static void test_path(void **state)
{
    struct made_job job = made_cluster(on_two_paths);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_LINK, "node1",
           "the path from rank 3 on node1 to rank 7 on node3 is slow: 160000 bytes take 60.0 ms");
    assert_int_equal(found.items[0].culprit.peer, 7);
    findings_free(&found);
}

/* Where all processes wait for processors, segments do, too, and no path is slow. */
static void test_path_of_crowded_hosts(void **state)
{
    for (int crowded = 0; crowded < 2; crowded++) {
        struct made_job now = made_cluster(on_two_paths), before = made_before(&now);
        for (int rank = 0; rank < RANKS; rank++)
            now.facts[rank].threads[0].delayed = (crowded ? 600 : 100) * NS_PER_MS;
        const struct snapshot snapshot = {.before = made_look(&before), .now = made_look(&now), .stuck = MADE_STUCK};
        struct findings found = diagnosis_find(&snapshot);
        assert_int_equal(found.count, !crowded);
        findings_free(&found);
        free(before.facts);
        made_free(&now);
    }
}

/* Lanes between node0 and node2, and between node1 and node3, as of two leaves. Other lanes carry other lengths. */
static struct made_job job_of_leaves(bool (*slow)(int from, int to))
{
    struct made_job job = made_cluster(nowhere);
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++) {
            struct blackbox_lane *lane = &job.boxes[rank]->lanes[i];
            int to = (int)lane->segments->peer;
            bool across = host_of(rank) % 2 == host_of(to) % 2;
            if (lane->distance == WIRE_DISTANCE_HOST)
                continue;
            free(lane->segments);
            made_segments(lane, to, across ? 160000 : 320000, NS_PER_S, across && slow(rank, to) ? LATE : QUICK);
        }
    return job;
}

static bool but_ranks_0_and_4(int from, int to)
{
    return from + to != 4;
}

static bool everywhere(int from, int to)
{
    return true;
}

static bool but_into_host_0(int from, int to)
{
    return host_of(to) != 0;
}

/* Three of four connections have drawn the slow one of two uplinks, so slow is usual. */
static void test_most_drew_the_slow_uplink(void **state)
{
    struct made_job job = job_of_leaves(but_ranks_0_and_4);
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_LINK, "node0",
           "the path from rank 1 on node0 to rank 5 on node2 is slow: 160000 bytes take 60.0 ms, "
           "on quick lanes elsewhere 6000.0 us");
    assert_string_equal(found.items[0].evidence[0],
                        "2 of 24 lanes are slow, and no interface has most of its own among them");
    findings_free(&found);
}

/* The lanes of a host are slow, and lead to one host only: which of the two is slow cannot be told. */
static void test_between_two_hosts(void **state)
{
    struct made_job job = made_cluster(nowhere);
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++) {
            struct blackbox_lane *lane = &job.boxes[rank]->lanes[i];
            int to = (int)lane->segments->peer, low = host_of(rank) < 2;
            if (lane->distance == WIRE_DISTANCE_HOST)
                continue;
            if ((host_of(to) < 2) != low)
                lane->segment_count = 0;
            free(lane->segments);
            lane->segments = NULL;
            if ((host_of(to) < 2) == low)
                made_segments(lane, to, 160000, NS_PER_S, low ? LATE : QUICK);
        }
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    expect(&found, 0, FINDING_LINK, "node0", "the path from rank 0 on node0 to rank 2 on node1 is slow");
    findings_free(&found);
}

/* Adds `more` lanes between each two processes of different hosts, all of them quick. */
static void add_quick_lanes(struct made_job *job, int more)
{
    for (int from = 0; from < RANKS; from++)
        for (int to = 0; to < RANKS; to++)
            for (int i = 0; i < more && host_of(from) != host_of(to) && from % EACH == to % EACH; i++)
                made_segments(made_lane(job->boxes[from], job->boxes[to], 0), to, 160000, NS_PER_S, QUICK);
}

static void slow_down(struct blackbox_lane *lane, uint64_t took)
{
    int to = (int)lane->segments->peer;
    free(lane->segments);
    made_segments(lane, to, 160000, NS_PER_S, took);
}

/* Six lanes each way between two interfaces, and 18 of each interface. One slow lane has bad luck, two are a path. They
 * must take more than their share of the interface. */
static void test_one_of_many_lanes(void **state)
{
    for (int slow = 0; slow < 3; slow++)
        for (int share = 0; share < 2; share++) {
            struct made_job job = made_cluster(nowhere);
            add_quick_lanes(&job, 2);
            size_t left = (size_t)slow;
            for (size_t i = 0; i < job.boxes[3]->lane_count && left; i++)
                if (job.boxes[3]->lanes[i].segments->peer == 7) {
                    slow_down(&job.boxes[3]->lanes[i], (share ? 17 : 20) * QUICK);
                    left--;
                }
            struct findings found = find(&job);
            assert_int_equal(found.count, slow == 2 && !share);
            findings_free(&found);
        }
}

/* Most flows of an interface have drawn the slow uplink. One flow each way is quick now, so the interface is not
 * slow. */
static void test_most_lanes_of_an_interface(void **state)
{
    for (int now = 0; now < 2; now++) {
        struct made_job job = made_cluster(at_host_1);
        for (int rank = 0; rank < 3; rank += 2)
            for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
                if (job.boxes[rank]->lanes[i].segments->peer == 2u - (unsigned)rank)
                    slow_down(&job.boxes[rank]->lanes[i], QUICK);
        for (int rank = 0; rank < RANKS; rank++)
            job.boxes[rank]->now -= now ? 18 * NS_PER_S : 0;
        struct findings found = find(&job);
        assert_int_equal(found.count, 1);
        if (now)
            expect(&found, 0, FINDING_LINK, "node1", "the path from rank 2 on node1 to rank 4 on node2 is slow");
        else
            expect(&found, 0, FINDING_INTERFACE, "node1", "what goes out of and comes into it is slow");
        findings_free(&found);
    }
}

/* ---- What is not ---- */

static void test_healthy(void **state)
{
    expect_nothing(made_cluster(nowhere));
}

/* Lanes that borrow an interface have what its owner leaves: they say nothing about it. */
static void test_borrowers_are_slow(void **state)
{
    struct made_job job = made_cluster(at_host_1);
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
            job.boxes[rank]->lanes[i].borrowed = at_host_1(rank, (int)job.boxes[rank]->lanes[i].segments->peer);
    expect_nothing(job);
}

/* An agent may not tell the distance: lanes within a host are quick, and say nothing about the others. */
static void test_unknown_distances(void **state)
{
    struct made_job job = made_cluster(nowhere);
    for (int rank = 0; rank < RANKS; rank++)
        for (int more = 0; more < 2; more++)
            made_segments(made_lane(job.boxes[rank], job.boxes[rank ^ 1], 0), rank ^ 1, 160000, NS_PER_S,
                          NS_PER_MS / 10);
    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
            job.boxes[rank]->lanes[i].distance = 0;
    expect_nothing(job);
}

/* Four flows share one uplink by chance. */
static void test_shared_by_chance(void **state)
{
    struct made_job job = made_cluster(nowhere);
    for (size_t i = 0; i < job.boxes[3]->lane_count; i++) {
        struct blackbox_lane *lane = &job.boxes[3]->lanes[i];
        int to = (int)lane->segments->peer;
        free(lane->segments);
        made_segments(lane, to, 160000, NS_PER_S, to == 7 ? 5 * QUICK : QUICK);
    }
    expect_nothing(job);
}

/* One of every two segments had a packet dropped in a crowded queue, and waits for a timer. */
static void test_packets_lost_now_and_then(void **state)
{
    struct made_job job = made_cluster(on_two_paths);
    for (int rank = 3; rank < 5; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++) {
            struct blackbox_lane *lane = &job.boxes[rank]->lanes[i];
            for (size_t j = 0; j < lane->segment_count && lane->distance != WIRE_DISTANCE_HOST; j += 2)
                lane->segments[j].completed = lane->segments[j].posted + QUICK;
        }
    expect_nothing(job);
}

/* Messages wait for each other, and would be compared with others of their communicator only. */
static void test_messages_are_left_to_lanes(void **state)
{
    for (int lanes = 0; lanes < 2; lanes++) {
        struct made_job job = made_cluster(nowhere);
        for (int to = 1; to < RANKS; to++)
            for (uint64_t turn = 0; turn < 8; turn++) {
                uint64_t ago = (20 - turn) * NS_PER_S, took = to == 3 ? LATE : QUICK;
                struct blackbox_op *op = made_call(&job.boxes[to]->comms[0], turn, ago, ago - took);
                op->collective = WIRE_RECV;
                op->root = to == 3 ? 1 : to - 1;
                op->bytes = 160000;
            }
        for (int rank = 0; rank < RANKS && !lanes; rank++)
            for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
                job.boxes[rank]->lanes[i].segment_count = 0;
        struct findings found = find(&job);
        assert_int_equal(found.count, !lanes);
        if (!lanes)
            assert_int_equal(found.items[0].kind, FINDING_LINK);
        findings_free(&found);
    }
}

static void test_one_process_is_no_network(void **state)
{
    expect_nothing(made_cluster(of_rank_5));
}

/* Half of all hosts are slow: what is usual cannot be told. */
static void test_most_are_slow(void **state)
{
    expect_nothing(made_cluster(of_two_hosts));
}

static void test_no_lane_is_quick(void **state)
{
    expect_nothing(job_of_leaves(everywhere));
}

/* All lanes are slow but those from node2 into node0. No lane to node2 is quick: no path is to blame. */
static void test_one_way_is_no_path(void **state)
{
    expect_nothing(job_of_leaves(but_into_host_0));
}

static void test_other_lengths_do_not_compare(void **state)
{
    struct made_job job = made_cluster(nowhere);
    struct blackbox_lane *lane = &job.boxes[3]->lanes[0];
    free(lane->segments);
    made_segments(lane, (int)job.boxes[3]->lanes[0].peer_pid - 1000, 8000000, NS_PER_S, LATE);
    expect_nothing(job);
}

/* All segments are put at once: each waits for its turn, which is not the network's time. */
static void test_turn_in_a_queue(void **state)
{
    struct made_job job = made_cluster(nowhere);
    for (int rank = 2; rank < 4; rank++)
        for (size_t i = 0; i < job.boxes[rank]->lane_count; i++) {
            struct blackbox_lane *lane = &job.boxes[rank]->lanes[i];
            int to = (int)lane->segments->peer;
            free(lane->segments);
            made_segments(lane, to, 160000, 1, QUICK);
        }
    expect_nothing(job);
}

static void test_what_was_slow_is_over(void **state)
{
    struct made_job job = made_cluster(at_host_1);
    for (int rank = 0; rank < RANKS; rank++)
        job.boxes[rank]->now += 2 * 60 * NS_PER_S;
    expect_nothing(job);
}

static bool from_host_2_to_3(int from, int to)
{
    return host_of(from) == 2 && host_of(to) == 3;
}

/* The last few segments of this lane are slow; earlier ones were quick. */
static void turn_slow(struct blackbox_lane *lane)
{
    for (size_t i = lane->segment_count - 3; i < lane->segment_count; i++)
        lane->segments[i].completed = lane->segments[i].posted + LATE;
}

/*
 * All lanes out of host 2 have become slow. Lanes to host 3 carry more, so their medians show it first, and look like a
 * path. The rules say nothing until the other lanes are slow, too.
 */
static void test_not_a_path_yet(void **state)
{
    for (int turns = 0; turns < 2; turns++) {
        struct made_job job = made_cluster(from_host_2_to_3);
        for (int rank = 2 * EACH; turns && rank < 3 * EACH; rank++)
            for (size_t i = 0; i < job.boxes[rank]->lane_count; i++)
                if (job.boxes[rank]->lanes[i].distance != WIRE_DISTANCE_HOST)
                    turn_slow(&job.boxes[rank]->lanes[i]);
        struct findings found = find(&job);
        assert_int_equal(found.count, !turns);
        if (!turns)
            assert_int_equal(found.items[0].kind, FINDING_LINK);
        findings_free(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interface),
        cmocka_unit_test(test_interface_is_borrowed),
        cmocka_unit_test(test_one_way),
        cmocka_unit_test(test_hiccup),
        cmocka_unit_test(test_hiccup_beside_borrowers),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_path_of_crowded_hosts),
        cmocka_unit_test(test_between_two_hosts),
        cmocka_unit_test(test_most_drew_the_slow_uplink),
        cmocka_unit_test(test_one_of_many_lanes),
        cmocka_unit_test(test_most_lanes_of_an_interface),
        cmocka_unit_test(test_packets_lost_now_and_then),
        cmocka_unit_test(test_messages_are_left_to_lanes),
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_borrowers_are_slow),
        cmocka_unit_test(test_unknown_distances),
        cmocka_unit_test(test_shared_by_chance),
        cmocka_unit_test(test_one_process_is_no_network),
        cmocka_unit_test(test_most_are_slow),
        cmocka_unit_test(test_no_lane_is_quick),
        cmocka_unit_test(test_one_way_is_no_path),
        cmocka_unit_test(test_other_lengths_do_not_compare),
        cmocka_unit_test(test_turn_in_a_queue),
        cmocka_unit_test(test_what_was_slow_is_over),
        cmocka_unit_test(test_not_a_path_yet),
    };
    return cmocka_run_group_tests_name("slow lanes", tests, NULL, NULL);
}
