/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the shape of recorded ones: jobs whose messages were lost or late, and whose ranks wait in the library.
 * Who is on its way, who waits itself, and who only gives its processor away is not to blame.
 */
#include "diagnosis/diagnosis_testing.h"

#include "base/clock.h"

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

/* kind -1: nothing is said. */
static void expect(const struct made_job *before, const struct made_job *now, int kind, int world_rank)
{
    struct findings found = find_by(before, now);
    if (found.count != (kind >= 0) || (found.count && (int)found.items[0].kind != kind))
        fail_msg("%zu findings: %s", found.count, found.count ? found.items[0].sentence : "");
    if (found.count)
        assert_int_equal(found.items[0].culprit.world_rank, world_rank);
    findings_free(&found);
}

/* ---- Late because of other calls ---- */

/* Rank 1 comes 40 ms late to each call. In a receive, before that; or to a broadcast of which rank 0 is the root. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_late_by_calls),
                                       cmocka_unit_test(test_late_by_a_broadcast)};
    return cmocka_run_group_tests_name("diagnosis of waits", tests, NULL, NULL);
}
