/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on made snapshots: the named culprit, the confidence, and no other culprit. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct findings find_by(const struct made_job *before, const struct made_job *now)
{
    struct snapshot snapshot = {.now = made_look(now), .stuck = MADE_STUCK};
    if (before)
        snapshot.before = made_look(before);
    return diagnosis_find(&snapshot);
}

/* Expects exactly one finding. -1: no single rank. */
static void expect(struct made_job *job, enum finding_kind kind, int rank, const char *words)
{
    struct findings found = find_by(NULL, job);
    for (size_t i = 1; i < found.count; i++)
        print_error("also: %s\n", found.items[i].sentence);
    assert_int_equal(found.count, 1);
    const struct finding *first = &found.items[0];
    if (first->kind != kind || first->culprit.rank != rank || !strstr(first->sentence, words))
        fail_msg("%s, rank %d: %s", finding_row(first->kind)->name, first->culprit.rank, first->sentence);
    assert_true(*first->remedy && !strstr(first->remedy, "PID"));
    findings_free(&found);
    made_free(job);
}

static void expect_nothing(struct made_job *before, struct made_job *now)
{
    struct findings found = find_by(before, now);
    if (found.count)
        fail_msg("%s", found.items[0].sentence);
    findings_free(&found);
    made_free(now);
    if (before)
        made_free(before);
}

static bool has_evidence(const struct finding *finding, const char *words)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (strstr(finding->evidence[i], words))
            return true;
    return false;
}

/* Makes n ranks in a ring, each waiting for the one before it in the same round. */
static struct made_job ring(int n)
{
    struct made_job job = made_job((size_t)n);
    for (int rank = 0; rank < n; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, n);
        made_call(world, 1, 20 * NS_PER_S, 19 * NS_PER_S);
        made_wait(world, 2, (rank + n - 1) % n, 3);
    }
    return job;
}

/* ---- Hangs ---- */

static void test_stopped_in_a_circle(void **state)
{
    struct made_job job = ring(6);
    job.facts[3].state = PROCESS_STOPPED;
    expect(&job, FINDING_STOPPED, 3,
           "rank 3 (process 1003) is stopped and is waited for by ranks 0 1 2 4 5 in allreduce #2 of communicator "
           "world, for 10.0 s");
    job = ring(6);
    job.facts[3] = (struct process_facts){.state = PROCESS_TRACED, .tracer = 77, .tracer_name = "gdb"};
    expect(&job, FINDING_TRACED, 3, "is held by process 77 (gdb)");
}

/* Boxes of other hosts: their systems are not asked, but the rounds tell. */
static void test_rounds_tell_who_does_not_take(void **state)
{
    struct made_job job = ring(6);
    static const uint32_t rounds[] = {2, 3, 4, 5, 5, 1};
    for (int rank = 0; rank < 6; rank++)
        job.boxes[rank]->comms[0].ops[1].wait_round = rounds[rank];
    expect(&job, FINDING_UNREAD, 5,
           "rank 5 (process 1005) does not get on, though rank 4, whom it waits for in round 2 of allreduce #2, is in "
           "round 6");
}

static void test_circle(void **state)
{
    struct made_job job = ring(3);
    expect(&job, FINDING_CIRCLE, -1, "ranks 0 1 2 wait for each other in allreduce #2");
    job = ring(3);
    job.boxes[0]->comms[0].ops[1].collective = WIRE_RECV;
    expect(
        &job, FINDING_CIRCLE, -1,
        "ranks wait for each other in calls that do not fit: rank 0 (process 1000) in recv #2 of communicator world, "
        "rank 2 (process 1002) in allreduce #2 of communicator world, rank 1");
}

static void test_dead(void **state)
{
    struct made_job job = ring(4);
    job.boxes[2]->alive = false;
    expect(&job, FINDING_DEAD, 2, "rank 2 (process 1002, dead) is waited for by ranks 0 1 3");
}

