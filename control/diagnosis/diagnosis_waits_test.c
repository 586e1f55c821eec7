/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the shape of recorded ones: messages were lost or late, and ranks wait in the library. A rank that is on
 * its way, waits itself, or only gives its processor away is not to blame.
 */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"
#include "wire/distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS 80

static struct findings find_by(const struct made_job *before, const struct made_job *now)
{
    struct snapshot snapshot = {.now = made_look(now), .stuck = MADE_STUCK};
    if (before)
        snapshot.before = made_look(before);
    return diagnosis_find(&snapshot);
}

/* kind -1: no finding. */
static void expect(const struct made_job *before, const struct made_job *now, int kind, int world_rank)
{
    struct findings found = find_by(before, now);
    if (found.count != (kind >= 0) || (found.count && (int)found.items[0].kind != kind))
        fail_msg("%zu findings: %s", found.count, found.count ? found.items[0].sentence : "");
    if (found.count)
        assert_int_equal(found.items[0].culprit.world_rank, world_rank);
    findings_free(&found);
}

/* ---- Lost messages ---- */

static void wait_since(struct blackbox_op *op, uint64_t ago)
{
    op->begin = op->start = op->wait_since = MADE_NOW - ago;
}

/*
 * Rank 0 has waited in a receive for `waits`. Its peer, rank 1, sent before that, and is in a collective with rank 2,
 * which went on `moved` ago.
 */
static struct made_job after_a_hole(uint64_t waits, uint64_t moved)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++)
        made_call(made_comm(job.boxes[rank], 1, "world", rank, 3), 1, 40 * NS_PER_S, 40 * NS_PER_S - NS_PER_MS);
    struct blackbox_op *receive = made_wait(made_comm(job.boxes[0], 2, "pipeline", 0, 2), 22, 1, 0);
    receive->collective = WIRE_RECV;
    wait_since(receive, waits);
    made_call(made_comm(job.boxes[1], 2, "pipeline", 1, 2), 21, 30 * NS_PER_S, 30 * NS_PER_S - NS_PER_MS)->collective =
        WIRE_RECV;
    for (int rank = 1; rank < 3; rank++) {
        struct blackbox_op *op = made_wait(made_comm(job.boxes[rank], 3, "tensor", rank - 1, 2), 21, 2 - rank, 1);
        wait_since(op, moved);
        op->begin = MADE_NOW - waits;
    }
    return job;
}

static void test_on_its_way(void **state)
{
    struct made_job job = after_a_hole(2300 * NS_PER_MS, 350 * NS_PER_MS);
    expect(NULL, &job, -1, 0);
    made_free(&job);
}

/* Rank 1 comes back from that collective and then calls nothing more: it is named after it was away for twice its
 * longest pause. */
static void test_went_away(void **state)
{
    for (int away = 0; away < 2; away++) {
        struct made_job job = after_a_hole(4 * NS_PER_S, NS_PER_S);
        for (int rank = 1; rank < 3; rank++) {
            struct blackbox_op *op = &job.boxes[rank]->comms[rank == 1 ? 2 : 1].ops[0];
            op->state = WIRE_OP_DONE;
            op->end = MADE_NOW - (away ? 2100 : 1900) * NS_PER_MS;
        }
        expect(NULL, &job, away ? FINDING_BEHIND : -1, 1);
        made_free(&job);
    }
}

/* Rank 1 goes on in another communicator for ever: after ten seconds it is named all the same. */
static void test_goes_on_elsewhere(void **state)
{
    struct made_job before = after_a_hole(11 * NS_PER_S, 300 * NS_PER_MS);
    struct made_job now = after_a_hole(11 * NS_PER_S, 300 * NS_PER_MS);
    for (int rank = 1; rank < 3; rank++)
        before.boxes[rank]->comms[rank == 1 ? 2 : 1].ops[0].wait_round = 0;
    expect(&before, &now, FINDING_BEHIND, 1);
    made_free(&before);
    made_free(&now);
}

