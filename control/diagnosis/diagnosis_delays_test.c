/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of delays: what is slow in it, and what is none of its business. GPUs that come late or stand still. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Looks once. */
static struct findings find(struct made_job *job)
{
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    made_free(job);
    return found;
}

static void expect(struct made_job *job, enum finding_kind kind, int rank, const char *words)
{
    struct findings found = find(job);
    assert_int_equal(found.count, 1);
    const struct finding *first = &found.items[0];
    if (first->kind != kind || first->culprit.rank != rank || !strstr(first->sentence, words))
        fail_msg("%s, rank %d: %s", finding_row(first->kind)->name, first->culprit.rank, first->sentence);
    findings_free(&found);
}

static void expect_nothing(struct made_job *job)
{
    struct findings found = find(job);
    if (found.count)
        fail_msg("%s", found.items[0].sentence);
    findings_free(&found);
}

/* Every rank receives from every other, 1 ms each; slow(from, to) takes 30 ms. Larger messages take long and do not
 * count. */
static struct made_job exchange(bool (*slow)(int from, int to))
{
    struct made_job job = made_job(4);
    for (int to = 0; to < 4; to++) {
        struct blackbox_comm *world = made_comm(job.boxes[to], 1, "world", to, 4);
        uint64_t seq = 0, ago = 50 * NS_PER_S;
        for (int turn = 0; turn < 8; turn++)
            for (int from = 0; from < 4; from++) {
                if (from == to)
                    continue;
                uint64_t took = slow(from, to) ? 30 * NS_PER_MS : NS_PER_MS;
                struct blackbox_op *op = made_call(world, ++seq, ago, ago - (turn ? took : 900 * NS_PER_MS));
                op->collective = WIRE_RECV;
                op->root = from;
                op->bytes = turn ? 400 : 4000000;
                ago -= NS_PER_S;
            }
    }
    return job;
}

static bool from_2_to_1(int from, int to)
{
    return from == 2 && to == 1;
}

static bool from_2(int from, int to)
{
    return from == 2;
}

static bool to_3(int from, int to)
{
    return to == 3;
}

static bool nowhere(int from, int to)
{
    return false;
}

static void test_delay_matrix(void **state)
{
    struct made_job job = exchange(from_2_to_1);
    expect(
        &job, FINDING_LINK, 2,
        "what it sends to rank 1 of communicator world takes 30.0 ms, elsewhere messages of that size take 1000.0 us");
    job = exchange(from_2);
    expect(&job, FINDING_SENDER, 2, "what it sends in communicator world takes 30.0 ms");
    job = exchange(to_3);
    expect(&job, FINDING_RECEIVER, 3, "what it receives in communicator world");
    job = exchange(nowhere);
    expect_nothing(&job);
}

/* Four stages of a pipeline, forward and backward: the first one waits longest for what comes back. Sends take 1 ms,
 * but those that stage `slow` sends forward take longer. */
static struct made_job pipeline(int slow)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 4);
        uint64_t seq = 0, ago = 50 * NS_PER_S;
        for (int turn = 0; turn < 8; turn++)
            for (int way = -1; way <= 1; way++) {
                for (int receives = 0; way && receives <= 1; receives++) {
                    int peer = receives ? rank - way : rank + way;
                    if (peer < 0 || peer > 3)
                        continue;
                    bool waits = receives && (rank == 0 || rank == slow + 1);
                    uint64_t took = waits || (!receives && rank == slow && way > 0) ? 30 * NS_PER_MS : NS_PER_MS;
                    struct blackbox_op *op = made_call(world, ++seq, ago, ago - took);
                    op->collective = receives ? WIRE_RECV : WIRE_SEND;
                    op->root = peer;
                    op->bytes = 400;
                    ago -= NS_PER_S;
                }
            }
    }
    return job;
}

static void test_stages_wait_for_each_other(void **state)
{
    struct made_job job = pipeline(-9);
    expect_nothing(&job);
    job = pipeline(1);
    expect(&job, FINDING_LINK, 1, "what it sends to rank 2 of communicator world takes 30.0 ms");
}

/* GPUs of one host, each with a clock of its own. Calls return at once, so the times of the calls say nothing about the
 * GPUs: rank 2's calls were made 40 ms after the others'. GPUs but the last are in a call for 32 ms, or 25 to 40 ms. */
struct gpu_job {
    bool untold;        /* GPUs tell no times */
    int next;           /* ms until the program issues another call, which is short; 0: it issues none */
    bool varies, waits; /* the times in calls; the program waits for the end of the call, for that long */
};

static struct made_job on_gpus(struct gpu_job how)
{
    struct made_job job = made_job(4);
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 4);
        for (uint64_t i = 0; i < (how.next ? 160 : 80); i++) {
            uint64_t seq = how.next ? i / 2 : i, second = how.next ? i % 2 : 0;
            uint64_t ago = (81 - seq) * 100 * NS_PER_MS, last = (uint64_t)(rank + 1) * 1000 * NS_PER_S - ago;
            uint64_t took = rank == 3 || second ? 2 : how.varies ? 25 + seq * 5 % 16 : 32;
            uint64_t after = second * ((uint64_t)how.next + (how.waits && rank != 3 ? 25 + seq * 5 % 16 : 0));
            struct blackbox_op *op =
                made_call(world, i, ago - ((rank == 2) * 40 + after) * NS_PER_MS, ago - 90 * NS_PER_MS);
            op->device = true;
            op->collective = second ? WIRE_REDUCE : WIRE_ALLREDUCE;
            op->gpu_end = how.untold ? 0 : last + (1 + 3 * second) * NS_PER_MS;
            op->gpu_begin = how.untold ? 0 : op->gpu_end - took * NS_PER_MS;
        }
    }
    return job;
}

