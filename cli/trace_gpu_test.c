/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace on operations of GPUs: no record names the rank that a GPU waits for, but the others' calls tell. */
#include "cli/trace_lanes.h"
#include "cli/trace_stage.h"

#include <jansson.h>

static const struct wire_name by_kernel = {"one-shot"}, by_copy = {"copy"};

static struct trace_op *call(struct trace_comm *comm, uint64_t seq)
{
    return trace_op_call(comm, seq, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 100, 400, 0);
}

static struct trace_op *issue(struct trace_comm *comm, uint64_t seq, bool waits)
{
    struct trace_op *op = call(comm, seq);
    trace_op_issued(op, &by_kernel, 0, 0);
    if (waits)
        trace_op_seen_waiting(op);
    return op;
}

static void done_until(struct trace_comm *comm, uint64_t seq)
{
    for (uint64_t i = 1; i <= seq; i++)
        trace_op_seen_done(issue(comm, i, false), TUTTI_SUCCESS);
}

static void group(struct trace_comm *comm, uint64_t seq, uint64_t sends, uint64_t receives)
{
    trace_op_issued(trace_op_call(comm, seq, WIRE_GROUP, TUTTI_INT8, -1, -1, 9, 18, sends | receives << 32), &by_copy,
                    0, 0);
}

/* ---- Collectives ---- */

/* Rank 1 is one call behind, rank 3 two. */
static void two_behind(struct trace *trace, struct trace_comm *world, int rank)
{
    done_until(world, rank == 3 ? 5 : 6);
    if (rank == 0 || rank == 2)
        issue(world, 7, rank == 0);
    if (rank == 0)
        issue(world, 8, false);
}

static void test_furthest_behind(void **state)
{
    stage_play(4, two_behind);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(") has not called allreduce #7 and is waited for by ranks 0 2 in allreduce #7 of communicator world");
    assert_shows("VERDICT: rank 3 ");
    assert_shows("; its last: allreduce #5, done");
    assert_shows("running");
    assert_shows("issued");
    assert_shows("one-shot");
}

static void test_nothing_wrong_yet(void **state)
{
    stage_play(4, two_behind);
    assert_int_equal(stage_run("--stuck 60m"), 0);
    assert_hides("VERDICT");
}

static void test_dead(void **state)
{
    stage_play(4, two_behind);
    stage_kill(1);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(", dead) is waited for by ranks 0 2 in allreduce #7");
}

static void one_lags(struct trace *trace, struct trace_comm *world, int rank)
{
    issue(world, 1, rank != 1);
}

static void test_gpu_that_has_not_come(void **state)
{
    stage_play(3, one_lags);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(", whose GPU has not been seen to come to allreduce #1, is waited for by ranks 0 2 in allreduce #1");
    assert_shows("VERDICT: rank 1 ");
}

static void one_is_calling(struct trace *trace, struct trace_comm *world, int rank)
{
    if (rank == 1)
        call(world, 1);
    else
        issue(world, 1, true);
}

static void test_call_that_does_not_return(void **state)
{
    stage_play(3, one_is_calling);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(") has not returned from its call of allreduce #1 and is waited for by ranks 0 2");
    assert_shows("called");
}

/* Copy engines do not say where they are: one that was not seen may be anywhere. */
static void all_copy(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_op *op = call(world, 1);
    trace_op_issued(op, &by_copy, 0, 0);
    if (rank == 0)
        trace_op_seen_waiting(op);
}

static void test_nobody_to_blame(void **state)
{
    stage_play(2, all_copy);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("stands still and names no rank that it waits for, in allreduce #1");
    assert_hides("is waited for");
}

static void test_not_traced(void **state)
{
    stage_play(3, one_lags);
    stage_kill(0);
    assert_int_equal(stage_run("--clean"), 0);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: rank 0 (no black box here: on another host, not traced, or never started) is waited for by "
                 "ranks 1 2");
}

