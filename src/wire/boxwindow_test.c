/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of lanes: records in, bandwidth and causes out. */
#include "wire/boxwindow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define US   1000ull
#define SIZE 100000u /* bytes of a segment: 1 GB/s where one takes 100 us */
#define MOST 64

static struct blackbox_segment records[2][MOST];
static struct blackbox_lane lanes[2];
static struct blackbox box;
static struct lane_window *windows;

static int begin(void **state)
{
    box = (struct blackbox){.lanes = lanes, .lane_count = 2};
    for (int i = 0; i < 2; i++)
        lanes[i] = (struct blackbox_lane){.index = (uint32_t)i, .peer_pid = 1, .segments = records[i]};
    windows = NULL;
    return 0;
}

static int end(void **state)
{
    free(windows);
    return 0;
}

/* Times in us. */
static void add(int lane, uint64_t ready, uint64_t credit, uint64_t posted, uint64_t completed)
{
    struct blackbox_lane *to = &lanes[lane];
    to->segments[to->segment_count++] =
        (struct blackbox_segment){.status = completed ? WIRE_SEGMENT_LANDED : WIRE_SEGMENT_POSTED,
                                  .length = SIZE,
                                  .ready = ready * US,
                                  .credit = credit * US,
                                  .posted = posted * US,
                                  .completed = completed * US};
}

static size_t look(uint32_t segments)
{
    free(windows);
    return lane_windows(&box, 0, segments, &windows);
}

static uint64_t us(size_t window, enum window_cause cause)
{
    return windows[window].time[cause] / US;
}

static void test_nothing(void **state)
{
    assert_int_equal(look(8), 0);
    assert_null(windows);
    add(0, 1, 1, 10, 0); /* still under way */
    assert_int_equal(look(8), 0);
}

/* Of a ring that has gone round the first segment waited for others that are gone: the first window's rate is not its
 * lane's. */