/* Two causes at once: only the stopped rank waits for the dead one. */
static void test_dead_behind_stopped(void **state)
{
    struct made_job job = ring(2);
    job.boxes[1]->alive = false;
    job.facts[0].state = PROCESS_STOPPED;
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.items[0].kind, FINDING_STOPPED);
    assert_int_equal(found.items[1].kind, FINDING_DEAD);
    assert_int_equal(found.items[1].culprit.rank, 1);
    findings_free(&found);
    made_free(&job);
}

/* A box of another host, read through a shared folder, is not seen to live, nor to be dead. */
static void test_other_hosts_are_not_dead(void **state)
{
    struct made_job job = ring(4);
    job.boxes[2]->alive = false;
    job.boxes[2]->header.boot_id[0] = 9;
    job.boxes[2]->now -= 3600 * NS_PER_S; /* the clock of another host */
    expect(&job, FINDING_CIRCLE, -1, "wait for each other");
}

static void test_behind(void **state)
{
    struct made_job job = ring(4);
    job.boxes[1]->comms[0].op_count = 1;
    expect(&job, FINDING_BEHIND, 1,
           "rank 1 (process 1001) has not called allreduce #2 and is waited for by ranks 0 2 3");
}

/* A rank that was away for the same time before may only be saving a checkpoint. */
static void test_long_pauses(void **state)
{
    struct made_job job = ring(4);
    struct blackbox_comm *late = &job.boxes[1]->comms[0];
    for (int pause = 5; pause < 7; pause++) {
        late->op_count = 0;
        made_call(late, 0, (40 + (uint64_t)pause) * NS_PER_S, (40 + (uint64_t)pause) * NS_PER_S);
        made_call(late, 1, 40 * NS_PER_S, 40 * NS_PER_S);
        struct findings found = find_by(NULL, &job);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.items[0].confidence, pause == 5 ? LIKELY : POSSIBLE);
        assert_int_equal(has_evidence(&found.items[0], "it was away for 6.0 s before: it may come yet"), pause == 6);
        findings_free(&found);
    }
    made_free(&job);
}

/* Three dimensions: one verdict, whatever waits behind it. */
static void test_training(void **state)
{
    struct made_job job = made_training(4, 2, 2, 5);
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_BEHIND);
    assert_int_equal(found.items[0].culprit.pid, 1005);
    assert_int_equal(found.items[0].culprit.comm, 4);
    assert_int_equal(found.items[0].victims, 3 + 4 + 8);
    assert_true(has_evidence(&found.items[0], "of communicator data"));
    findings_free(&found);
    made_free(&job);
}

static void test_inverted_order(void **state)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *a = made_comm(job.boxes[rank], 1, "a", rank, 2);
        if (rank == 0)
            made_wait(a, 1, 1, 0);
        struct blackbox_comm *b = made_comm(job.boxes[rank], 2, "b", rank, 2);
        if (rank == 1)
            made_wait(b, 1, 0, 0);
    }
    expect(&job, FINDING_ORDER, -1,
           "rank 0 (process 1000) in allreduce #1 of communicator a, rank 1 (process 1001) in allreduce #1 of "
           "communicator b");
}

/* Rank 1 has sent, and waits for rank 0 elsewhere; the message is lost on its way. The ranks do not use communicators
 * in different orders. */
static void test_lost_message(void **state)
{
    struct made_job job = made_job(2);
    made_wait(made_comm(job.boxes[0], 1, "pipeline", 0, 2), 1, 1, 0)->collective = WIRE_RECV;
    made_call(made_comm(job.boxes[1], 1, "pipeline", 1, 2), 1, 11000000000, 10900000000)->collective = WIRE_SEND;
    made_comm(job.boxes[0], 2, "world", 0, 2);
    made_wait(made_comm(job.boxes[1], 2, "world", 1, 2), 1, 0, 0);
    expect(&job, FINDING_CIRCLE, -1,
           "rank 0 (process 1000) in recv #1 of communicator pipeline, rank 1 (process 1001) in allreduce #1 of "
           "communicator world");
    job = made_job(2); /* a large message has come, and word of it is lost */
    made_wait(made_comm(job.boxes[0], 1, "pipeline", 0, 2), 1, 1, 0)->collective = WIRE_SEND;
    made_call(made_comm(job.boxes[1], 1, "pipeline", 1, 2), 1, 11000000000, 10900000000)->collective = WIRE_RECV;
    made_comm(job.boxes[0], 2, "world", 0, 2);
    made_wait(made_comm(job.boxes[1], 2, "world", 1, 2), 1, 0, 0);
    expect(&job, FINDING_CIRCLE, -1, "rank 0 (process 1000) in send #1 of communicator pipeline");
}

