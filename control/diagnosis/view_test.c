/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/diagnosis_testing.h"
#include "diagnosis/view.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void open_view(struct view *view, const struct made_job *job)
{
    const struct snapshot snapshot = {.now = made_look(job), .stuck = NS_PER_S, .watched = true};
    assert_true(view_open(view, &snapshot));
    assert_int_equal(view->process_count, job->count);
}

/* Following `next` from every process ends at the one that has not called. */
static void test_who_waits(void **state)
{
    const int culprit = 13;
    struct made_job job = made_training(2, 3, 4, culprit);
    struct view view;
    open_view(&view, &job);
    for (size_t i = 0; i < job.count; i++) {
        size_t at = i, steps = 0;
        for (; view.processes[at].next != VIEW_NOBODY; at = view.processes[at].next)
            assert_true(steps++ < job.count);
        assert_int_equal(at, culprit);
        assert_int_equal(view.processes[i].state, (int)i == culprit ? VIEW_OUTSIDE : VIEW_WAITS);
        assert_int_equal(view.processes[i].in == NULL, (int)i == culprit);
    }
    view_close(&view);
    made_free(&job);
}

/* A stopped process is the end, also in the middle of a call. */
static void test_stopped(void **state)
{
    struct made_job job = made_job(2);
    struct view view;
    made_wait(made_comm(job.boxes[0], 1, "a", 0, 2), 0, 1, 0);
    made_wait(made_comm(job.boxes[1], 1, "a", 1, 2), 0, 0, 0);
    job.facts[1].state = PROCESS_STOPPED;
    open_view(&view, &job);
    assert_int_equal(view.processes[0].next, 1);
    assert_true(view.processes[1].next == VIEW_NOBODY);
    assert_null(view.processes[1].in);
    view_close(&view);
    made_free(&job);
}

/* A rank that waits for an unknown rank waits, and the graph ends there; a circle has no end. */
static void test_no_end(void **state)
{
    struct made_job job = made_job(3);
    struct view view;
    made_wait(made_comm(job.boxes[0], 1, "a", 0, 2), 0, 1, 0);
    made_wait(made_comm(job.boxes[1], 2, "b", 0, 2), 0, 1, 0);
    made_wait(made_comm(job.boxes[2], 2, "b", 1, 2), 0, 0, 0);
    open_view(&view, &job);
    assert_ptr_equal(view.processes[0].in, &view.comms[0].members[0]);
    assert_int_equal(view.processes[0].in->awaited, 1);
    assert_true(view.processes[0].next == VIEW_NOBODY);
    assert_int_equal(view.processes[1].next, 2);
    assert_int_equal(view.processes[2].next, 1);
    view_close(&view);
    made_free(&job);
}

static void test_states(void **state)
{
    static const char *const names[] = {"dead", "stopped", "traced", "failed", "silent", "ended", "inside", "outside"};
    struct made_job job = made_job(8);
    struct view view;
    for (int i = 0; i < 8; i++)
        made_comm(job.boxes[i], 1, "all", i, 8);
    job.boxes[0]->alive = false;
    job.facts[1].state = PROCESS_STOPPED;
    job.facts[2].state = PROCESS_TRACED;
    job.boxes[3]->comms->state = WIRE_COMM_FAILED;
    job.facts[4].unheard = 60 * NS_PER_S;
    job.boxes[5]->alive = false;
    job.boxes[5]->comms->state = WIRE_COMM_CLOSED;
    made_wait(job.boxes[6]->comms, 0, 3, 0)->wait_since = MADE_NOW - NS_PER_MS;
    open_view(&view, &job);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(view_state_name(view.processes[i].state), names[i]);
        assert_int_equal(view.processes[i].world_rank, i);
        assert_null(view.processes[i].in);
    }
    assert_int_equal(view.comms->members[6].awaited, 3); /* only for a moment, which does not keep it waiting */
    assert_false(view.comms->members[6].stuck);
    view_close(&view);
    made_free(&job);
}

static void test_delays(void **state)
{
    struct made_job job = made_job(4);
    struct view view;
    for (int rank = 0; rank < 4; rank++) {
        struct blackbox_comm *comm = made_comm(job.boxes[rank], 1, "ring", rank, 4);
        for (uint64_t i = 0; i < 6; i++) {
            uint64_t ago = (20 - i) * NS_PER_S, takes = (rank == 2 ? 50 : 5) * NS_PER_MS;
            struct blackbox_op *op = made_call(comm, i, ago, ago - takes);
            op->collective = WIRE_RECV;
            op->root = (rank + 3) % 4;
        }
    }
    open_view(&view, &job);
    const struct delays *delays = &view.comms->delays;
    assert_int_equal(delays->count, 4);
    assert_int_equal(delays->bytes, 400);
    assert_int_equal(delays->median, 5 * NS_PER_MS);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(delays->cells[i].slow, delays->cells[i].to == 2);
        assert_int_equal(delays->cells[i].from, (delays->cells[i].to + 3) % 4);
    }
    view_close(&view);
    made_free(&job);
}

static void test_nothing(void **state)
{
    struct made_job job = made_job(1);
    struct view view;
    open_view(&view, &job);
    assert_int_equal(view.comm_count, 0);
    assert_int_equal(view.processes->world_rank, -1);
    view_close(&view);
    made_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_waits), cmocka_unit_test(test_stopped), cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_states),    cmocka_unit_test(test_delays),  cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