/* Both ends of one message wait for each other. */
static struct made_job lost_message(uint64_t bytes)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_op *op = made_wait(made_comm(job.boxes[rank], 1, "pipeline", rank, 2), 21, !rank, 0);
        op->collective = rank ? WIRE_RECV : WIRE_SEND;
        op->bytes = rank ? bytes : 163840;
    }
    return job;
}

static void test_does_not_arrive(void **state)
{
    struct made_job job = lost_message(163840);
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_UNREAD);
    assert_int_equal(found.items[0].culprit.rank, 1);
    assert_int_equal(found.items[0].culprit.peer, 0);
    assert_non_null(strstr(found.items[0].sentence,
                           "rank 1 (process 1001) does not get what rank 0 sends: they wait for each other in send #21 "
                           "and recv #21 of communicator pipeline, for 10.0 s"));
    findings_free(&found);
    made_free(&job);
    job = lost_message(99); /* another message: nobody knows which */
    found = find_by(NULL, &job);
    assert_int_equal(found.items[0].kind, FINDING_CIRCLE);
    findings_free(&found);
    made_free(&job);
}

/* All messages over this interface are slow: the one before took half a second. A message is lost if it takes
 * longer. */
static void test_is_late(void **state)
{
    for (int waits = 4; waits < 20; waits += 8)
        for (uint64_t took = 100; took < 1000; took += 400) {
            struct made_job job = lost_message(163840);
            strcpy(job.boxes[0]->header.host, "node6");
            made_segments(made_lane(job.boxes[0], job.boxes[1], 0), 1, 163840, NS_PER_S, took * NS_PER_MS);
            for (int rank = 0; rank < 2; rank++)
                wait_since(&job.boxes[rank]->comms[0].ops[0], (uint64_t)waits * NS_PER_S);
            struct findings found = find_by(NULL, &job);
            assert_int_equal(found.count, waits == 12 || took == 100);
            findings_free(&found);
            made_free(&job);
        }
}

/* A lossy network: one of the messages before took 2.5 s, and the latest one was quick. */
static void test_is_lossy(void **state)
{
    for (int waits = 4; waits < 8; waits += 2)
        for (int lossy = 0; lossy < 2; lossy++) {
            struct made_job job = lost_message(163840);
            strcpy(job.boxes[0]->header.host, "node6");
            struct blackbox_lane *lane = made_lane(job.boxes[0], job.boxes[1], 0);
            made_segments(lane, 1, 163840, 3 * NS_PER_S, 100 * NS_PER_MS);
            lane->segments[lane->segment_count - 3].completed += lossy * 2400 * NS_PER_MS;
            for (int rank = 0; rank < 2; rank++)
                wait_since(&job.boxes[rank]->comms[0].ops[0], (uint64_t)waits * NS_PER_S);
            struct findings found = find_by(NULL, &job);
            assert_int_equal(found.count, waits == 6 || !lossy);
            findings_free(&found);
            made_free(&job);
        }
}

/* Adapters lose packets within a host, too, and send them once more. Shared memory loses none. */
static void test_by_an_adapter(void **state)
{
    for (int verbs = 0; verbs < 2; verbs++)
        for (int waits = 3; waits < 5; waits++) {
            struct made_job job = lost_message(163840);
            struct blackbox_lane *lane = made_lane(job.boxes[1], job.boxes[0], WIRE_DISTANCE_HOST);
            strcpy(lane->transport, verbs ? "verbs" : "shm");
            for (int rank = 0; rank < 2; rank++)
                wait_since(&job.boxes[rank]->comms[0].ops[0], (uint64_t)waits * NS_PER_S);
            struct findings found = find_by(NULL, &job);
            assert_int_equal(found.count, !verbs || waits == 4);
            findings_free(&found);
            made_free(&job);
        }
}

/* Rank 1 has no processor, and has not taken what rank 0 sent before it went on. A circle in two communicators follows,
 * and rank 1 is to blame. */
