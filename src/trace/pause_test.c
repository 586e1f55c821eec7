/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses between calls: counted by length, whatever the ring of calls has forgotten; and what the program says of them.
 */
#include "trace/trace_testing.h"
#include "wire/boxread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct wire_name ring = {"ring"};

/* Ticks, as the writer counts them. */
static uint64_t ticks_of(const struct trace *trace, unsigned times)
{
    return (uint64_t)times * trace->pause_ticks;
}

static void call(struct trace_comm *comm, uint64_t seq, uint64_t count)
{
    trace_op_passed(comm, seq, trace_what(WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1), count, 4 * count, &ring,
                    TUTTI_SUCCESS);
}

/* Moves the beginning of the newest call back by `times` pauses. */
static void away(struct trace *trace, unsigned times)
{
    trace->newest->begin -= ticks_of(trace, times);
}

static void test_histogram(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *world = trace_comm_open(trace, 1, "world", 0, 2, 2),
                      *pair = trace_comm_open(trace, 2, "p", 0, 2, 2);
    uint64_t seq = 0;
    for (int save = 0; save < 12; save++) {
        for (int step = 0; step < 300; step++)
            call(world, seq++, 1000);
        call(pair, seq, 500);
        away(trace, 40 + (unsigned)save % 2);
        call(world, seq++, 7);
    }
    call(world, seq, 1);
    away(trace, 2);
    call(pair, seq, 3);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->pause_count, 2);
    const struct blackbox_pause *shortest = &box->pauses[0], *pause = &box->pauses[1];
    assert_int_equal(shortest->count, 1);
    assert_int_equal(pause->count, 12);
    assert_true(pause->longest > 20 * shortest->longest / 2 && pause->longest < 50 * shortest->longest / 2);
    assert_true(pause->latest && pause->latest <= box->now);
    assert_true(pause->before == WIRE_ALLREDUCE && pause->before_count == 500 && pause->after_count == 7);
    blackbox_free(box);
    trace_close(trace, false);
}

/* A caller that waits in a call is not outside of it. */
static void test_in_a_call(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "world", 0, 2, 2);
    struct trace_op *op = trace_op_begin(comm, 1, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 10, 40);
    trace_op_start(op, &ring, 1, 1);
    away(trace, 100);
    call(comm, 2, 10);
    struct wire_box_op *late =
        (struct wire_box_op *)trace_op_begin(comm, 3, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 10, 40);
    trace_op_start((struct trace_op *)late, &ring, 1, 1);
    away(trace, 100);
    trace_op_end(comm, (struct trace_op *)late, TUTTI_SUCCESS);
    call(comm, 4, 10);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->pause_count, 0);
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_expected(void **state)
{
    struct trace *trace = trace_open();
    trace_expect_pause(trace, "checkpoint", 60 * NS_PER_S);
    struct blackbox *box = must_read(trace_path(trace));
    assert_string_equal(box->expected, "checkpoint");
    assert_true(box->expected_since <= box->now && box->expected_until > box->now);
    blackbox_free(box);
    trace_expect_pause(trace, NULL, 0);
    box = must_read(trace_path(trace));
    assert_int_equal(box->expected_until, 0);
    blackbox_free(box);
    trace_expect_pause(NULL, "nothing", 1);
    trace_close(trace, false);
}

/* ---- Samples of the speed ---- */

/* A week of calls, with a sample every four seconds: few remain, the newer the denser. It ends now, since the reader
 * compares times with now. */
static void test_samples(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *world = trace_comm_open(trace, 1, "world", 0, 2, 2);
    enum { STEPS = 150000 };
    uint64_t step = ticks_of(trace, 16) / 64, end = trace_now(); /* an hour's: machines may have started lately */
    uint64_t first = end > STEPS * step ? end - STEPS * step : 0;
    step = (end - first) / STEPS;
    for (unsigned i = 0; i <= STEPS; i++) {
        trace->counters[WIRE_COUNTER_SENT_TCP] = 1000ull * i;
        trace->counters[WIRE_COUNTER_OPERATIONS] = i;
        trace->sample_at = 0;
        trace_sample(trace, first + i * step);
    }
    assert_true(trace->sample_at == first + STEPS * step + ticks_of(trace, 16)); /* the next one is due then */
    trace->sample_at = UINT64_MAX; /* on a slow machine the call would take one */
    call(world, 1, 1000);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->sample_count, WIRE_BOX_SAMPLES + 1);
    const struct blackbox_sample *all = box->samples, *last = &all[WIRE_BOX_SAMPLES];
    assert_true(all[0].calls == 0 && all[WIRE_BOX_SAMPLES - 1].calls == STEPS);
    assert_true(last->at == box->now && last->calls == STEPS + 1);
    for (size_t i = 2; i < WIRE_BOX_SAMPLES - 8; i++) {
        assert_true(all[i].at > all[i - 1].at && all[i].bytes == 1000 * all[i].calls);
        if (8 * (all[i].calls - all[i - 1].calls) > 2 * (STEPS - all[i - 1].calls))
            fail_msg("sample %zu: %lu to %lu", i, (unsigned long)all[i - 1].calls, (unsigned long)all[i].calls);
    }
    blackbox_free(box);
    struct wire_box_samples *samples =
        (struct wire_box_samples *)(void *)((uint8_t *)trace->counters - WIRE_BOX_COUNTER_AT + WIRE_BOX_SAMPLE_AT);
    samples->items[50].calls = 1; /* nonsense is left out */
    samples->items[51].at = 1;
    box = must_read(trace_path(trace));
    assert_int_equal(box->sample_count, WIRE_BOX_SAMPLES - 1);
    blackbox_free(box);
    samples->stamp++; /* being written */
    box = must_read(trace_path(trace));
    assert_int_equal(box->sample_count, 0);
    blackbox_free(box);
    trace_close(trace, false);
}

/* Bytes of collectives: a sum over what the ring remembers, and as much for each that it has forgotten. */
static void test_called(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *world = trace_comm_open(trace, 1, "world", 0, 2, 2);
    trace_sample(trace, trace_now());
    for (unsigned i = 1; i <= 1000; i++)
        call(world, i, 10); /* elements of 4 bytes */
    trace->sample_at = 0;
    trace_sample(trace, trace_now());
    for (unsigned i = 1001; i <= 1100; i++)
        call(world, i, 100);
    trace->sample_at = 0;
    trace_sample(trace, trace_now());
    call(world, 1101, 10);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->sample_count, 4);
    assert_int_equal(box->samples[1].called, 1000 * 40);
    assert_int_equal(box->samples[2].called, 1000 * 40 + 100 * 400);
    assert_int_equal(box->samples[3].called, 1000 * 40 + 101 * 400); /* as large as the last ones, about */
    blackbox_free(box);
    trace_close(trace, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_samples, make_dir, remove_dir),
                                       cmocka_unit_test_setup_teardown(test_called, make_dir, remove_dir),
                                       cmocka_unit_test_setup_teardown(test_histogram, make_dir, remove_dir),
                                       cmocka_unit_test_setup_teardown(test_in_a_call, make_dir, remove_dir),
                                       cmocka_unit_test_setup_teardown(test_expected, make_dir, remove_dir)};
    return cmocka_run_group_tests_name("pauses", tests, NULL, NULL);
}
