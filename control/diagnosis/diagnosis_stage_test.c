/* SPDX-License-Identifier: Apache-2.0 */
/* Stages of training by the pattern of calls: named where the pattern is clear. */
#include "diagnosis/diagnosis_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static void call(struct blackbox_comm *comm, int collective, double ago)
{
    uint64_t begun = (uint64_t)(ago * 1e9);
    made_call(comm, comm->op_count + 1, begun, begun - SECOND / 1000)->collective = collective;
}

/* An iteration that began at this time ago: tensor, pipeline, and the data group, if it has come to that. */
static void iterate(struct blackbox *box, double ago, bool data)
{
    call(&box->comms[0], WIRE_BROADCAST, ago);
    for (int i = 1; i < 4; i++) {
        call(&box->comms[0], WIRE_ALLREDUCE, ago - 0.1 * i);
        call(&box->comms[1], WIRE_RECV, ago - 0.1 * i);
        call(&box->comms[1], WIRE_SEND, ago - 0.1 * i);
    }
    for (int i = 0; data && i < 3; i++) {
        call(&box->comms[2], WIRE_REDUCE_SCATTER, ago - 0.5);
        call(&box->comms[2], WIRE_ALLGATHER, ago - 0.6);
    }
}

/* Rank 1 of two in the tensor group is behind in an extra communicator; it is stage 3 of 4. */
static struct made_job training(bool ended)
{
    struct made_job job = made_job(2);
    for (int i = 0; i < 2; i++) {
        struct blackbox *box = job.boxes[i];
        made_comm(box, 1, "tensor", i, 2);
        made_comm(box, 2 + (uint64_t)i, "pipeline", 2, 4);
        made_comm(box, 4 + (uint64_t)i, "data", 0, 8);
        iterate(box, 25, true);
        iterate(box, 15, ended);
        made_comm(box, 9, "watch", i, 2);
    }
    made_wait(&job.boxes[0]->comms[3], 1, 1, 0);
    return job;
}

/* What the finding says about stages; "": nothing. */
static char *evidence(const struct made_job *job)
{
    static char text[FINDING_LINE];
    const struct snapshot snapshot = {.now = made_look(job), .stuck = MADE_STUCK};
    struct findings found = diagnosis_find(&snapshot);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].culprit.rank, 1);
    *text = 0;
    for (size_t i = 0; i < found.items[0].evidence_count; i++)
        if (strstr(found.items[0].evidence[i], "by the pattern"))
            strcpy(text, found.items[0].evidence[i]);
    findings_free(&found);
    return text;
}

static void test_backward(void **state)
{
    struct made_job job = training(false);
    assert_string_equal(evidence(&job), "by the pattern of its calls: stage 3 of 4 of the pipeline (pipeline); in "
                                        "forward or backward, the iteration began 15.0 s ago");
    made_free(&job);
}

static void test_between(void **state)
{
    struct made_job job = training(true);
    assert_non_null(
        strstr(evidence(&job),
               "; between two iterations: optimizer, checkpoint or data loader, the iteration began 15.0 s ago"));
    made_free(&job);
}

static void test_exchange(void **state)
{
    struct made_job job = training(true);
    struct blackbox_comm *data = &job.boxes[1]->comms[2];
    data->ops[data->op_count - 1].state = WIRE_OP_RUNNING;
    data->ops[data->op_count - 1].begin = data->ops[data->op_count - 1].start = MADE_NOW - SECOND;
    struct blackbox_op *waits = &job.boxes[0]->comms[3].ops[0]; /* longer than a rank that moves elsewhere is given */
    waits->begin = waits->start = waits->wait_since = MADE_NOW - 11 * SECOND;
    assert_non_null(strstr(evidence(&job), "in the exchange of gradients, after its last backward"));
    made_free(&job);
}

/* Two pipelines, or a group that also reduces: the finding names no stage. */
static void test_unclear(void **state)
{
    struct made_job job = training(true);
    call(&job.boxes[1]->comms[1], WIRE_ALLREDUCE, 3);
    assert_string_equal(evidence(&job), "");
    made_free(&job);
    job = training(true);
    for (int i = 0; i < 4; i++)
        call(&job.boxes[1]->comms[3], WIRE_SEND, 3);
    assert_string_equal(evidence(&job), "");
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_backward), cmocka_unit_test(test_between),
                                       cmocka_unit_test(test_exchange), cmocka_unit_test(test_unclear)};
    return cmocka_run_group_tests_name("stages of training", tests, NULL, NULL);
}
