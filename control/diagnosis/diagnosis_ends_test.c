/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose two ends differ: which of the ends is named, and when neither. */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"
#include "wire/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct blackbox_op *message(struct blackbox_comm *comm, uint64_t seq, int collective, int peer, uint64_t count)
{
    struct blackbox_op *op = made_call(comm, seq, (20 - seq) * NS_PER_S, (20 - seq) * NS_PER_S - NS_PER_MS);
    op->collective = collective;
    op->root = peer;
    op->count = count;
    return op;
}

static void break_down(struct blackbox_comm *comm, struct blackbox_op *op, int culprit)
{
    comm->state = WIRE_COMM_FAILED;
    comm->result = TUTTI_INVALID_USAGE;
    comm->culprit = culprit;
    comm->closed = 2;
    strcpy(comm->sentence, "message 5 differs");
    if (op)
        op->result = TUTTI_INVALID_USAGE;
}

/* Rank 0 sends `sent` elements in message 5, and rank 1 receives `wanted`; before that all had `usual`. Rank 1 notices,
 * and all name rank 0. */
static struct made_job differing(uint64_t usual, uint64_t sent, uint64_t wanted)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        struct blackbox_op *last = NULL;
        for (uint64_t seq = usual ? 0 : 5; rank < 2 && seq < 6; seq++)
            last = message(world, seq, rank ? WIRE_RECV : WIRE_SEND, 1 - rank, seq < 5 ? usual : rank ? wanted : sent);
        break_down(world, rank == 1 ? last : NULL, 0);
    }
    return job;
}

static void test_ends_of_a_message(void **state)
{
    static const struct {
        uint64_t usual, sent, wanted;
        int odd;
        const char *words;
    } cases[] = {
        {1000, 2000, 1000, 0, "sends 2000 float, and rank 1 (process 1001) receives 1000 float; the other messages "},
        {1000, 1000, 900, 1, "that of rank 1 (process 1001) is new"},
        {1000, 1100, 900, -1, "nothing tells which of them is wrong"},
        {0, 1100, 900, -1, "rank 0 (process 1000) sends 1100 float, and rank 1 (process 1001) receives 900 float"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_job job = differing(cases[i].usual, cases[i].sent, cases[i].wanted);
        made_expect(NULL, &job, FINDING_MISMATCH, cases[i].odd, cases[i].words);
        made_free(&job);
    }
}

/* In each of ten steps ranks send to the next one and receive from the one before, in a group. In the last one rank 2
 * receives less than rank 1 sends, notices that, and names rank 1. `varied`: sizes differ from step to step. */
static struct made_job differing_groups(bool varied)
{
    struct made_job job = made_job(3);
    for (int rank = 0; rank < 3; rank++) {
        struct blackbox_comm *world = made_comm(job.boxes[rank], 1, "world", rank, 3);
        struct blackbox_op *last = NULL;
        for (uint64_t seq = 0; seq < 10; seq++) {
            made_call(world, seq, (20 - seq) * NS_PER_S, (20 - seq) * NS_PER_S - NS_PER_MS);
            last = message(world, seq, WIRE_GROUP, -1, varied ? seq : 100);
            last->bytes = 8 * last->count - (rank == 2 && seq == 9 ? 4 : 0);
        }
        break_down(world, rank == 2 ? last : NULL, 1);
        strcpy(world->sentence, "message 9 " WIRE_ENDS_DIFFER);
    }
    return job;
}

static void test_ends_in_groups(void **state)
{
    struct made_job job = differing_groups(false);
    made_expect(NULL, &job, FINDING_ORDER, 2, "came group of 800 bytes in world each of");
    made_free(&job);
    job = differing_groups(true);
    made_expect(NULL, &job, FINDING_FAILED, 1, "and its peer differ about a message, and either may be wrong");
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends_of_a_message), cmocka_unit_test(test_ends_in_groups)};
    return cmocka_run_group_tests_name("diagnosis: ends of messages", tests, NULL, NULL);
}