/* Rank 0 has called more than its ring holds: it is not behind. */
static void far_ahead(struct trace *trace, struct trace_comm *world, int rank)
{
    for (uint64_t seq = 1; seq <= (rank ? 400 : 500); seq++)
        issue(world, seq, false);
    if (rank == 1)
        group(world, 1, 1, 0);
}

static void test_unrecorded_calls_count(void **state)
{
    stage_play(2, far_ahead);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_hides("has not called");
    assert_shows("244 operations up to #500 are not recorded");
}

/* A place in a queue is not a hang: #2 was called long ago, and #1 was over a moment ago. */
static void long_queue(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_op *first = issue(world, 1, false);
    issue(world, 2, false);
    usleep(600000);
    trace_op_seen_done(first, TUTTI_SUCCESS);
}

static void test_head_of_a_queue(void **state)
{
    stage_play(1, long_queue);
    assert_int_equal(stage_run("--json --stuck 0"), 0);
    json_t *all = json_loads(stage_output, 0, NULL);
    json_t *ops = json_object_get(
        json_array_get(json_object_get(json_array_get(json_object_get(all, "processes"), 0), "communicators"), 0),
        "operations");
    json_int_t called = json_integer_value(json_object_get(json_array_get(ops, 1), "begin_ns"));
    json_int_t over = json_integer_value(json_object_get(json_array_get(ops, 0), "end_ns"));
    json_int_t head = json_integer_value(json_object_get(json_array_get(ops, 1), "head_ns"));
    assert_true(over >= called + 600000000 && head == over);
    json_decref(all);
}

/* ---- Messages ---- */

/* A ring of 4, which rank 3 has not joined. */
static void open_ring(struct trace *trace, struct trace_comm *world, int rank)
{
    if (rank != 3)
        group(world, 1, 1ull << (rank + 1) % 4, 1ull << (rank + 3) % 4);
}

static void test_ring(void **state)
{
    stage_play(4, open_ring);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: rank 3 ");
    assert_shows("is waited for by ranks 0 2 in group #1 of communicator world");
    assert_shows("sends to 1, receives from 3");
}

/* A ring of 3: rank 1 has done its part, rank 2 has not called the second time. */
static void done_in_part(struct trace *trace, struct trace_comm *world, int rank)
{
    for (uint64_t seq = 1; seq <= (rank == 2 ? 1 : 2); seq++) {
        struct trace_op *op = trace_op_call(world, seq, WIRE_GROUP, TUTTI_INT8, -1, -1, 9, 18,
                                            1ull << (rank + 1) % 3 | 1ull << ((rank + 2) % 3 + 32));
        trace_op_issued(op, &by_copy, 0, 0);
        if (rank || seq == 1)
            trace_op_seen_done(op, TUTTI_SUCCESS);
    }
}

static void test_ring_that_one_has_done(void **state)
{
    stage_play(3, done_in_part);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: rank 2 ");
    assert_shows("is waited for by rank 0 in group #2 of communicator world");
}

/* Ranks 0 and 1 wait in a collective for rank 2, whose GPU waits for a message from rank 3. */
static void chain(struct trace *trace, struct trace_comm *world, int rank)
{
    if (rank == 2)
        trace_op_issued(trace_op_call(world, 1, WIRE_RECV, TUTTI_INT8, -1, 3, 9, 9, 8ull << 32), &by_kernel, 0, 0);
    if (rank != 3)
        issue(world, 1, rank < 2);
    if (rank == 3)
        trace_op_seen_done(issue(world, 1, true), TUTTI_SUCCESS);
}

static void test_chain(void **state)
{
    stage_play(4, chain);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("is waited for by rank 2 in recv #1 of communicator world");
    assert_hides("for by ranks 0 1");
    assert_hides("VERDICT: rank 2");
}

/* ---- Several communicators ---- */

/* Rank 1's GPU cannot come to the call of "world": its stream is in that of "pair", for which rank 0 has not called. */
static void crossed(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_comm *pair = trace_comm_open(trace, 78, "pair", rank, 2, 2);
    if (rank == 1)
        issue(pair, 1, true);
    issue(world, 1, rank == 0);
}

