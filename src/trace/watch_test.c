/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that are watched: what happened to one is read later, with its time and its cause. By a clock of the test. */
#include "trace/watch.h"
#include "trace/trace_testing.h"
#include "wire/boxwatch.h"

#define MS NS_PER_MS
#define MB 1000000.0

/* A lane, and its clock, which begins where that of the reader cannot be. */
struct watched {
    struct trace *trace;
    struct trace_lane *lane;
    uint64_t now, next;
};

static struct watched watched_open(void)
{
    const struct trace_about about = {.lane = 8, .peer_pid = 42, .peer_host = 7};
    struct watched watched = {.trace = trace_open(), .now = 5000 * NS_PER_S};
    watched.lane = trace_lane_open(watched.trace, &about, "verbs");
    trace_lane_up(watched.lane, &(struct trace_interface){.name = "mlx5_0"});
    return watched;
}

/* One segment, alone on its lane, `late` after the one before; given and allowed `ready` and `credit` before that. */
static void one(struct watched *watched, uint64_t length, uint64_t took, uint64_t late, uint64_t ready, uint64_t credit)
{
    watched->now += late;
    const struct trace_payload payload = {.ready = watched->now - ready, .credit = watched->now - credit};
    trace_segment_post(watched->lane, watched->next, &payload, length, watched->now);
    watched->now += took;
    trace_segment_landed(watched->lane, watched->next++, false, watched->now);
}

/* Segments of 100,000 bytes, one behind the other, for this time at this rate in MB/s. */
static void carry(struct watched *watched, uint64_t ms, double rate)
{
    uint64_t end = watched->now + ms * MS, each = (uint64_t)(100000 / rate * 1000);
    while (watched->now < end)
        one(watched, 100000, each, 0, each, each);
}

static struct blackbox *look(const struct watched *watched)
{
    struct blackbox *box = must_read(trace_path(watched->trace));
    assert_int_equal(box->lane_count, 1);
    assert_non_null(box->lanes->watch);
    return box;
}

static void assert_about(double value, double wanted)
{
    if (value < wanted * 0.95 || value > wanted * 1.05)
        fail_msg("%g, want about %g", value, wanted);
}