static void test_was_passed(void **state)
{
    struct made_job job = made_job(3);
    made_wait(made_comm(job.boxes[0], 1, "world", 0, 3), 69, 2, 0);
    made_wait(made_comm(job.boxes[1], 1, "world", 1, 3), 68, 0, 0);
    made_call(made_comm(job.boxes[1], 2, "pair", 0, 2), 31, 12 * NS_PER_S, 11 * NS_PER_S);
    made_call(made_comm(job.boxes[2], 1, "world", 2, 3), 68, 12 * NS_PER_S, 11 * NS_PER_S);
    made_wait(made_comm(job.boxes[2], 2, "pair", 1, 2), 32, 0, 0);
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_UNREAD);
    assert_non_null(strstr(found.items[0].sentence,
                           "rank 1 (process 1001) does not get on, though rank 0, whom it waits "
                           "for in round 1 of allreduce #68, is in allreduce #69 already; it is waited for by rank"));
    findings_free(&found);
    made_free(&job);
}

/* Ranks take turns in coming 3 ms late: rank 1 in 24 of 60 calls. To one of these it was 5 s late. */
static void test_one_pause(void **state)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 4);
        for (uint64_t seq = 0; seq < 60; seq++) {
            uint64_t ago = (70 - seq) * 20 * NS_PER_MS + (seq < 30) * 5 * NS_PER_S;
            bool late = (int)(seq % 5 > 2 ? 1 : seq % 5) == rank, pause = seq == 29;
            made_call(world, seq, ago - late * (pause ? 5 * NS_PER_S : 3 * NS_PER_MS),
                      ago - (pause ? 5 * NS_PER_S : 0) - 4 * NS_PER_MS);
        }
    }
    expect(NULL, &job, -1, 0);
    made_free(&job);
}

/* Rank 1's stream does not get on. Both ranks have issued a call in their pair, and one in the world behind that. */
static struct made_job stuck_stream(uint64_t waits, bool seen)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++)
        for (uint64_t comm = 1; comm < 3; comm++) {
            struct blackbox_op *op =
                made_wait(made_comm(job.boxes[rank], comm, comm == 1 ? "world" : "pair", rank, 2), 20, -1, 0);
            wait_since(op, waits + (comm - 1) * NS_PER_MS);
            op->device = true;
            op->state = comm == 2 && rank == 0 && seen ? WIRE_OP_RUNNING : WIRE_OP_ENQUEUED;
        }
    return job;
}

static void test_stuck_stream(void **state)
{
    struct made_job job = stuck_stream(3 * NS_PER_S, true);
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_STILL);
    assert_int_equal(found.items[0].culprit.rank, 1);
    assert_non_null(strstr(found.items[0].sentence, "whose GPU has not been seen to come to allreduce #20"));
    findings_free(&found);
    made_free(&job);
    for (uint64_t waits = 3; waits < 20; waits += 10) { /* nobody knows which of the two has not come */
        job = stuck_stream(waits * NS_PER_S, false);
        found = find_by(NULL, &job);
        assert_int_equal(found.count > 0, waits > 10);
        findings_free(&found);
        made_free(&job);
    }
}

/* ---- Late because of other calls ---- */

/* Rank 1 comes 40 ms late to each call. Before that it is in a receive, or in a broadcast whose root is rank 0. */
static struct made_job late_by(bool in_receive, bool broadcasts)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *data = made_comm(job.boxes[rank], 1, "data", rank, 2);
        for (uint64_t seq = 0; seq < CALLS; seq++) {
            uint64_t ago = (CALLS + 1 - seq) * 100 * NS_PER_MS - (rank ? 40 : 0) * NS_PER_MS;
            if (broadcasts)
                made_call(data, 2 * seq, ago, ago)->collective = WIRE_BROADCAST;
            made_call(data, broadcasts ? 2 * seq + 1 : seq, ago, (CALLS + 1 - seq) * 100 * NS_PER_MS - 50 * NS_PER_MS);
        }
        struct blackbox_comm *pipeline = made_comm(job.boxes[rank], 2 + (uint64_t)rank, "pipeline", 0, 2);
        for (uint64_t seq = 0; seq < CALLS; seq++) {
            uint64_t ago = (CALLS + 1 - seq) * 100 * NS_PER_MS;
            struct blackbox_op *op =
                made_call(pipeline, seq, ago + 2 * NS_PER_MS, ago - (rank && in_receive ? 39 * NS_PER_MS : 0));
            op->collective = WIRE_RECV;
            op->root = 1;
        }
    }
    return job;
}

