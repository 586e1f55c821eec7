/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of several hosts: numbers of processes repeat, clocks do not compare, and a host may have fallen silent. */
#include "diagnosis/diagnosis_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORLD 0x77ull

/* Ranks of one communicator, two on a host; each host has a boot and a clock of its own. */
static struct made_job hosts_of(int ranks)
{
    struct made_job job = made_job((size_t)ranks);
    for (int i = 0; i < ranks; i++) {
        struct wire_box_header *header = &job.boxes[i]->header;
        snprintf(header->host, sizeof header->host, "host%d", i / 2);
        header->boot_id[0] = (uint8_t)(1 + i / 2);
        made_call(made_comm(job.boxes[i], WORLD, "world", i, ranks), 7, 20000000000, 19000000000);
    }
    return job;
}

static struct findings found_in(const struct made_job *job, bool watched)
{
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK, .watched = watched};
    return diagnosis_find(&snapshot);
}

static void assert_says(const struct finding *finding, const char *text)
{
    bool says = strstr(finding->sentence, text);
    for (size_t i = 0; i < finding->evidence_count; i++)
        says = says || strstr(finding->evidence[i], text);
    if (!says)
        fail_msg("\"%s\" is not in \"%s\" nor in its evidence", text, finding->sentence);
}

static void test_same_number_on_two_hosts(void **state)
{
    struct made_job job = hosts_of(4);
    for (int i = 0; i < 4; i += 2) { /* rank 1 of each pair is stopped: process 7 of its host, started at 5 */
        struct blackbox *stopped = job.boxes[i + 1];
        uint64_t pair = WORLD + 1 + (uint64_t)i;
        made_wait(made_comm(job.boxes[i], pair, "pair", 0, 2), 1, 1, 0);
        made_comm(stopped, pair, "pair", 1, 2);
        stopped->header.pid = 7;
        stopped->header.start_time = 5;
        job.facts[i + 1].state = PROCESS_STOPPED;
    }
    struct findings found = found_in(&job, true);
    assert_int_equal(found.count, 2);
    assert_false(finding_same_culprit(&found.items[0], &found.items[1]));
    assert_string_not_equal(found.items[0].culprit.host, found.items[1].culprit.host);
    findings_free(&found);
    made_free(&job);
}

/* The sentence names the host, because the number of a process means nothing without one. */
static void test_dead_elsewhere(void **state)
{
    struct made_job job = hosts_of(4);
    for (int i = 0; i < 2; i++)
        made_wait(&job.boxes[i]->comms[0], 8, 3, 1);
    job.boxes[2]->alive = job.boxes[3]->alive = false;
    struct findings found = found_in(&job, false);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_BEHIND);
    findings_free(&found);
    found = found_in(&job, true);
    assert_int_equal(found.items[0].kind, FINDING_DEAD);
    assert_int_equal(found.items[0].confidence, CERTAIN);
    assert_says(&found.items[0], "(process 1003 on host1, dead)");
    findings_free(&found);
    made_free(&job);
}

static void test_silent_host(void **state)
{
    struct made_job job = hosts_of(4);
    for (int i = 0; i < 3; i++)
        made_wait(&job.boxes[i]->comms[0], 8, 3, 1);
    struct findings found = found_in(&job, true);
    assert_int_equal(found.items[0].confidence, LIKELY);
    findings_free(&found);
    job.facts[3].unheard = 7000000000;
    found = found_in(&job, true);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_BEHIND);
    assert_int_equal(found.items[0].confidence, POSSIBLE);
    assert_says(&found.items[0], "nothing has been heard of its host host1 for 7.0 s");
    findings_free(&found);
    made_free(&job);
}

/* One clock is a day ahead: what counts is the time that each rank has waited by its own clock. */
static void test_joining(void **state)
{
    struct made_job job = made_job(2);
    made_event(job.boxes[0], WIRE_EVENT_JOIN, WORLD, 0, 3, 4000000000);
    made_event(job.boxes[1], WIRE_EVENT_JOIN, WORLD, 2, 3, 4000000000);
    job.boxes[1]->events->time += 86400000000000;
    job.boxes[1]->now += 86400000000000;
    struct findings found = found_in(&job, true);
    assert_int_equal(found.count, 0);
    findings_free(&found);
    job.boxes[1]->now += 8000000000;
    found = found_in(&job, true);
    assert_int_equal(found.count, 1);
    assert_says(&found.items[0], "rank 1 has not joined: 2 of 3 ranks wait to make a communicator, for 12.0 s");
    findings_free(&found);
    made_free(&job);
}