/* Rank 1 is stopped. Rank 3 waits for rank 0, which has just gone on and will also wait for rank 1. */
static void test_one_that_moves(void **state)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_op *op = made_wait(made_comm(job.boxes[rank], 1, "world", rank, 4), 1, rank == 3 ? 0 : 1, 1);
        if (rank == 0)
            op->wait_since = op->begin = op->start = MADE_NOW - NS_PER_MS;
    }
    job.facts[1].state = PROCESS_STOPPED;
    expect(&job, FINDING_STOPPED, 1, "rank 1 (process 1001) is stopped and is waited for by rank 2");
}

/* A rank moved between two looks: nothing stands still. */
static void test_not_quiet(void **state)
{
    struct made_job before = ring(4), now = ring(4);
    for (int rank = 0; rank < 4; rank++)
        before.boxes[rank]->comms[0].ops[1].wait_round = 2;
    expect_nothing(&before, &now);
}

static void test_quiet(void **state)
{
    struct made_job before = ring(4), now = ring(4);
    struct findings found = find_by(&before, &now);
    assert_int_equal(found.count, 1);
    assert_true(has_evidence(&found.items[0], "none of these ranks moved"));
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

static void test_joining(void **state)
{
    struct made_job job = made_job(3);
    for (int i = 0; i < 3; i++)
        made_event(job.boxes[i], WIRE_EVENT_JOIN, 5, i < 2 ? i : 3, 4, 12 * NS_PER_S);
    expect(&job, FINDING_JOINING, 2, "rank 2 has not joined: 3 of 4 ranks wait to make a communicator, for 12.0 s");
    job = made_job(1);
    made_event(job.boxes[0], WIRE_EVENT_JOIN, 5, 0, 2, 12 * NS_PER_S);
    made_event(job.boxes[0], WIRE_EVENT_JOIN_END, 5, 0, 2, 11 * NS_PER_S);
    made_event(job.boxes[0], WIRE_EVENT_JOIN, 5, 0, 2, NS_PER_S);
    expect_nothing(NULL, &job);
}

/* ---- The user's bugs ---- */

static void test_odd_count(void **state)
{
    struct made_job job = ring(5);
    job.boxes[2]->comms[0].ops[1].count = 99;
    expect(&job, FINDING_MISMATCH, 2,
           "call #2 of communicator world is not the same on all ranks: rank 2 (process 1002) called allreduce of 99 "
           "float, sum, "
           "ranks 0 1 3 4 called allreduce of 100 float, sum");
}

/* One rank against one: the call that was never made before is odd. */
static void test_odd_of_two(void **state)
{
    struct made_job job = ring(2);
    job.boxes[0]->comms[0].ops[1].type = TUTTI_INT32;
    expect(&job, FINDING_MISMATCH, 0,
           "rank 0 (process 1000) called allreduce of 100 int32, sum, rank 1 (process 1001)");
    job = ring(2);
    for (int i = 0; i < 2; i++)
        job.boxes[i]->comms[0].ops[1].count = 7 + (uint64_t)i;
    expect(&job, FINDING_MISMATCH, -1, "is not the same on all ranks");
}

/* Two ranks call 50 and 60 in turn; after 50 rank 1 leaves out 60. */
static void test_skipped_of_two(void **state)
{
    struct made_job job = made_job(2);
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 2);
        for (uint64_t seq = 1; seq < 6; seq++)
            made_call(world, seq, (20 - seq) * NS_PER_S, (20 - seq) * NS_PER_S)->count = seq % 2 ? 50 : 60;
        made_wait(world, 6, !rank, 0)->count = rank == 1 ? 50 : 60;
    }
    expect(&job, FINDING_MISMATCH, 1, "rank 1 (process 1001) called allreduce of 50 float, sum, rank 0");
}