static void test_late_by_calls(void **state)
{
    for (int broadcasts = 0; broadcasts < 2; broadcasts++) {
        struct made_job job = late_by(false, broadcasts);
        expect(NULL, &job, FINDING_SLOW, 1);
        made_free(&job);
        job = late_by(true, broadcasts);
        expect(NULL, &job, -1, 1);
        made_free(&job);
    }
}

/* A broadcast reaches rank 1 40 ms after its root has gone on. */
static void test_late_by_a_broadcast(void **state)
{
    struct made_job job = late_by(false, true);
    for (size_t i = 0; i < job.boxes[1]->comms[0].op_count; i += 2)
        job.boxes[1]->comms[0].ops[i].begin -= 41 * NS_PER_MS;
    expect(NULL, &job, -1, 1);
    made_free(&job);
}

/* ---- Without a processor ---- */

/* What two threads had in the last second: the caller's and the library's. */
struct had {
    uint64_t ran, delayed, ran_there, delayed_there; /* milliseconds */
    bool ready;                                      /* the first, at both looks */
};

static struct process_facts facts(uint64_t at, const struct had *had, bool now)
{
    const uint64_t ms = now ? NS_PER_MS : 0;
    return (struct process_facts){
        .state = PROCESS_RUNS,
        .at = at,
        .threads = {{.number = 1, .ready = had->ready, .ran = NS_PER_S + had->ran * ms, .delayed = had->delayed * ms},
                    {.number = 2, .ran = NS_PER_S + had->ran_there * ms, .delayed = had->delayed_there * ms}},
        .thread_count = 2};
}

/* Four ranks; the other three have waited for rank 1 for `waits`, in ns. */
static void expect_after(uint64_t waits, const struct had had[4], int kind)
{
    struct made_job before = made_job(4), now = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        before.facts[rank] = facts(MADE_NOW - NS_PER_S, &had[rank], false);
        now.facts[rank] = facts(MADE_NOW, &had[rank], true);
        struct made_job *looks[] = {&before, &now};
        for (int i = 0; i < 2; i++) {
            struct blackbox_comm *world = made_comm(looks[i]->boxes[rank], 1, "world", rank, 4);
            made_call(world, 1, (uint64_t)(3 - i) * NS_PER_S, (uint64_t)(3 - i) * NS_PER_S - NS_PER_MS);
            if (rank != 1)
                wait_since(made_wait(world, 2, 1, 0), waits);
        }
    }
    if (kind == FINDING_STOPPED)
        now.facts[1].state = PROCESS_STOPPED;
    expect(&before, &now, kind, 1);
    made_free(&before);
    made_free(&now);
}

static void expect_starved(struct had one, struct had others, bool starved)
{
    expect_after(100 * NS_PER_MS, (const struct had[]){others, one, others, others}, starved ? FINDING_STARVED : -1);
}

static void test_without_a_processor(void **state)
{
    const struct had others = {20, 50, 5, 5, false};
    expect_starved((struct had){2, 900, 1, 800, false}, others, true);
    expect_starved((struct had){0, 0, 0, 0, true}, others, true); /* ready at both looks, never ran; the other sleeps */
    expect_starved((struct had){4, 600, 1, 600, true}, others, true); /* hardly ran, after long waits */
}

static void test_woken_at_both_looks(void **state)
{
    expect_starved((struct had){4, 10, 0, 0, true}, (struct had){20, 5, 0, 0, false}, false);
}

/* A rank that waits in the library gives its processor away a thousand times: it is ready to run, and not starved. */
static void test_gives_its_processor_away(void **state)
{
    expect_starved((struct had){5, 950, 5, 130, false}, (struct had){20, 50, 5, 5, false}, false);
}

