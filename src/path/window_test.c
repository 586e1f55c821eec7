/* SPDX-License-Identifier: Apache-2.0 */
/* How much may be under way by the distance of the peer: what is derived, what is told, and that links of scripted
 * lanes keep to it. */
#include "base/error.h"
#include "base/param.h"
#include "link/link_testing.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB (1ull << 20)

static void told(const char *text)
{
    setenv("TUTTI_WINDOWS", text, 1);
    param_reload();
}

static struct path_window window(enum wire_distance distance, uint32_t rate)
{
    struct path_nic nic = {.about.rate = rate};
    uint64_t us;
    enum path_origin origin;
    return path_window_of(&(struct path_lane){.distance = distance, .nic = &nic}, &us, &origin);
}

static bool is(struct path_window window, uint32_t segments, uint64_t bytes)
{
    return window.segments == segments && window.bytes == bytes;
}

/* 400 Gbit/s fill 0.5 MB of a rack's round trip, and 7, 15 and 30 times as much of the longer ones: of 512 KiB, and one
 * segment more. */
static void rate_times_round_trip(void **state)
{
    setenv("TUTTI_SEGMENT", "512K", 1);
    told("");
    assert_true(is(window(WIRE_DISTANCE_RACK, 400000), 0, MIB));
    assert_true(is(window(WIRE_DISTANCE_ZONE, 400000), 0, 4 * MIB));
    assert_true(is(window(WIRE_DISTANCE_BUILDING, 400000), 0, 8 * MIB));
    assert_true(is(window(WIRE_DISTANCE_CAMPUS, 400000), 0, 15 * MIB));
    assert_true(is(window(WIRE_DISTANCE_CAMPUS, 100000), 0, 4 * MIB + MIB / 2));
    assert_true(is(window(WIRE_DISTANCE_RACK, 1000), 0, MIB));
}

/* Shorter segments nearby: what lies in queues there is less, and far away nothing changes. */
static void segments_by_distance(void **state)
{
    struct path_nic nic = {.about.rate = 100000};
    struct path_lane near = {.distance = WIRE_DISTANCE_RACK, .nic = &nic}, other = near;
    const struct path_lane *lanes[] = {&near, &other};
    const struct path_payload payload = {.left = 8 * MIB};
    setenv("TUTTI_SEGMENT", "512K", 1);
    setenv("TUTTI_SEGMENTS", "rack=128K,campus=64M", 1);
    told("");
    assert_true(is(window(WIRE_DISTANCE_RACK, 100000), 0, MIB / 4));
    assert_true(is(window(WIRE_DISTANCE_CAMPUS, 100000), 0, 4 * MIB + MIB / 2));
    assert_int_equal(path_cut(NULL, lanes, 2, &payload, MIB / 2), MIB / 8);
    assert_int_equal(path_cut(NULL, lanes, 2, &payload, MIB / 16), MIB / 16); /* never longer than the link wants */
    near.distance = other.distance = WIRE_DISTANCE_ZONE;
    assert_int_equal(path_cut(NULL, lanes, 2, &payload, MIB / 2), MIB / 2);
    unsetenv("TUTTI_SEGMENTS");
    told("");
}

/* A lane to a peer of which nobody says where it is. */
static struct path_lane measured(struct path_nic *nic, uint64_t trip)
{
    return (struct path_lane){.untold = true, .trip = trip, .nic = nic};
}