static void test_a_ring_begins_in_the_middle(void **state)
{
    for (uint64_t i = 0; i < 9; i++) {
        add(0, 1000, 1000, 1000 + i * 100, 1400 + i * 100);
        records[0][i].position = 100 + i;
    }
    assert_int_equal(look(1), 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(window_rate(&windows[i]) == 1e9 && !windows[i].slow);
}

/* All are posted at once and land one after the other: the lane's rate, whatever the window. */
static void test_rate_is_the_lanes(void **state)
{
    for (uint64_t i = 0; i < 32; i++)
        add(0, 1000, 1000, 1000, 1100 + i * 100);
    for (uint32_t size = 1; size <= 32; size *= 2) {
        assert_int_equal(look(size), 32 / size);
        for (size_t i = 0; i < 32 / size; i++) {
            assert_true(window_rate(&windows[i]) == 1e9);
            assert_true(windows[i].segments == size && windows[i].cause == WINDOW_NETWORK && !windows[i].slow);
        }
    }
}

/* What comes last may arrive in one moment with what was before: no window of its own, and none that is slow. */
static void test_last_lands_in_no_time(void **state)
{
    for (uint64_t i = 0; i < 9; i++)
        add(0, 1000, 1000, 1000, 1100 + (i < 8 ? i : 7) * 100);
    assert_int_equal(look(8), 1);
    assert_int_equal(windows[0].segments, 9);
    assert_int_equal(windows[0].bytes, 9 * SIZE);
    assert_int_equal(us(0, WINDOW_NETWORK), 800);
    add(0, 5000, 1000, 5000, 5100); /* the same before a pause */
    assert_int_equal(look(8), 3);
    assert_true(windows[0].segments == 9 && windows[1].segments == 0 && windows[2].segments == 1);
    assert_false(windows[0].slow || windows[2].slow);
    add(0, 9000, 9000, 9000, 9000); /* alone, behind a pause: its rate is not known */
    assert_int_equal(look(8), 5);
    assert_true(window_rate(&windows[4]) == 0 && !windows[4].slow);
}

static void test_slow_network(void **state)
{
    uint64_t at = 1000;
    for (uint64_t i = 0; i < 40; i++) {
        at += i / 8 == 2 ? 300 : 100; /* the third window */
        add(0, 1000, 1000, 1000, at);
    }
    assert_int_equal(look(8), 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(windows[i].slow, i == 2);
    assert_int_equal(windows[2].cause, WINDOW_NETWORK);
    assert_int_equal(us(2, WINDOW_NETWORK), 2400);
}

static void test_pauses(void **state)
{
    add(0, 1000, 1000, 1000, 1100);
    add(0, 5000, 1000, 5000, 5100);     /* credit, no data */
    add(0, 5000, 9000, 9000, 9100);     /* data, no credit */
    add(0, 9000, 9000, 14000, 14100);   /* both */
    add(0, 20000, 18000, 20000, 20100); /* neither, until 18000 */
    assert_int_equal(look(8), 9);
    static const enum window_cause causes[] = {WINDOW_NETWORK,  WINDOW_SENDER,    WINDOW_NETWORK,
                                               WINDOW_RECEIVER, WINDOW_NETWORK,   WINDOW_STARVED,
                                               WINDOW_NETWORK,  WINDOW_IDLE_TIME, WINDOW_NETWORK};
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(windows[i].cause, causes[i]);
        assert_int_equal(windows[i].segments, i % 2 == 0);
        assert_true(window_rate(&windows[i]) == (i % 2 ? 0 : 1e9));
    }
    assert_int_equal(us(1, WINDOW_SENDER), 3900);
    assert_int_equal(us(7, WINDOW_SENDER), 2000);
    assert_int_equal(us(7, WINDOW_IDLE_TIME), 3900);
}

/* Short pauses are part of a window, and slow it down. */
static void test_trickle(void **state)
{
    uint64_t at = 1000;
    for (int i = 0; i < 16; i++, at += 190)
        add(0, 500, i < 8 ? 500 : at, at, at + 100); /* starved at first, then without credit */
    assert_int_equal(look(8), 2);
    assert_int_equal(us(0, WINDOW_STARVED), 7 * 90);
    assert_int_equal(us(1, WINDOW_RECEIVER), 8 * 90);
    assert_int_equal(windows[1].cause, WINDOW_NETWORK);
    assert_int_equal(windows[1].end - windows[1].begin, (8 * 90 + 800) * US);
}

static void test_other_lanes(void **state)
{
    add(0, 1000, 1000, 1000, 1100);
    add(0, 1000, 1000, 3000, 3100);
    add(1, 1000, 1000, 1050, 1500);
    add(1, 1000, 1000, 2500, 0); /* still under way */
    assert_int_equal(look(8), 3);
    assert_int_equal(us(1, WINDOW_UNUSED), 400 + 500);
    assert_int_equal(us(1, WINDOW_STARVED), 1000);
    lanes[1].peer_pid = 2; /* of another peer */
    assert_int_equal(look(8), 3);
    assert_int_equal(us(1, WINDOW_STARVED), 1900);
}

static void test_times_that_make_no_sense(void **state)
{
    add(0, 5000, 9000, 1000, 900);
    add(0, 50000, 90000, 1000, 2000);
    add(0, 0, 0, 500, 400000);
    add(0, 0, 0, 700, 800);
    size_t count = look(1);
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (int cause = 0; cause < WINDOW_CAUSES; cause++)
            sum += windows[i].time[cause];
        assert_true(windows[i].end >= windows[i].begin && sum == windows[i].end - windows[i].begin);
    }
}

static void test_resolution(void **state)
{
    for (uint64_t i = 0; i < 20; i++)
        add(0, 1000, 1000, 1000, 1001 + i); /* 8 take 8 us: too short to be told */
    assert_int_equal(look(8), 2);
    assert_int_equal(windows[0].segments, 10);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_nothing),
        CASE(test_a_ring_begins_in_the_middle),
        CASE(test_rate_is_the_lanes),
        CASE(test_last_lands_in_no_time),
        CASE(test_slow_network),
        CASE(test_pauses),
        CASE(test_trickle),
        CASE(test_other_lanes),
        CASE(test_times_that_make_no_sense),
        CASE(test_resolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