/* Rank 1 is stopped. Rank 2 waits in the library, whose own thread sleeps; by chance it is ready at both looks. */
static void test_waits_for_one_that_is_stopped(void **state)
{
    const struct had calm = {20, 50, 5, 5, false};
    const struct had ranks[] = {calm, {0, 0, 0, 0, false}, {2, 990, 0, 0, true}, calm};
    expect_after(900 * NS_PER_MS, ranks, -1);
    expect_after(2900 * NS_PER_MS, ranks, FINDING_STOPPED);
}

/* Two ranks wait for each other in two communicators, as if used in different orders. One rank was stopped until a
 * moment ago: it has had no time to take what has come. */
static void test_waits_for_one_that_was_let_go(void **state)
{
    for (int stopped = 0; stopped < 2; stopped++) {
        struct made_job looks[] = {made_job(2), made_job(2)};
        for (int i = 0; i < 2; i++)
            for (int rank = 0; rank < 2; rank++) {
                struct blackbox_comm *comm = made_comm(looks[i].boxes[rank], 1, "a", rank, 2);
                if (rank == 0)
                    made_wait(comm, 1, 1, 0);
                comm = made_comm(looks[i].boxes[rank], 2, "b", rank, 2);
                if (rank == 1)
                    made_wait(comm, 1, 0, 0);
            }
        looks[0].facts[1].state = stopped ? PROCESS_STOPPED : PROCESS_RUNS;
        expect(&looks[0], &looks[1], stopped ? FINDING_STOPPED : FINDING_ORDER, stopped ? 1 : -1);
        made_free(&looks[0]);
        made_free(&looks[1]);
    }
}

/* The same, but rank 0 has ended the call in which rank 1 waits for it. Rank 1 does not take what has come, perhaps
 * because it has no processor. Where all lack processors, its turn may come yet. */
static void test_waits_for_one_that_has_ended_the_call(void **state)
{
    enum { CALM, STARVED, CROWDED, WAYS };
    static const int kinds[WAYS] = {FINDING_UNREAD, FINDING_STARVED, -1};
    static const struct had none = {2, 900, 1, 800, false}, some = {20, 50, 5, 5, false}, few = {20, 300, 5, 5, false};
    static const struct had *ranks[WAYS][2] = {{&some, &some}, {&some, &none}, {&few, &few}};
    for (int way = 0; way < WAYS; way++) {
        struct made_job looks[] = {made_job(2), made_job(2)};
        for (int i = 0; i < 2; i++) {
            made_wait(made_comm(looks[i].boxes[0], 1, "a", 0, 2), 1, 1, 0);
            made_comm(looks[i].boxes[1], 1, "a", 1, 2);
            made_call(made_comm(looks[i].boxes[0], 2, "b", 0, 2), 1, 11000000000, 10900000000);
            made_wait(made_comm(looks[i].boxes[1], 2, "b", 1, 2), 1, 0, 0);
            for (int rank = 0; rank < 2; rank++)
                looks[i].facts[rank] = facts(MADE_NOW - (i ? 0 : NS_PER_S), ranks[way][rank], i);
        }
        expect(&looks[0], &looks[1], kinds[way], way == CROWDED ? -1 : 1);
        made_free(&looks[0]);
        made_free(&looks[1]);
    }
}

/* All processes of the machine have as little. If the others only give theirs away, one that has none is starved. */
static void test_whole_machine_is_crowded(void **state)
{
    expect_starved((struct had){5, 900, 4, 800, false}, (struct had){6, 800, 4, 700, false}, false);
    expect_starved((struct had){5, 900, 4, 800, false}, (struct had){6, 800, 4, 30, false}, true);
}

/* ---- A call left out, or made twice ---- */

enum { LEFT_OUT, TWICE, NEW };

#define HABIT_STEPS 12

/*
 * As a job of four ranks left it: two sums in pairs (tensor), one across the pairs (data), one of all. In its last step
 * rank 1 leaves out that of data, makes it twice, or there were too few steps to tell.
 */
