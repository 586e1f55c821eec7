/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes and their segments in the black box: what was written is read. */
#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/tutti-lanes-XXXXXX";

static struct blackbox *must_read(const char *path)
{
    struct blackbox *box;
    assert_int_equal(blackbox_read(path, &box), TUTTI_SUCCESS);
    return box;
}

static struct trace_lane *open_lane(struct trace *trace, int index)
{
    const struct trace_about about = {.lane = index, .peer_pid = 42, .peer_host = 7};
    return trace_lane_open(trace, &about, "tcp");
}

static void test_segments(void **state)
{
    struct trace *trace = trace_open();
    struct trace_lane *lane = open_lane(trace, 1);
    const struct trace_payload payload = {
        .comm = 5, .seq = 6, .peer = 7, .slice = 0xffff, .round = 8, .ready = 10, .credit = 20};
    trace_lane_up(lane, &(struct trace_interface){.name = "mlx5_0123456789abcdef",
                                                  .device = 3,
                                                  .port = 2,
                                                  .rate = 400000,
                                                  .roles = 5,
                                                  .source = 0xC800,
                                                  .distance = 4,
                                                  .trip = 70000,
                                                  .segment = 65536,
                                                  .window = 3,
                                                  .window_bytes = 1ull << 40,
                                                  .queue = 17,
                                                  .peer_queue = 18,
                                                  .address = (const uint8_t[16]){1, 2},
                                                  .peer_address = (const uint8_t[16]){[15] = 3}});
    trace_lane_own(lane, true);
    trace_lane_borrow(lane, 4711, 1000);
    trace_lane_borrow(lane, 4712, 500);
    for (uint64_t i = 0; i < WIRE_BOX_SEGMENTS + 5; i++) {
        trace_segment_post(lane, i, &payload, i == 130 ? 1ull << 40 : 4096, 100 + i);
        if (i < WIRE_BOX_SEGMENTS)
            trace_segment_end(lane, i, i % 2 ? WIRE_SEGMENT_LANDED : WIRE_SEGMENT_LOST, 200 + i);
    }
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->lane_count, 1);
    const struct blackbox_lane *read = &box->lanes[0];
    assert_true(read->peer_pid == 42 && read->peer_host == 7 && read->index == 1 && read->device == 3 &&
                read->state == WIRE_LANE_UP);
    assert_true(read->port == 2 && read->rate == 400000 && read->roles == 5 && read->source == 0xC800);
    assert_true(read->distance == 4 && read->trip == 70000 && read->segment == 65536 && read->window == 3 &&
                read->window_bytes == 1ull << 40);
    assert_string_equal(read->interface, "mlx5_0123456789"); /* the longest name that a network interface can have */
    assert_string_equal(read->transport, "tcp");
    assert_true(read->queue == 17 && read->peer_queue == 18 && read->address[1] == 2 && read->peer_address[15] == 3);
    assert_true(read->own && read->owner == 4712 && read->borrowed == 1500);
    assert_int_equal(read->segment_count, WIRE_BOX_SEGMENTS);
    const struct blackbox_segment *first = &read->segments[0], *last = &read->segments[WIRE_BOX_SEGMENTS - 1];
    assert_true(first->position == 5 && first->status == WIRE_SEGMENT_LANDED && first->posted == 105 &&
                first->completed == 205);
    assert_true(first->comm == 5 && first->seq == 6 && first->peer == 7 && first->slice == 0xffff && first->round == 8);
    assert_true(first->ready == 10 && first->credit == 20 && first->length == 4096);
    assert_true(last->position == WIRE_BOX_SEGMENTS + 4 && last->status == WIRE_SEGMENT_POSTED && last->completed == 0);
    assert_int_equal(read->segments[125].length, UINT32_MAX);
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_places_of_lanes(void **state)
{
    struct trace *trace = trace_open();
    struct trace_lane *first = open_lane(trace, 0), *lane = first;
    const struct trace_payload payload = {0};
    trace_segment_post(first, 0, &payload, 1, 1);
    trace_lane_own(first, true);
    trace_lane_borrow(first, 1, 1);
    for (int i = 1; i < WIRE_BOX_LANES; i++)
        assert_non_null(lane = open_lane(trace, i));
    assert_null(open_lane(trace, 0));
    trace_lane_close(first);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->counters[WIRE_COUNTER_LANES_UNRECORDED], 1);
    assert_int_equal(box->lane_count, WIRE_BOX_LANES);
    assert_true(box->lanes[0].state == WIRE_LANE_CLOSED && box->lanes[0].segment_count == 1);
    blackbox_free(box);
    trace_lane_close(lane);
    assert_ptr_equal(open_lane(trace, 0), first); /* the oldest of those that are closed */
    box = must_read(trace_path(trace));
    assert_true(box->lanes[0].state == WIRE_LANE_DOWN && box->lanes[0].segment_count == 0);
    assert_true(!box->lanes[0].own && !box->lanes[0].owner && !box->lanes[0].borrowed);
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_no_segments(void **state)
{
    setenv("TUTTI_TRACE_SEGMENTS", "0", 1);
    param_reload();
    struct trace *trace = trace_open();
    const struct trace_payload payload = {0};
    assert_null(open_lane(trace, 0));
    trace_segment_post(NULL, 0, &payload, 1, 1);
    trace_segment_end(NULL, 0, WIRE_SEGMENT_LANDED, 1);
    trace_lane_up(NULL, &(struct trace_interface){.name = ""});
    trace_lane_own(NULL, true);
    trace_lane_borrow(NULL, 1, 1);
    trace_lane_down(NULL);
    trace_lane_close(NULL);
    trace_close(trace, false);
    unsetenv("TUTTI_TRACE_SEGMENTS");
    param_reload();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_places_of_lanes),
        cmocka_unit_test(test_no_segments),
    };
    if (!mkdtemp(dir))
        return 1;
    setenv("TUTTI_TRACE_DIR", dir, 1);
    unsetenv("TUTTI_TRACE");
    param_reload();
    int failed = cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
    return rmdir(dir) != 0 ? 1 : failed;
}
