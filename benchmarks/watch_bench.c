/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the times of segments cost, and what they show. benchmarks/lab/monitor.py runs this.
 *
 *   watch-bench carry BYTES direct|plain   payloads of 4 MiB between two links in one process, in segments of BYTES,
 *                                          for a counter of instructions: carry() is what is to be counted. Prints the
 *                                          number of segments. The same instructions each time.
 *   watch-bench drop GBITS KIB             a second of segments of KIB at GBITS, of which 200 us at a tenth of the
 *                                          rate, by a clock of its own, written into a black box and read back 100 us
 *                                          later: windows of 1, 8 and 32 segments as JSON.
 */
#include "link/link_testing.h"
#include "trace/trace.h"
#include "wire/boxwindow.h"

#include "base/param.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 4 << 20, MESSAGES = 2, SEED = 12345 };
#define SECOND  1000000000ull /* ns */
#define DROP_AT (SECOND / 2)
#define DROP    200000ull
#define LATER   100000ull
#define LEFT    10 /* of the rate, in the drop: a tenth */
#define AHEAD   4  /* segments under way */

static __attribute__((noinline)) void carry(struct script *script, struct payload *pair[2])
{
    for (int side = 0; side < 2; side++)
        payload_start(pair[side], script->side[side].link);
    script_settle(script);
    __asm__ volatile("" ::: "memory"); /* no tail call: what is counted returns here */
}

static struct script *join(const char *segment, bool direct, struct trace *trace)
{
    setenv("TUTTI_SEGMENT", segment, 1);
    setenv("TUTTI_LANE_WINDOW", "4", 1);
    param_reload();
    struct script *script = script_new(&(struct script_shape){.lanes = 1, .data_lanes = direct, .registers = direct});
    for (int side = 0; side < 2; side++)
        script->side[side].domain->trace = trace;
    script_join(script);
    return script;
}

static int count_carry(const char *segment, const char *how)
{
    script_setup(NULL);
    struct trace *trace = trace_open();
    if (!trace)
        return 1;
    struct script *script = join(segment, strcmp(how, "direct") == 0, trace);
    int wrong = 0;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct payload *pair[2] = {payload_new(true, i, 7, MESSAGE), payload_new(false, i, 7, MESSAGE)};
        carry(script, pair);
        wrong += !payload_pair_right(pair);
        payload_pair_free(pair);
    }
    printf("%lld\n", (long long)MESSAGES * MESSAGE / atoll(segment));
    script_free(script);
    trace_close(trace, false);
    return wrong != 0;
}

/* ---- A drop ---- */

/* The same numbers everywhere: from 0.8 to 1.2 times as much. */
static uint64_t jitter(uint64_t ns)
{
    static uint64_t state = SEED;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return ns * 8 / 10 + (state >> 33) % (ns * 4 / 10 + 1);
}

/* When the last byte of a segment has arrived that begins to arrive now: the rate is a tenth for 200 us. */
static uint64_t arrival(uint64_t now, uint64_t ns)
{
    uint64_t before = now < DROP_AT ? DROP_AT - now : 0, over = DROP_AT + DROP;
    if (ns <= before || now >= over)
        return now + ns;
    uint64_t begin = now + before, slow = (ns - before) * LEFT;
    return begin + slow <= over ? begin + slow : over + (slow - (over - begin)) / LEFT;
}

/* Puts and arrivals, each in its time. Returns bytes that arrived in the second that the counter counts. */
static uint64_t stream(struct trace_lane *lane, uint64_t length, uint64_t each)
{
    uint64_t landed[AHEAD] = {0}, now = 0, counted = 0;
    const struct trace_payload payload = {.ready = 1, .credit = 1};
    for (uint64_t i = 0; now < DROP_AT + DROP + LATER; i++) {
        trace_segment_post(lane, i, &payload, length, landed[i % AHEAD] ? landed[i % AHEAD] : 1);
        now = arrival(now, jitter(each));
        landed[i % AHEAD] = now;
        trace_segment_end(lane, i, WIRE_SEGMENT_LANDED, now);
        counted += length;
    }
    while ((now = now + jitter(each)) < SECOND)
        counted += length;
    return counted;
}

static void print_windows(const struct blackbox *box, uint32_t segments)
{
    struct lane_window *windows;
    size_t count = lane_windows(box, 0, segments, &windows);
    printf("%s\"%u\": [", segments == 1 ? "" : ", ", segments);
    for (size_t i = 0; i < count; i++)
        printf("%s[%.3f, %.3f, %.4f, %d, \"%s\"]", i ? ", " : "", ((double)windows[i].begin - DROP_AT) / 1e3,
               ((double)windows[i].end - DROP_AT) / 1e3, window_rate(&windows[i]) / 1e9, windows[i].slow,
               window_cause_name(windows[i].cause));
    printf("]");
    free(windows);
}

static int show_drop(double gbits, uint64_t length)
{
    const struct trace_about about = {.peer_pid = 1, .peer_host = 1};
    struct trace *trace = trace_open();
    struct trace_lane *lane = trace ? trace_lane_open(trace, &about, "scripted") : NULL;
    struct blackbox *box;
    if (!lane)
        return 1;
    trace_lane_up(lane, &(struct trace_interface){.name = "clock"});
    uint64_t counted = stream(lane, length, (uint64_t)((double)length * 8 / gbits));
    if (blackbox_read(trace_path(trace), &box) != TUTTI_SUCCESS)
        return 1;
    printf("{\"gbits\": %g, \"segment\": %" PRIu64 ", \"counted_gbs\": %.6f, \"windows\": {", gbits, length,
           (double)counted / 1e9);
    print_windows(box, 1);
    print_windows(box, WINDOW_SEGMENTS);
    print_windows(box, 32);
    printf("}}\n");
    blackbox_free(box);
    trace_close(trace, false);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "carry") == 0)
        return count_carry(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "drop") == 0)
        return show_drop(atof(argv[2]), strtoull(argv[3], NULL, 10) << 10);
    fprintf(stderr, "watch-bench carry BYTES direct|plain\nwatch-bench drop GBITS KIB\n");
    return 2;
}