static void distances_by_round_trip(void **state)
{
    static const struct {
        uint64_t ns;
        enum wire_distance distance;
    } trips[] = {{0, WIRE_DISTANCE_FAR},          {2000, WIRE_DISTANCE_RACK},      {26000, WIRE_DISTANCE_RACK},
                 {27000, WIRE_DISTANCE_ZONE},     {102000, WIRE_DISTANCE_ZONE},    {103000, WIRE_DISTANCE_BUILDING},
                 {213000, WIRE_DISTANCE_CAMPUS},  {600999, WIRE_DISTANCE_CAMPUS},  {601000, WIRE_DISTANCE_FAR},
                 {UINT64_MAX, WIRE_DISTANCE_FAR}, {212000, WIRE_DISTANCE_BUILDING}};
    struct path_nic nic = {.about.rate = 100000};
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
        struct path_lane lane = measured(&nic, trips[i].ns);
        assert_int_equal(path_distance_of(&lane), trips[i].distance);
        lane.untold = false; /* what the two say counts */
        lane.distance = WIRE_DISTANCE_ZONE;
        assert_int_equal(path_distance_of(&lane), WIRE_DISTANCE_ZONE);
    }
}

static bool limit(const struct path_lane *lane, uint64_t us, uint64_t bytes)
{
    uint64_t found;
    enum path_origin origin;
    struct path_window window = path_window_of(lane, &found, &origin);
    return found == us && origin != PATH_AS_TOLD && is(window, 0, bytes);
}

/* The round trip is what was measured, but a busy host's does not count where the place says better. */
static void measured_round_trips(void **state)
{
    struct path_nic nic = {.about.rate = 100000};
    struct path_lane lane = measured(&nic, 41500);
    setenv("TUTTI_SEGMENT", "64K", 1);
    told("");
    assert_true(limit(&lane, 42, 10 * MIB / 16)); /* 525,000 bytes, where no place is told */
    lane.trip = 15000;
    assert_true(limit(&lane, 0, 0)); /* three segments and one more: the queue that lanes have anyway */
    lane.trip = 16000;
    assert_true(limit(&lane, 16, 5 * MIB / 16));
    lane.trip = 900000; /* a busy host's, or that of another campus */
    assert_true(limit(&lane, 0, 0));
    lane = (struct path_lane){.distance = WIRE_DISTANCE_ZONE, .trip = 41500, .nic = &nic};
    assert_true(limit(&lane, 42, 10 * MIB / 16)); /* 525,000 bytes */
    lane.trip = 900000;
    assert_true(limit(&lane, 70, 15 * MIB / 16));
    lane.distance = WIRE_DISTANCE_FAR; /* told: another campus */
    lane.trip = 41500;
    assert_true(limit(&lane, 0, 0));
    lane = measured(&nic, 41500);
    setenv("TUTTI_SEGMENTS", "rack=8K,zone=16K", 1);
    told("zone=3");
    assert_int_equal(path_segment_of(&lane), 16384);
    uint64_t us;
    enum path_origin origin;
    assert_true(is(path_window_of(&lane, &us, &origin), 3, 0) && origin == PATH_AS_TOLD);
    unsetenv("TUTTI_SEGMENTS");
    told("");
}

/* Where nobody tells the length, what a round trip and 4 us hold; never less than 64 KiB, nor more than the default. */
static void segments_that_fill_the_way(void **state)
{
    static const struct {
        uint32_t rate;
        uint64_t trip, bytes;
    } ways[] = {{100000, 5000, MIB / 8}, {100000, 10000, MIB / 4}, {400000, 10000, MIB / 2}, {25000, 10000, MIB / 16},
                {40, 10000, MIB / 16},   {0, 10000, MIB / 2},      {100000, 0, MIB / 4}};
    unsetenv("TUTTI_SEGMENT");
    told("");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct path_nic nic = {.about.rate = ways[i].rate}, quick = {.about.rate = 400000};
        struct path_lane lane = {.distance = WIRE_DISTANCE_RACK, .trip = ways[i].trip, .nic = &nic};
        struct path_lane other = {.distance = WIRE_DISTANCE_CAMPUS, .nic = &quick};
        const struct path_lane *lanes[] = {&other, &lane};
        const struct path_payload payload = {.left = 64 * MIB};
        assert_int_equal(path_segment_of(&lane), ways[i].bytes);
        assert_int_equal(path_cut(NULL, lanes, 2, &payload, MIB / 2), ways[i].bytes); /* of all lanes the least */
        assert_int_equal(path_cut(NULL, lanes, 1, &payload, MIB / 2), MIB / 2);
    }
    struct path_nic nic = {.about.rate = 100000};
    struct path_lane lane = {.distance = WIRE_DISTANCE_RACK, .nic = &nic};
    assert_true(limit(&lane, 10, MIB / 2));
    lane.distance = WIRE_DISTANCE_ZONE;
    assert_int_equal(path_segment_of(&lane), MIB / 2);
    lane.distance = WIRE_DISTANCE_HOST;
    assert_int_equal(path_segment_of(&lane), MIB / 2);
    setenv("TUTTI_SEGMENT", "512K", 1); /* told */
    told("");
    lane.distance = WIRE_DISTANCE_RACK;
    assert_int_equal(path_segment_of(&lane), MIB / 2);
}