/* What counts is how long the program waits. One that computes for 29 ms, and then issues its next call, waits for the
 * 3 ms that are left of this one. One whose next call always comes after 45 ms does not wait at all. */
static void test_late_gpu(void **state)
{
    static const struct gpu_job late[] = {{0}, {.next = 2}, {.next = 10, .varies = true, .waits = true}, {.next = 40}},
                                quiet[] = {{.untold = true}, {.next = 29}, {.next = 45, .varies = true}};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        struct made_job job = on_gpus(late[i]);
        struct findings found = find(&job);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.items[0].kind, FINDING_SLOW);
        assert_int_equal(found.items[0].culprit.rank, 3);
        assert_true(i || strstr(found.items[0].evidence[0], "its GPU begins a call 98.0 ms after the end of the one "
                                                            "before it, the others' 68.0 ms at most"));
        findings_free(&found);
    }
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        struct made_job job = on_gpus(quiet[i]);
        expect_nothing(&job);
    }
}

/* GPUs exchange messages in a ring and reduce in each step. Rank 2 has made one of these calls twice, which was over at
 * once. Then no GPU gets on in a call of the other kind: messages, of which rank 0 is a step ahead, or a
 * reduction. `level`: all have made the call twice. */
static void gpus_stand_still(int twice, bool level)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        uint64_t all = rank || !twice ? 9 : 10, made[2] = {0};
        for (uint64_t step = 0; step < all; step++)
            for (int i = 0; i < 2; i++) {
                uint64_t ago = 3 * NS_PER_S + (all - step) * 50 * NS_PER_MS - (uint64_t)i * 10 * NS_PER_MS;
                int times = i == twice && step == 8 && (rank == 2 || level) ? 2 : 1;
                for (int time = 0; time < times; time++)
                    made_in_step(world, made[i]++, ago, i ? WIRE_REDUCE : WIRE_GROUP, 10 + time, 10 + time)->device =
                        true;
            }
        struct blackbox_op *op = made_wait(world, all, -1, 0);
        op->collective = twice ? WIRE_GROUP : WIRE_REDUCE;
        op->device = true;
        op->begin = op->start = op->wait_since = MADE_NOW - 3 * NS_PER_S;
    }
    struct findings found = find(&job);
    assert_int_equal(found.count, level ? 3 : 1);
    assert_int_equal(found.items->kind, level ? FINDING_STILL : FINDING_ORDER);
    assert_int_equal(found.items->culprit.rank, level ? 0 : 2);
    assert_true(level || strstr(found.items->sentence, "rank 2 (process 1002) has made a call twice: after "));
    assert_true(level || strstr(found.items->sentence, twice ? "after reduce of" : "after group of"));
    assert_true(level || strstr(found.items->sentence, "; ranks stand still in "));
    findings_free(&found);
}

static void test_gpus_stand_still(void **state)
{
    for (int twice = 0; twice < 2; twice++)
        for (int level = 0; level < 2; level++)
            gpus_stand_still(twice, level);
}

/* GPUs exchange messages in a ring and gather. Rank 2 is outside of calls. Rank 0 waits for its message, and rank 1,
 * which has had its own one, waits in the gather: it owes rank 0 nothing. */
static void test_ring_waits_for_one_outside(void **state)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        for (uint64_t step = 0; step < (rank == 2 ? 9 : 10); step++)
            for (int i = 0; i < (rank == 0 && step == 9 ? 1 : 2); i++) {
                uint64_t ago = 20 * NS_PER_S + (10 - step) * 50 * NS_PER_MS;
                struct blackbox_op *op =
                    made_in_step(world, step, ago, i ? WIRE_ALLGATHER : WIRE_GROUP, 10 + i * 10, 11 + i * 10);
                op->device = true;
                op->sends_to = i ? 0 : 1u << (rank + 1) % 3;
                op->recvs_from = i ? 0 : 1u << (rank + 2) % 3;
            }
        struct blackbox_op *last = &world->ops[world->op_count - 1];
        if (rank < 2) {
            last->state = WIRE_OP_RUNNING;
            last->end = 0;
            last->wait_since = last->begin;
        }
    }
    struct findings found = find(&job);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items->kind, FINDING_BEHIND);
    assert_int_equal(found.items->culprit.rank, 2);
    findings_free(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_delay_matrix),
                                       cmocka_unit_test(test_stages_wait_for_each_other),
                                       cmocka_unit_test(test_late_gpu), cmocka_unit_test(test_gpus_stand_still),
                                       cmocka_unit_test(test_ring_waits_for_one_outside)};
    return cmocka_run_group_tests_name("matrix of delays", tests, NULL, NULL);
}
