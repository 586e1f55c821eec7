/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on any input: nonsense, and jobs of any size. */
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

static void scramble(struct blackbox *box, unsigned *seed)
{
    for (size_t c = 0; c < box->comm_count; c++) {
        struct blackbox_comm *comm = &box->comms[c];
        for (size_t i = 0; i < comm->op_count; i++) {
            uint64_t *words = (uint64_t *)(void *)&comm->ops[i];
            for (int change = 0; change < 2; change++)
                words[(unsigned)rand_r(seed) % 8] ^= 1ull << (unsigned)rand_r(seed) % 64;
            comm->ops[i].wait_peer = rand_r(seed) % 40 - 20;
            comm->ops[i].collective = rand_r(seed) % 20;
            comm->ops[i].state = (enum wire_op_state)(1 + rand_r(seed) % 3);
        }
        comm->nranks = 1 + rand_r(seed) % 9;
        comm->rank = rand_r(seed) % comm->nranks;
        comm->state = (enum wire_comm_state)(1 + rand_r(seed) % 4);
        comm->culprit = rand_r(seed) % 20 - 5;
    }
}

/* Boxes that no program can have written: the rules give some answer, and do not crash. */
static void test_nonsense(void **state)
{
    for (unsigned round = 0; round < 2000; round++) {
        unsigned seed = round;
        struct made_job job = round % 2 ? made_training(2, 2, 2, 3) : made_training(5, 1, 1, 2);
        for (size_t i = 0; i < job.count; i++)
            scramble(job.boxes[i], &seed);
        struct findings found = find_by(round % 3 ? NULL : &job, &job);
        findings_free(&found);
        made_free(&job);
    }
}

static uint64_t steps_of(int dp, double *seconds)
{
    struct made_job job = made_training(8, 8, dp, 77);
    uint64_t begin = clock_ns();
    struct findings found = find_by(&job, &job);
    *seconds = (double)(clock_ns() - begin) / NS_PER_S;
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].culprit.pid, 1077);
    uint64_t steps = found.steps;
    findings_free(&found);
    made_free(&job);
    return steps;
}

/* The work grows in proportion to the ranks. */
static void test_growth(void **state)
{
    double seconds;
    uint64_t small = steps_of(16, &seconds), large = steps_of(64, &seconds), largest = steps_of(256, &seconds);
    print_message("1,024 ranks: %lu steps, 4,096: %lu, 16,384: %lu in %.2f s\n", (unsigned long)small,
                  (unsigned long)large, (unsigned long)largest, seconds);
    assert_true(large < 5 * small && largest < 5 * large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nonsense), cmocka_unit_test(test_growth)};
    return cmocka_run_group_tests_name("diagnosis of anything", tests, NULL, NULL);
}