static void test_skipped_call(void **state)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        for (uint64_t seq = 1; seq < 6; seq++)
            made_call(world, seq, (20 - seq) * NS_PER_S, (20 - seq) * NS_PER_S)->count = seq % 2 ? 50 : 60;
        made_wait(world, 6, 2, 0)->count = rank == 2 ? 50 : 60;
    }
    struct findings found = find_by(NULL, &job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].culprit.rank, 2);
    assert_true(has_evidence(&found.items[0], "it has skipped a call, or made an earlier one once more"));
    assert_true(has_evidence(&found.items[0], "the count differs: 50, 60"));
    findings_free(&found);
    made_free(&job);
}

/* ---- After a failure ---- */

static void break_down(struct blackbox_comm *comm, int culprit, const char *sentence)
{
    comm->state = WIRE_COMM_FAILED;
    comm->result = TUTTI_REMOTE_ERROR;
    comm->culprit = culprit;
    comm->closed = MADE_NOW - NS_PER_S;
    strcpy(comm->sentence, sentence);
    comm->op_count = 1;
}

static struct made_job after_a_death(void)
{
    struct made_job job = ring(5);
    for (int rank = 0; rank < 5; rank++)
        if (rank != 3)
            break_down(&job.boxes[rank]->comms[0], rank == 0 ? 2 : 3, "lost rank 3: killed");
    job.boxes[3]->alive = false;
    return job;
}

static void test_first_cause(void **state)
{
    struct made_job job = after_a_death();
    expect(&job, FINDING_DEAD, 3,
           "rank 3 (process 1003, dead) ended without a word: communicator world failed: lost rank 3: killed");
}

static void test_ends_of_a_message_differ(void **state)
{
    struct made_job job = ring(2);
    struct blackbox_comm *world = job.boxes[0]->comms;
    break_down(world, 1, "message 0 differs");
    world->result = world->ops[0].result = TUTTI_INVALID_USAGE;
    world->ops[0].collective = WIRE_RECV;
    expect(&job, FINDING_FAILED, 1, "and its peer differ about a message, and either may be wrong");
}

/* Ranks that heard of it call nothing any more, also where nothing failed: no news. */
static void test_failure_elsewhere(void **state)
{
    struct made_job job = after_a_death();
    for (int rank = 0; rank < 2; rank++) {
        struct blackbox_comm *pair = made_comm(job.boxes[rank], 7, "pair", rank, 2);
        job.boxes[rank]->comms[0].closed = MADE_NOW;
        if (rank == 0)
            made_wait(pair, 1, 1, 0);
    }
    expect(&job, FINDING_DEAD, 3, "ended without a word");
}

static void test_recovered(void **state)
{
    struct made_job job = after_a_death();
    job.boxes[3]->comms[0].state = WIRE_COMM_CLOSED;
    for (int rank = 0; rank < 5; rank++)
        made_comm(job.boxes[rank], 8, "second", rank, 5)->opened = MADE_NOW;
    expect_nothing(NULL, &job);
}

/* ---- Slow ---- */

/* 80 calls, 100 ms apart; rank `late` comes 40 ms after the others, with some noise. */
static struct made_job steps(int n, int late, uint64_t noise)
{
    struct made_job job = made_job((size_t)n);
    unsigned seed = 3;
    for (int rank = 0; rank < n; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, n);
        for (uint64_t seq = 0; seq < 80; seq++) {
            uint64_t ago = (81 - seq) * 100 * NS_PER_MS, over = ago - 50 * NS_PER_MS;
            uint64_t delay = rank == late ? 40 * NS_PER_MS : noise ? (uint64_t)rand_r(&seed) % noise : 0;
            made_call(world, seq, ago - delay, over);
        }
    }
    return job;
}