static struct made_job a_call_too_few_or_many(int how)
{
    struct made_job job = made_job(4);
    int steps = how == NEW ? 1 : HABIT_STEPS;
    for (int rank = 0; rank < 4; rank++) {
        made_comm(job.boxes[rank], 1, "world", rank, 4);
        made_comm(job.boxes[rank], 2 + (uint64_t)rank / 2, "tensor", rank % 2, 2);
        made_comm(job.boxes[rank], 4 + (uint64_t)rank % 2, "data", rank / 2, 2);
        struct blackbox_comm *world = job.boxes[rank]->comms, *tensor = world + 1, *data = world + 2;
        bool waits_in_data = rank % 2 && (rank == 3) != (how == TWICE);
        for (int step = 0; step <= steps; step++) {
            bool last = step == steps;
            uint64_t at = (20 - (uint64_t)step) * NS_PER_S, seq = (uint64_t)step;
            made_call(tensor, 2 * seq, at, at - NS_PER_MS);
            made_call(tensor, 2 * seq + 1, at - 2 * NS_PER_MS, at - 3 * NS_PER_MS)->count = 200;
            if (!last || (rank != 1 && !waits_in_data) || how == TWICE)
                made_call(data, seq, at - 4 * NS_PER_MS, at - 5 * NS_PER_MS)->count = 300;
            if (!last)
                made_call(world, seq, at - 6 * NS_PER_MS, at - 7 * NS_PER_MS)->count = 1000;
        }
        struct blackbox_op *op = waits_in_data ? made_wait(data, (uint64_t)steps + (how == TWICE), 1 - rank / 2, 0)
                                               : made_wait(world, (uint64_t)steps, rank % 3 ? 3 : 1, 0);
        op->count = waits_in_data ? 300 : 1000;
        wait_since(op, 4 * NS_PER_S);
    }
    return job;
}

static void test_left_out_or_made_twice(void **state)
{
    static const char *const words[] = {
        "rank 1 (process 1001) has left out a call: after allreduce of 200 elements in tensor came allreduce of 300 "
        "elements in data each of 8 times, and now allreduce of 1000 elements in world; ranks wait for each other: ",
        " has made a call twice: after allreduce of 300 elements in data came allreduce of 1000 elements in world each "
        "of 8 times, and now allreduce of 300 elements in data;",
        "ranks use communicators in different order, or one has left out or repeated a call, and wait for each other: "
        "rank 1 (process 1001) in allreduce #1 of communicator world, rank 3 of world (process 1003; rank 1 of data)"};
    for (int how = LEFT_OUT; how <= NEW; how++) {
        struct made_job job = a_call_too_few_or_many(how);
        struct findings found = find_by(NULL, &job);
        assert_int_equal(found.count, 1);
        if (found.items->kind != FINDING_ORDER || found.items->confidence != LIKELY ||
            !strstr(found.items->sentence, words[how]))
            fail_msg("%s", found.items->sentence);
        assert_int_equal(found.items->culprit.world_rank, how == NEW ? -1 : 1);
        findings_free(&found);
        made_free(&job);
    }
}

/* Two calls in each of 18 steps, in pairs and across the pairs, and one of all in each third. Rank 1 has left out the
 * 16th call of its pair, and was held up two steps later, in that of all. */
static void test_left_out_two_steps_ago(void **state)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *near, *far, *world;
        made_comm(job.boxes[rank], 1, "world", rank, 4);
        made_comm(job.boxes[rank], 2 + (uint64_t)rank / 2, "near", rank % 2, 2);
        made_comm(job.boxes[rank], 4 + (uint64_t)rank % 2, "far", rank / 2, 2);
        world = job.boxes[rank]->comms, near = world + 1, far = world + 2;
        for (uint64_t step = 0; step < 18; step++) {
            uint64_t at = (26 - step) * NS_PER_S;
            if (!(rank == 1 && step == 15) && !(rank == 0 && step == 17))
                made_call(near, near->op_count, at, at - NS_PER_MS)->count = 200;
            if (rank % 2 || step < 17)
                made_call(far, step, at - 2 * NS_PER_MS, at - 3 * NS_PER_MS)->count = 300;
            if (step % 3 == 2 && step < 17)
                made_call(world, step / 3, at - 4 * NS_PER_MS, at - 5 * NS_PER_MS)->count = 1000;
        }
        struct blackbox_op *op = rank == 0   ? made_wait(near, 17, 1, 0)
                                 : rank == 2 ? made_wait(far, 17, 0, 0)
                                             : made_wait(world, 5, 0, 0);
        op->count = rank == 0 ? 200 : rank == 2 ? 300 : 1000;
        wait_since(op, 4 * NS_PER_S);
    }
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items->kind, FINDING_ORDER);
    assert_int_equal(found.items->culprit.world_rank, 1);
    assert_non_null(strstr(found.items->sentence, "came allreduce of 200 elements in near each of "));
    findings_free(&found);
    made_free(&job);
}