/* Where nobody tells a place, adapters with one rate have one length, whatever was measured. */
static void segments_where_no_place_is_told(void **state)
{
    static const uint64_t trips[] = {5000, 70000, 300000, 900000};
    struct path_nic nic = {.about.rate = 100000}, slow = {.about.rate = 40}, unknown = {.about.rate = 0};
    unsetenv("TUTTI_SEGMENT");
    told("");
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
        struct path_lane lane = measured(&nic, trips[i]);
        assert_int_equal(path_segment_of(&lane), MIB / 4);
        lane = measured(&slow, trips[i]);
        assert_int_equal(path_segment_of(&lane), MIB / 16);
        lane = measured(&unknown, trips[i]);
        assert_int_equal(path_segment_of(&lane), MIB / 2);
    }
    struct path_lane lane = measured(&nic, 0); /* nothing is measured over TCP */
    assert_int_equal(path_segment_of(&lane), MIB / 2);
    setenv("TUTTI_SEGMENT", "512K", 1);
    told("");
}

static void segments_that_are_none(void **state)
{
    static const char *const texts[] = {"rack",
                                        "rack=",
                                        "rack=1",
                                        "rak=64K",
                                        "rack=64K,",
                                        "rack=64K/1",
                                        "rack=64K,rack=64K",
                                        "rack=64K;zone=64K",
                                        ",rack=64K",
                                        "rack=-64K"};
    struct wire_process self = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("TUTTI_SEGMENTS", texts[i], 1);
        told("");
        assert_int_equal(path_settings(&self), TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(error_last(), "TUTTI_SEGMENTS: \""));
    }
    unsetenv("TUTTI_SEGMENTS");
    told("");
    assert_int_equal(path_settings(&self), TUTTI_SUCCESS);
}

static void none_where_nothing_is_known(void **state)
{
    told("");
    assert_true(is(window(WIRE_DISTANCE_CAMPUS, 0), 0, 0));
    assert_true(is(window(WIRE_DISTANCE_HOST, 400000), 0, 0));
    assert_true(is(window(WIRE_DISTANCE_FAR, 400000), 0, 0));
}

static void as_told(void **state)
{
    told("zone=8,campus=0/16M,host=1/64K,far=3,building=0");
    assert_true(is(window(WIRE_DISTANCE_ZONE, 400000), 8, 0));
    assert_true(is(window(WIRE_DISTANCE_CAMPUS, 0), 0, 16 * MIB));
    assert_true(is(window(WIRE_DISTANCE_HOST, 1), 1, 65536));
    assert_true(is(window(WIRE_DISTANCE_FAR, 1), 3, 0));
    assert_true(is(window(WIRE_DISTANCE_BUILDING, 400000), 0, 0));
    assert_true(is(window(WIRE_DISTANCE_RACK, 1000), 0, MIB)); /* not told */
}