static void test_millions_are_missing(void **state)
{
    struct made_job job = made_job(1);
    made_event(job.boxes[0], WIRE_EVENT_JOIN, WORLD, 1, 16000000, 11000000000);
    struct findings found = found_in(&job, true);
    assert_says(&found.items[0],
                "ranks 0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 and 15999983 more have not joined: 1 of 16000000");
    findings_free(&found);
    made_free(&job);
}

static void lose(struct blackbox *box, uint64_t id, int rank, int nranks, int culprit)
{
    struct blackbox_comm *comm = made_comm(box, id, "comm", rank, nranks);
    comm->state = WIRE_COMM_FAILED;
    comm->culprit = culprit;
    comm->closed = MADE_NOW - 1;
}

/* Rank 3 died. Rank 2 lost 3 and left, 1 lost 2 and left, and 0 lost 1: rank 0 is told of 3 alone. */
static void test_left_one_after_another(void **state)
{
    struct made_job job = hosts_of(4);
    for (int i = 0; i < 3; i++) {
        lose(job.boxes[i], 100 + (uint64_t)i, 0, 2, 1);
        made_comm(job.boxes[i + 1], 100 + (uint64_t)i, "comm", 1, 2);
        job.boxes[i + 1]->alive = false;
    }
    struct findings found = found_in(&job, true);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_DEAD);
    assert_int_equal(found.items[0].culprit.world_rank, 3);
    findings_free(&found);
    made_free(&job);
}

/* Two ranks that blame each other: both are named, rather than none. */
static void test_blame_each_other(void **state)
{
    struct made_job job = hosts_of(2);
    lose(job.boxes[0], 100, 0, 2, 1);
    lose(job.boxes[1], 100, 1, 2, 0);
    struct findings found = found_in(&job, true);
    assert_in_range(found.count, 1, 2);
    findings_free(&found);
    made_free(&job);
}

/*
 * Two islands of two GPUs in an allreduce of three steps. Rank 3 does not come. Rank 2's GPU waits for it on their
 * island, and ranks 0 and 1 wait on rails: the step, and rank 3 alone, are named.
 */
static void test_steps(void **state)
{
    struct made_job job = hosts_of(4);
    for (int i = 0; i < 4; i++) {
        struct blackbox_comm *island = made_comm(job.boxes[i], WORLD + 1 + (uint64_t)i / 2, "world island", i % 2, 2);
        if (i == 2) {
            struct blackbox_op *op = made_wait(island, 22, -1, 0);
            op->collective = WIRE_REDUCE_SCATTER;
            op->device = true;
            op->wait_since = 0;
            op->step = wire_op_step(WIRE_ALLREDUCE, 1, 1, 3);
        } else {
            made_call(island, 21, 20000000000, 19000000000)->device = true;
        }
        if (i < 2)
            made_wait(&job.boxes[i]->comms[0], 8, i + 2, 1)->step = wire_op_step(WIRE_ALLREDUCE, (unsigned)i, 2, 3);
    }
    struct findings found = found_in(&job, true);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].kind, FINDING_BEHIND);
    assert_int_equal(found.items[0].culprit.world_rank, 3);
    assert_says(&found.items[0],
                "in step 2 of 3 (allreduce on the rail of index 1) of allreduce #8 of communicator world");
    assert_says(&found.items[0],
                "in step 1 of 3 of allreduce between hosts (reduce_scatter #22 on the island of index 1)");
    findings_free(&found);
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_number_on_two_hosts),
                                       cmocka_unit_test(test_dead_elsewhere),
                                       cmocka_unit_test(test_silent_host),
                                       cmocka_unit_test(test_joining),
                                       cmocka_unit_test(test_millions_are_missing),
                                       cmocka_unit_test(test_left_one_after_another),
                                       cmocka_unit_test(test_blame_each_other),
                                       cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests_name("diagnosis of several hosts", tests, NULL, NULL);
}