/* Rank 0 names nobody, as ranks do whose GPUs wait. It stands in a communicator of the rank that made a call twice. */
static void test_stands_beside_the_odd(void **state)
{
    struct made_job job = a_call_too_few_or_many(TWICE);
    struct blackbox_comm *world = job.boxes[0]->comms;
    world->ops[world->op_count - 1].wait_peer = -1;
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items->kind, FINDING_ORDER);
    findings_free(&found);
    made_free(&job);
}

/* Rank 1 of data has no box here: the only rank of all that has none is meant. */
static void test_absent_in_a_part(void **state)
{
    struct made_job job = a_call_too_few_or_many(NEW);
    struct blackbox *boxes[] = {job.boxes[0], job.boxes[1], job.boxes[2]};
    struct blackbox_comm *data = &boxes[1]->comms[2];
    wait_since(made_wait(data, 1, 1, 0), 5 * NS_PER_S);
    boxes[1]->comms[0].op_count--;
    struct snapshot snapshot = {.now = {boxes, NULL, 3}, .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_true(found.count >= 1);
    if (found.items->kind != FINDING_ABSENT || found.items->culprit.world_rank != 3 || found.items->culprit.rank != 1 ||
        !strstr(found.items->sentence, "rank 3 (rank 1 of data; no black box here: "))
        fail_msg("%s", found.items->sentence);
    findings_free(&found);
    snapshot.now.count = 2;
    found = diagnosis_find(&snapshot);
    for (size_t i = 0; i < found.count; i++)
        if (found.items[i].kind == FINDING_ABSENT && found.items[i].culprit.comm == data->id) {
            assert_int_equal(found.items[i].culprit.world_rank, -1); /* two may be meant */
            assert_non_null(strstr(found.items[i].sentence, "rank 1 of data (no black box here: "));
        }
    findings_free(&found);
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_on_its_way),
                                       cmocka_unit_test(test_left_out_or_made_twice),
                                       cmocka_unit_test(test_left_out_two_steps_ago),
                                       cmocka_unit_test(test_stands_beside_the_odd),
                                       cmocka_unit_test(test_absent_in_a_part),
                                       cmocka_unit_test(test_went_away),
                                       cmocka_unit_test(test_goes_on_elsewhere),
                                       cmocka_unit_test(test_does_not_arrive),
                                       cmocka_unit_test(test_is_late),
                                       cmocka_unit_test(test_is_lossy),
                                       cmocka_unit_test(test_by_an_adapter),
                                       cmocka_unit_test(test_was_passed),
                                       cmocka_unit_test(test_one_pause),
                                       cmocka_unit_test(test_stuck_stream),
                                       cmocka_unit_test(test_late_by_calls),
                                       cmocka_unit_test(test_late_by_a_broadcast),
                                       cmocka_unit_test(test_without_a_processor),
                                       cmocka_unit_test(test_woken_at_both_looks),
                                       cmocka_unit_test(test_gives_its_processor_away),
                                       cmocka_unit_test(test_waits_for_one_that_is_stopped),
                                       cmocka_unit_test(test_waits_for_one_that_was_let_go),
                                       cmocka_unit_test(test_waits_for_one_that_has_ended_the_call),
                                       cmocka_unit_test(test_whole_machine_is_crowded)};
    return cmocka_run_group_tests_name("diagnosis of waits", tests, NULL, NULL);
}