static void test_slow_rank(void **state)
{
    struct made_job job = steps(5, 4, 5 * NS_PER_MS);
    expect(&job, FINDING_SLOW, 4,
           "rank 4 (process 1004) was last in 60 of the last 60 calls of communicator world in which ranks waited; "
           "they waited 37");
}

/* Two stages of two ranks. Rank 0 comes late to its neighbour 1, and its message comes late to rank 2. So rank 2 comes
 * late to its own neighbour 3. */
static void test_late_by_messages(void **state)
{
    static const char *const names[] = {"first", "second"};
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *tensor = made_comm(job.boxes[rank], 1 + (uint64_t)rank / 2, names[rank / 2], rank % 2, 2);
        for (uint64_t seq = 0; seq < 80; seq++)
            made_call(tensor, seq, ((81 - seq) * 100 - (rank % 2 ? 0 : 40)) * NS_PER_MS,
                      ((81 - seq) * 100 - 50) * NS_PER_MS);
        if (rank % 2)
            continue;
        struct blackbox_comm *pipeline = made_comm(job.boxes[rank], 3, "pipeline", rank / 2, 2);
        for (uint64_t seq = 0; seq < 80; seq++) {
            uint64_t ago = (81 - seq) * 100 * NS_PER_MS;
            struct blackbox_op *op = made_call(pipeline, seq, ago, ago - (rank ? 40 : 1) * NS_PER_MS);
            op->collective = WIRE_RECV;
            op->root = !(rank / 2);
        }
    }
    expect(&job, FINDING_SLOW, 0, "of communicator first");
}

/* A late rank does not hold up a rank that waits for nobody. */
static void test_nobody_waits(void **state)
{
    struct made_job job = steps(4, 2, 0);
    for (int rank = 0; rank < 4; rank++)
        for (size_t i = 0; i < 80; i++)
            job.boxes[rank]->comms[0].ops[i].end = job.boxes[rank]->comms[0].ops[i].begin + 1000;
    expect_nothing(NULL, &job);
}

/* Clocks of hosts do not compare: the last rank is through first. */
static void test_slow_rank_of_another_host(void **state)
{
    struct made_job job = steps(4, 2, 0);
    for (int rank = 0; rank < 4; rank++) {
        job.boxes[rank]->header.boot_id[0] = (uint8_t)(rank + 1);
        for (size_t i = 0; i < 80; i++) {
            job.boxes[rank]->comms[0].ops[i].begin += (uint64_t)rank * 100 * NS_PER_S;
            job.boxes[rank]->comms[0].ops[i].start += (uint64_t)rank * 100 * NS_PER_S;
            job.boxes[rank]->comms[0].ops[i].end += (uint64_t)rank * 100 * NS_PER_S;
        }
    }
    expect(&job, FINDING_SLOW, 2, "was last in 60 of the last 60");
}

static void test_noise_is_healthy(void **state)
{
    struct made_job job = steps(4, -1, 40 * NS_PER_MS);
    expect_nothing(NULL, &job);
}

/* Two ranks take turns: neither is to blame. */
static void test_two_are_late(void **state)
{
    struct made_job job = steps(4, -1, 0);
    for (size_t i = 0; i < 80; i++)
        job.boxes[i % 2]->comms[0].ops[i].begin += 40 * NS_PER_MS;
    expect_nothing(NULL, &job);
}

/* One thread; it ran for 9 ns. */
static struct process_facts facts(uint64_t at, uint64_t delayed)
{
    return (struct process_facts){
        .state = PROCESS_RUNS, .at = at, .threads = {{.number = 1, .ran = 9, .delayed = delayed}}, .thread_count = 1};
}

/* Where all wait for processors, no rank starves another. */
static void test_crowded(void **state)
{
    struct made_job before = ring(4), now = ring(4);
    for (size_t i = 0; i < 4; i++) {
        before.boxes[i]->comms[0].ops[1].wait_round = 2;
        before.facts[i] = facts(MADE_NOW - NS_PER_S, 1);
        now.facts[i] = facts(MADE_NOW, 800 * NS_PER_MS);
    }
    expect_nothing(&before, &now);
}