/* What was slow for 300 ms is found a minute later, and by its time. */
static void test_a_slow_third_of_a_second(void **state)
{
    struct watched watched = watched_open();
    carry(&watched, 3000, 100);
    uint64_t begin = watched.now;
    carry(&watched, 300, 10);
    uint64_t end = watched.now;
    carry(&watched, 90000, 100);
    struct blackbox *box = look(&watched);
    const struct wire_box_watch *watch = box->lanes->watch;
    const struct wire_box_mark *hour = watch_mark(watch, WATCH_LEAST, WIRE_LAST_HOUR, watched.now);
    assert_about(watch_rate(hour), 10 * MB);
    assert_true(hour->end > begin && hour->end <= end + 10 * MS && hour->cause == WINDOW_NETWORK);
    assert_about(watch_rate(watch_mark(watch, WATCH_LEAST, WIRE_LAST_MINUTE, watched.now)), 100 * MB);
    assert_about(watch_rate(watch_mark(watch, WATCH_LEAST, WIRE_LAST_SECOND, watched.now)), 100 * MB);
    assert_null(watch_mark(watch, WATCH_LEAST, WIRE_LAST_HOUR, watched.now + 2 * 3600 * NS_PER_S));
    const struct wire_box_slow *slow = watch_slow(watch, 0);
    assert_non_null(slow);
    assert_null(watch_slow(watch, 1));
    assert_true(slow->begin >= begin - 10 * MS && slow->begin <= begin + 100 * MS);
    assert_true(slow->end >= end - 100 * MS && slow->end <= end + 100 * MS);
    assert_about(watch_slow_rate(slow), 10.6 * MB); /* two segments of its last window were quick */
    assert_about((double)slow->usual, 100 * MB);
    assert_int_equal(box->counters[WIRE_COUNTER_LANES_SLOW], 1);
    assert_int_equal(box->events[box->event_count - 2].kind, WIRE_EVENT_LANE_SLOW);
    const struct blackbox_event *over = &box->events[box->event_count - 1];
    assert_true(over->kind == WIRE_EVENT_LANE_SLOW_OVER && over->lane == 8 && over->peer_pid == 42);
    assert_about((double)over->value1, 300);
    assert_int_equal(watch_row(watch->rates, WIRE_WATCH_RATES, 0.5), watch_row_of_rate((uint64_t)(100 * MB)));
    assert_int_equal(watch->segments / watch->windows, WINDOW_SEGMENTS);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

/* A lane that stays slow is told of once, and is usual after a minute. A short drop is in the least window alone. */
static void test_slow_for_good(void **state)
{
    struct watched watched = watched_open();
    carry(&watched, 1000, 100);
    carry(&watched, 80, 10);
    carry(&watched, 1000, 100);
    struct blackbox *box = look(&watched);
    assert_null(watch_slow(box->lanes->watch, 0));
    assert_about(watch_rate(watch_mark(box->lanes->watch, WATCH_LEAST, WIRE_LAST_HOUR, watched.now)), 10 * MB);
    blackbox_free(box);
    carry(&watched, 90000, 10);
    box = look(&watched);
    assert_int_equal(box->lanes->watch->slows, 1);
    assert_about((double)box->lanes->watch->slow[0].ns, 60.0 * NS_PER_S);
    assert_about((double)box->lanes->watch->usual, 10 * MB);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

/* Short segments are slower without fault: they compare with each other. */
static void test_sizes_apart(void **state)
{
    struct watched watched = watched_open();
    carry(&watched, 2000, 100);
    for (int i = 0; i < 2000; i++)
        one(&watched, 4096, 400000, 0, 1, 1); /* 10 MB/s */
    carry(&watched, 2000, 100);
    struct blackbox *box = look(&watched);
    assert_int_equal(box->lanes->watch->slow_windows, 0);
    assert_int_equal(box->lanes->watch->slows, 0);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

static void assert_pause(const struct watched *watched, enum window_cause cause, uint64_t ms)
{
    struct blackbox *box = look(watched);
    const struct wire_box_mark *pause = watch_mark(box->lanes->watch, WATCH_PAUSE, WIRE_LAST_SECOND, watched->now);
    assert_true(pause && pause->cause == cause && pause->ns == ms * MS);
    assert_about((double)box->lanes->watch->time[cause], (double)(ms * MS));
    blackbox_free(box);
}

static void test_pauses(void **state)
{
    struct watched watched = watched_open();
    carry(&watched, 500, 100);
    one(&watched, 100000, MS, 90 * MS, 0, 60 * MS); /* nobody for 30 ms, then no data */
    assert_pause(&watched, WINDOW_SENDER, 60);
    one(&watched, 100000, MS, 90 * MS, 80 * MS, 0);
    assert_pause(&watched, WINDOW_RECEIVER, 80);
    one(&watched, 100000, MS, 90 * MS, 90 * MS, 90 * MS);
    assert_pause(&watched, WINDOW_STARVED, 90);
    struct blackbox *box = look(&watched);
    assert_about((double)box->lanes->watch->time[WINDOW_IDLE_TIME], 40.0 * MS);
    assert_int_equal(box->lanes->watch->slow_windows, 0); /* pauses are none of the network's */
    blackbox_free(box);
    trace_close(watched.trace, false);
}

/* Times between two segments that are too short for a pause: the window has their cause. */
static void test_causes_of_windows(void **state)
{
    struct watched watched = watched_open();
    for (int i = 0; i < 64; i++)
        one(&watched, 1000, 20000, 60000, 0, 60000);
    struct blackbox *box = look(&watched);
    const struct wire_box_mark *least = watch_mark(box->lanes->watch, WATCH_LEAST, WIRE_LAST_SECOND, watched.now);
    assert_true(least && least->cause == WINDOW_SENDER);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

static void test_messages(void **state)
{
    struct watched watched = watched_open();
    for (uint64_t i = 0; i < 100; i++)
        trace_watch_message(watched.lane, i == 3 ? 50 * MS : 10000, watched.now += 2 * NS_PER_S);
    trace_watch_message(NULL, 1, 1);
    struct blackbox *box = look(&watched);
    const struct wire_box_watch *watch = box->lanes->watch;
    assert_int_equal(watch->messages, 100);
    assert_int_equal(watch_mark(watch, WATCH_MESSAGE, WIRE_LAST_HOUR, watched.now)->ns, 50 * MS);
    assert_int_equal(watch_mark(watch, WATCH_MESSAGE, WIRE_LAST_MINUTE, watched.now)->ns, 10000);
    assert_true(watch_time_of_row(watch_row(watch->times, WIRE_WATCH_TIMES, 0.5)) <= 10000);
    assert_true(watch_time_of_row(watch_row(watch->times, WIRE_WATCH_TIMES, 0.5) + 1) > 10000);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

/* A lane that comes up again begins anew: the time in which it was down is no pause of it. What it was stays. */
static void test_up_again(void **state)
{
    struct watched watched = watched_open();
    carry(&watched, 500, 100);
    trace_lane_down(watched.lane);
    trace_lane_up(watched.lane, &(struct trace_interface){.name = "mlx5_0"});
    one(&watched, 100000, MS, 5000 * MS, 5000 * MS, 5000 * MS);
    carry(&watched, 500, 100);
    struct blackbox *box = look(&watched);
    assert_null(watch_mark(box->lanes->watch, WATCH_PAUSE, WIRE_LAST_HOUR, watched.now));
    assert_true(box->lanes->watch->windows >= 120);
    blackbox_free(box);
    trace_close(watched.trace, false);
}

/* Rows of rates and times: the least of a row lies in it, and what is below lies below. */
static void test_rows(void **state)
{
    for (unsigned row = 1; row < WIRE_WATCH_RATES; row++) {
        assert_int_equal(watch_row_of_rate((uint64_t)watch_rate_of_row(row)), row);
        assert_int_equal(watch_row_of_rate((uint64_t)watch_rate_of_row(row) - 1), row - 1);
    }
    for (unsigned row = 1; row < WIRE_WATCH_TIMES; row++) {
        assert_int_equal(watch_row_of_time((uint64_t)watch_time_of_row(row)), row);
        assert_int_equal(watch_row_of_time((uint64_t)watch_time_of_row(row) - 1), row - 1);
    }
    assert_int_equal(watch_row_of_rate(UINT64_MAX), WIRE_WATCH_RATES - 1);
    assert_int_equal(watch_row_of_time(UINT64_MAX), WIRE_WATCH_TIMES - 1);
    assert_true(watch_row_of_rate(0) == 0 && watch_row_of_time(0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_slow_third_of_a_second),
        CASE(test_slow_for_good),
        CASE(test_sizes_apart),
        CASE(test_pauses),
        CASE(test_causes_of_windows),
        CASE(test_messages),
        CASE(test_up_again),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