static void windows_that_are_none(void **state)
{
    static const char *const texts[] = {"zone",
                                        "zone=",
                                        "=1",
                                        "zon=1",
                                        "zone=x",
                                        "zone=-1",
                                        "zone=1/",
                                        "zone=1/x",
                                        "zone=1/-1",
                                        "zone=/1M",
                                        "zone=1M",
                                        "zone=1,",
                                        ",zone=1",
                                        "zone=1,zone=2",
                                        "zone=1//2",
                                        "zone=4294967296",
                                        "zone/1=2",
                                        "zone=1;rack=1",
                                        "zone=1@",
                                        "zone=1@0",
                                        "zone=1@x",
                                        "zone=1@2/3",
                                        "zone=0000000000000000000000000000000000000000000000000000000000000001"};
    struct wire_process self = {0};
    struct path_windows windows;
    unsetenv("TUTTI_PLACE");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(path_parse_windows(texts[i], &windows));
        told(texts[i]);
        assert_int_equal(path_settings(&self), TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(error_last(), "TUTTI_WINDOWS: \""));
        assert_non_null(strstr(error_last(), texts[i]));
    }
}

/* ---- Links ---- */

/* The two sides are on two hosts of one zone. */
static tutti_result_t stand_apart(struct wire_process *self)
{
    static unsigned hosts;
    self->host = ++hosts;
    return path_parse_place(hosts % 2 ? "zone=z,rack=1" : "zone=z,rack=2", self->place) ? TUTTI_SUCCESS
                                                                                        : TUTTI_INVALID_ARGUMENT;
}

static struct path_policy policy;

static struct script *join_as(const char *windows, struct script_shape shape)
{
    script_setup(NULL);
    setenv("TUTTI_LANE_WINDOW", "0", 1);
    told(windows);
    policy = path_stripe;
    policy.open = stand_apart;
    policy.pick = script_policy.pick; /* in turn: what the stripe picks depends on the times of this machine */
    shape.policy = &policy;
    struct script *script = script_new(&shape);
    script_join(script);
    assert_int_equal(script->side[0].link->lane[0].view.distance, WIRE_DISTANCE_ZONE);
    assert_int_equal(script->side[1].link->lane[0].view.distance, WIRE_DISTANCE_ZONE);
    return script;
}

static struct script *join(const char *windows, int lanes)
{
    return join_as(windows, (struct script_shape){.lanes = lanes, .caps = TRANSPORT_CONFIRMS});
}

static unsigned under_way(const struct script *script)
{
    unsigned sum = 0;
    for (int i = 0; i < LINK_MAX_LANES; i++)
        sum += script->side[0].link->lane[i].view.segments;
    return sum;
}