static void test_busy_elsewhere(void **state)
{
    stage_play(2, crossed);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: ranks use communicators in different order, or one has left out or repeated a call, ");
    assert_shows(" in allreduce #1 of communicator pair");
    assert_shows(" in allreduce #1 of communicator world");
}

/* ---- The listing ---- */

static void life(struct trace *trace, struct trace_comm *world, int rank)
{
    trace_comm_memory(world, WIRE_MEMORY_WINDOW, 4 << 20);
    trace_comm_memory(world, WIRE_MEMORY_BULK, 1 << 20);
    trace_comm_memory(world, WIRE_MEMORY_BULK, 2 << 20);
    trace_comm_memory(world, WIRE_MEMORY_MAILBOX, 2048);
    done_until(world, 3);
    for (uint64_t seq = 4; seq < 7; seq++)
        trace_op_captured(world, call(world, seq), &by_kernel, 0, 0);
    trace_op_captured(NULL, NULL, &by_kernel, 0, 0);
    trace_op_seen_done(call(world, 7), TUTTI_INVALID_USAGE);
}

static void test_listing(void **state)
{
    stage_play(1, life);
    assert_int_equal(stage_run("--all-ops --stuck 0"), 0);
    assert_shows(
        "    memory: device 7.0 MiB (window 4.0 MiB, bulk 3.0 MiB), pinned 2.0 KiB (mailbox 2.0 KiB), host 0 B\n");
    assert_shows("captured          -");
    assert_shows("3 calls went into graphs, whose launches are not seen");
    assert_shows("failed");
    assert_shows("invalid usage");
    assert_shows(" <");
    assert_hides("VERDICT");
    assert_int_equal(stage_run("--perfetto /dev/null"), 0);
}

static void test_json(void **state)
{
    stage_play(1, life);
    assert_int_equal(stage_run("--json"), 0);
    json_t *all = json_loads(stage_output, 0, NULL);
    json_t *comm =
        json_array_get(json_object_get(json_array_get(json_object_get(all, "processes"), 0), "communicators"), 0);
    json_t *device = json_object_get(json_object_get(comm, "memory"), "device"),
           *op = json_array_get(json_object_get(comm, "operations"), 4);
    assert_int_equal(json_integer_value(json_object_get(device, "bytes")), 7 << 20);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(device, "for"), "bulk")), 3 << 20);
    assert_int_equal(json_integer_value(json_object_get(comm, "captured")), 3);
    assert_true(json_is_true(json_object_get(op, "device")) && json_is_true(json_object_get(op, "captured")));
    assert_string_equal(json_string_value(json_object_get(op, "state")), "captured");
    json_decref(all);
}

/* What a GPU sends goes by another's interface, whose owner may have ended. */
static void test_loan(void **state)
{
    static const struct {
        uint64_t borrowed;
        uint32_t owner;
        const char *text;
    } cases[] = {{0, 0, ""}, {0, 4711, ""}, {4096, 0, "borrowed"}, {4096, 4711, "borrowed from process 4711"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct blackbox_lane lane = {.borrowed = cases[i].borrowed, .owner = cases[i].owner};
        char loan[48];
        view_lane_loan(&lane, loan, sizeof loan);
        assert_string_equal(loan, cases[i].text);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, stage_make_dir, stage_remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_furthest_behind),
        CASE(test_nothing_wrong_yet),
        CASE(test_dead),
        CASE(test_gpu_that_has_not_come),
        CASE(test_call_that_does_not_return),
        CASE(test_nobody_to_blame),
        CASE(test_not_traced),
        CASE(test_unrecorded_calls_count),
        CASE(test_head_of_a_queue),
        CASE(test_ring),
        CASE(test_ring_that_one_has_done),
        CASE(test_chain),
        CASE(test_busy_elsewhere),
        CASE(test_listing),
        CASE(test_json),
        cmocka_unit_test(test_loan),
    };
    return cmocka_run_group_tests_name("cli trace gpu", tests, NULL, NULL);
}