/* The rank stands still for long enough to be taken for a hang. */
static void test_starved_still(void **state)
{
    struct made_job before = ring(4), now = ring(4);
    before.boxes[1]->comms[0].op_count = now.boxes[1]->comms[0].op_count = 1;
    for (size_t i = 0; i < 4; i++) {
        before.facts[i] = facts(MADE_NOW - NS_PER_S, 1);
        now.facts[i] = facts(MADE_NOW, i == 1 ? 800 * NS_PER_MS : NS_PER_MS);
    }
    struct findings found = find_by(&before, &now);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_STARVED);
    assert_non_null(strstr(found.items[0].sentence, "; it is waited for by ranks 0 2 3 in allreduce #2"));
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

/* The thread has not run since the first look, so nothing is counted yet. */
static void test_starved_throughout(void **state)
{
    struct made_job before = steps(4, 1, 0), now = steps(4, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        before.facts[i] = facts(MADE_NOW - NS_PER_S, 1);
        now.facts[i] = facts(MADE_NOW, 1);
    }
    before.facts[1].threads[0].ready = now.facts[1].threads[0].ready = true;
    struct findings found = find_by(&before, &now);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_STARVED);
    assert_int_equal(found.items[0].culprit.rank, 1);
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

static void test_starved(void **state)
{
    struct made_job before = steps(4, 1, 0), now = steps(4, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        before.facts[i] = facts(MADE_NOW - NS_PER_S, 1);
        now.facts[i] = facts(MADE_NOW, i == 1 ? 800 * NS_PER_MS : 90 * NS_PER_MS);
    }
    struct findings found = find_by(&before, &now);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_STARVED);
    assert_int_equal(found.items[0].culprit.rank, 1);
    assert_non_null(strstr(found.items[0].sentence, "ready to run without one for 800.0 ms"));
    findings_free(&found);
    made_free(&before);
    made_free(&now);
}

static void test_confirmed(void **state)
{
    struct made_job job = steps(4, 1, 0), other = steps(4, 2, 0), hang = ring(4);
    struct findings first = find_by(NULL, &job), second = find_by(NULL, &job), third = find_by(NULL, &other),
                    fourth = find_by(NULL, &hang);
    findings_confirm(&second, &first);
    assert_int_equal(second.count, 1);
    findings_confirm(&third, &second);
    assert_int_equal(third.count, 0);
    findings_confirm(&fourth, &third);
    assert_int_equal(fourth.count, 1);
    findings_free(&first);
    findings_free(&second);
    findings_free(&third);
    findings_free(&fourth);
    made_free(&job);
    made_free(&other);
    made_free(&hang);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_in_a_circle),
        cmocka_unit_test(test_rounds_tell_who_does_not_take),
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_dead),
        cmocka_unit_test(test_dead_behind_stopped),
        cmocka_unit_test(test_other_hosts_are_not_dead),
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_long_pauses),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_inverted_order),
        cmocka_unit_test(test_lost_message),
        cmocka_unit_test(test_one_that_moves),
        cmocka_unit_test(test_not_quiet),
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_joining),
        cmocka_unit_test(test_odd_count),
        cmocka_unit_test(test_odd_of_two),
        cmocka_unit_test(test_skipped_of_two),
        cmocka_unit_test(test_skipped_call),
        cmocka_unit_test(test_first_cause),
        cmocka_unit_test(test_ends_of_a_message_differ),
        cmocka_unit_test(test_failure_elsewhere),
        cmocka_unit_test(test_recovered),
        cmocka_unit_test(test_slow_rank),
        cmocka_unit_test(test_late_by_messages),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_slow_rank_of_another_host),
        cmocka_unit_test(test_noise_is_healthy),
        cmocka_unit_test(test_two_are_late),
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_starved),
        cmocka_unit_test(test_starved_throughout),
        cmocka_unit_test(test_starved_still),
        cmocka_unit_test(test_confirmed),
    };
    return cmocka_run_group_tests_name("diagnosis", tests, NULL, NULL);
}