static void finish(struct script *script, struct payload *pair[2])
{
    for (int i = 0; i < 20 && !pair[0]->done; i++)
        script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

/* Pauses at the limit, goes on with each completion, and puts on no lane that is full. */
static void pauses_and_refills(void **state)
{
    struct script *script = join("zone=1,rack=3,host=3,far=3", 2);
    struct payload *pair[2];
    struct link_lane *lane = script->side[0].link->lane;
    payload_pair(script, 0, 1, 6 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER); /* the credit */
    assert_true(lane[0].view.segments == 1 && lane[1].view.segments == 1);
    for (unsigned i = 0; i < 3; i++) {
        unsigned slow = i == 0;
        assert_true(script_act(script, 0, (int)slow, SCRIPT_DELIVER));
        assert_int_equal(under_way(script), 2);
        assert_true(
            script_act(script, 0, (int)slow, SCRIPT_SENT)); /* the completion: the next segment goes, on that lane */
        assert_true(lane[0].view.segments == 1 && lane[1].view.segments == 1);
    }
    finish(script, pair);
}

/* Where completions mean arrival, a far peer's window is wider than the transport's queue of four. */
static void wider_than_the_queue(void **state)
{
    struct script *script = join("zone=7", 1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 20 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 7);
    finish(script, pair);
    script = join("zone=0", 1);
    payload_pair(script, 0, 1, 20 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 4);
    finish(script, pair);
}

/* Adapters, too, need the source until the peer has it, though their peers say themselves what has landed. */
static void wider_on_adapters(void **state)
{
    struct script *script = join_as("zone=7", (struct script_shape){.lanes = 1, .data_lanes = 1, .registers = true});
    struct payload *pair[2];
    payload_pair(script, 0, 1, 20 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->side[0].link->lane[LINK_DATA_LANE].view.segments, 7);
    finish(script, pair);
}

/* Bytes count, not segments; and one that is longer than the window goes alone. */
static void limits_of_bytes(void **state)
{
    struct script *script = join("zone=0/10000", 1);
    struct payload *pair[2], *small[2];
    payload_pair(script, 0, 1, 2000, small);
    payload_pair(script, 0, 2, 3 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 2); /* 2000 + 4096; with 4096 more they were too many */
    assert_int_equal(script->side[0].link->lane[0].view.outstanding, 2000 + SCRIPT_SEGMENT);
    script_settle(script);
    assert_true(payload_pair_right(small));
    payload_pair_free(small);
    finish(script, pair);
    script = join("zone=5/100", 1);
    payload_pair(script, 0, 1, 2 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 1);
    finish(script, pair);
}

/* The script's lanes have 1 Gbit/s: 8750 bytes in a zone's 70 us, of segments of 4096 three and one more; to begin with
 * two. */
static void derived_for_a_link(void **state)
{
    struct script *script = join("", 1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 20 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 2);
    assert_int_equal(script->side[0].link->lane[0].view.outstanding, 2 * SCRIPT_SEGMENT);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_in_range(under_way(script), 2, 4);
    finish(script, pair);
}

/* A transport that has measured less than it did when the lane came up. Or it has moved the lane to another port. */
static void lanes_may_turn_out_nearer(void **state)
{
    struct script *script = join("", 1);
    struct payload *pair[2];
    struct link_lane *lane = script->side[0].link->lane;
    assert_int_equal(lane->view.trip, 0);
    lane->carrier->trip = 5000;
    script_tick(script, 1);
    assert_int_equal(lane->view.trip, 5000);
    lane->carrier->source = 0xC123;
    script_tick(script, 1);
    assert_int_equal(lane->source, 0xC123); /* in the black box */
    payload_pair(script, 0, 1, 20 * SCRIPT_SEGMENT, pair);
    finish(script, pair);
}

/* A lane that dies takes its window with it: the other goes on within its own, and the lane begins anew. */
static void windows_survive_failures(void **state)
{
    struct script *script = join("zone=2", 2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 12 * SCRIPT_SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(under_way(script), 4);
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    assert_true(script_act(script, 0, 1, SCRIPT_DOWN));
    assert_true(script_act(script, 1, 1, SCRIPT_DOWN));
    assert_int_equal(under_way(script), 2);
    finish(script, pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_times_round_trip),
        cmocka_unit_test(segments_by_distance),
        cmocka_unit_test(distances_by_round_trip),
        cmocka_unit_test(measured_round_trips),
        cmocka_unit_test(segments_that_fill_the_way),
        cmocka_unit_test(segments_where_no_place_is_told),
        cmocka_unit_test(segments_that_are_none),
        cmocka_unit_test(none_where_nothing_is_known),
        cmocka_unit_test(as_told),
        cmocka_unit_test(windows_that_are_none),
        cmocka_unit_test(pauses_and_refills),
        cmocka_unit_test(wider_than_the_queue),
        cmocka_unit_test(wider_on_adapters),
        cmocka_unit_test(limits_of_bytes),
        cmocka_unit_test(derived_for_a_link),
        cmocka_unit_test(lanes_may_turn_out_nearer),
        cmocka_unit_test(windows_survive_failures),
    };
    setenv("TUTTI_DEBUG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
