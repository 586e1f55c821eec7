/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace --lanes: the load of lanes, their speed, and what slows them down; as text, and drawn over time. */
#include "cli/trace_lanes.h"
#include "cli/trace.h"
#include "cli/trace_set.h"
#include "cli/trace_text.h"
#include "cli/trace_watch.h"

#include "wire/distance.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>

#define LIVE_MS 1000
#define LAST    4 /* slow windows and pauses of a lane that are printed */

uint32_t view_window(const struct view_options *options)
{
    return options->window ? (uint32_t)options->window : WINDOW_SEGMENTS;
}

const char *view_lane_state(const struct blackbox_lane *lane)
{
    return lane->state == WIRE_LANE_UP ? "up" : lane->state == WIRE_LANE_DOWN ? "down" : "closed";
}

bool view_lane_is_backup(const struct blackbox_lane *lane)
{
    return (lane->roles & WIRE_LANE_IS_BACKUP) && !(lane->roles & WIRE_LANE_FOR_DATA);
}

void view_lane_loan(const struct blackbox_lane *lane, char *out, size_t size)
{
    snprintf(out, size, "%s", lane->borrowed ? "borrowed" : "");
    if (lane->borrowed && lane->owner)
        snprintf(out, size, "borrowed from process %" PRIu32, lane->owner);
}

static struct view_lane_sum sum_up(const struct lane_window *windows, size_t count)
{
    struct view_lane_sum sum = {0};
    for (size_t i = 0; i < count; i++) {
        double rate = window_rate(&windows[i]);
        sum.bytes += windows[i].bytes;
        sum.all += windows[i].end - windows[i].begin;
        for (int cause = 0; cause < WINDOW_CAUSES; cause++)
            sum.time[cause] += windows[i].time[cause];
        if (!windows[i].segments)
            continue;
        sum.busy += windows[i].end - windows[i].begin;
        sum.windows++;
        sum.slow += windows[i].slow;
        sum.slow_cause = windows[i].slow ? windows[i].cause : sum.slow_cause;
        sum.last = rate > 0 ? rate : sum.last;
        sum.best = rate > sum.best ? rate : sum.best;
    }
    return sum;
}

struct view_lane_sum view_lane_sum(const struct blackbox *box, size_t lane, uint32_t segments)
{
    struct lane_window *windows;
    size_t count = lane_windows(box, lane, segments, &windows);
    struct view_lane_sum sum = sum_up(windows, count);
    free(windows);
    return sum;
}

static void print_causes(FILE *out, const struct view_lane_sum *sum)
{
    for (int cause = 0; cause < WINDOW_CAUSES; cause++)
        if (sum->all && sum->time[cause] * 100 / sum->all)
            fprintf(out, " %s %" PRIu64 "%%", window_cause_name((enum window_cause)cause),
                    sum->time[cause] * 100 / sum->all);
}

static void print_window(FILE *out, const struct blackbox *box, const struct lane_window *window)
{
    fprintf(out, "      %s %8s  ", view_day(box, window->begin).text, phrase_time(window->end - window->begin).text);
    if (window->segments)
        fprintf(out, "slow: %.3f GB/s", window_rate(window) / 1e9);
    else
        fprintf(out, "stood still");
    fprintf(out, ", %s\n", window_cause_name(window->cause));
}

static bool worth_a_line(const struct lane_window *window)
{
    return window->segments ? window->slow : window->cause != WINDOW_IDLE_TIME && window->cause != WINDOW_UNUSED;
}

/* "mlx5_0:1 (100 Gbit/s)"; its number, where no more is known */
static void print_interface(FILE *out, const struct blackbox_lane *lane)
{
    if (!*lane->interface) {
        fprintf(out, "%u", lane->device);
        return;
    }
    fputs(lane->interface, out);
    if (lane->port)
        fprintf(out, ":%u", lane->port);
    if (lane->rate)
        fprintf(out, " (%g Gbit/s)", lane->rate / 1000.0);
    if (lane->source)
        fprintf(out, " from UDP port 0x%04X", lane->source);
}

/* ", distance zone, round trip 64 us, limit 8 segments and 4096 KiB, segments of 512 KiB"; "as of a zone" where nobody
 * has told a place */
static void print_limit(FILE *out, const struct blackbox_lane *lane)
{
    if (lane->distance)
        fprintf(out, ", distance %s", wire_distance_name(lane->distance));
    if (lane->trip)
        fprintf(out, lane->trip < 100000 ? ", round trip %.3g us" : ", round trip %.0f us", lane->trip / 1e3);
    if (lane->trip && !lane->distance && wire_distance_by_trip(lane->trip))
        fprintf(out, " as of a %s", wire_distance_name(wire_distance_by_trip(lane->trip)));
    if (lane->window)
        fprintf(out, ", limit %" PRIu32 " segment%s", lane->window, lane->window == 1 ? "" : "s");
    if (lane->window_bytes)
        fprintf(out, "%s %" PRIu64 " KiB", lane->window ? " and" : ", limit", lane->window_bytes >> 10);
    if (lane->trip && lane->segment)
        fprintf(out, ", segments of %" PRIu32 " KiB", lane->segment >> 10);
}

/* ", 12.5 MB borrowed from process 4711" */
static void print_loan(FILE *out, const struct blackbox_lane *lane)
{
    char loan[48];
    view_lane_loan(lane, loan, sizeof loan);
    if (lane->own)
        fputs(", own", out);
    if (*loan)
        fprintf(out, ", %.1f MB %s", (double)lane->borrowed / 1e6, loan);
}

static void print_lane(FILE *out, const struct blackbox *box, size_t index, uint32_t segments)
{
    const struct blackbox_lane *lane = &box->lanes[index];
    struct lane_window *windows;
    size_t count = lane_windows(box, index, segments, &windows), under_way = 0, told = 0;
    struct view_lane_sum sum = sum_up(windows, count);
    for (size_t i = 0; i < lane->segment_count; i++)
        under_way += lane->segments[i].status == WIRE_SEGMENT_POSTED;
    fprintf(out, "  lane %u %s to process %u, interface ", lane->index, lane->transport, lane->peer_pid);
    print_interface(out, lane);
    print_limit(out, lane);
    print_loan(out, lane);
    fprintf(out, ", %s%s: %zu segments remembered, %zu under way\n", view_lane_state(lane),
            view_lane_is_backup(lane) ? ", backup" : "", lane->segment_count, under_way);
    view_print_ends(out, lane);
    if (sum.windows)
        fprintf(out, "    GB/s: last %.3f, all %.3f, best %.3f; %zu of %zu windows slow; time:", sum.last / 1e9,
                sum.busy ? (double)sum.bytes / (double)sum.busy : 0, sum.best / 1e9, sum.slow, sum.windows);
    if (sum.windows)
        print_causes(out, &sum);
    if (sum.windows)
        fputc('\n', out);
    for (size_t i = count; i-- > 0 && told < LAST;)
        if (worth_a_line(&windows[i])) {
            print_window(out, box, &windows[i]);
            told++;
        }
    view_print_watch(out, box, lane);
    free(windows);
}

static void print_boxes(FILE *out, const struct view_options *options, const struct view_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct blackbox *box = set->boxes[i];
        fprintf(out, "process %u (%s) on %s: %zu lanes to other processes\n", box->header.pid, view_box_state(box),
                box->header.host, box->lane_count);
        for (size_t j = 0; j < box->lane_count; j++)
            print_lane(out, box, j, view_window(options));
    }
}

/* ---- Drawing ---- */

enum { LEFT = 170, WIDTH = 900, ROW = 60, TOP = 40, GAP = 22 };

static const char *const colors[WINDOW_CAUSES] = {"#4c78a8", "#f2cf5b", "#e45756", "#b279a2", "#dddddd", "#ffffff"};

struct plot {
    uint64_t begin, end;
    double most; /* bytes a second */
    int rows;
    uint32_t segments;
};

static void measure(struct plot *plot, const struct lane_window *windows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        plot->begin = plot->begin && plot->begin < windows[i].begin ? plot->begin : windows[i].begin;
        plot->end = windows[i].end > plot->end ? windows[i].end : plot->end;
        plot->most = window_rate(&windows[i]) > plot->most ? window_rate(&windows[i]) : plot->most;
    }
    plot->rows += count > 0;
}

/* A bar for each window, as high as its bandwidth; a low one has the colour of its cause at each pause. */
static void draw(FILE *out, const struct plot *plot, int row, const struct lane_window *windows, size_t count)
{
    double scale = WIDTH / (double)(plot->end - plot->begin + 1);
    for (size_t i = 0; i < count; i++) {
        const struct lane_window *window = &windows[i];
        double x = LEFT + (double)(window->begin - plot->begin) * scale,
               width = (double)(window->end - window->begin) * scale;
        double height = window->segments ? ROW * window_rate(window) / plot->most : 6;
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"%s><title>%s, %.3f GB/s, "
                "%s%s</title></rect>\n",
                x, TOP + row * (ROW + GAP) + ROW - height, width < 0.3 ? 0.3 : width, height, colors[window->cause],
                window->slow ? " stroke=\"#c00\"" : "", phrase_time(window->end - window->begin).text,
                window_rate(window) / 1e9, window_cause_name(window->cause), window->slow ? ", slow" : "");
    }
}

static void draw_frame(FILE *out, const struct plot *plot)
{
    int height = TOP + plot->rows * (ROW + GAP) + 40;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n",
            LEFT + WIDTH + 20, height);
    fprintf(out,
            "<text x=\"8\" y=\"16\">bandwidth of lanes, %u segments a window; the top of each row is %.3f GB/s; %s "
            "from left to right</text>\n",
            plot->segments, plot->most / 1e9, phrase_time(plot->end - plot->begin).text);
    for (int cause = 0; cause < WINDOW_CAUSES; cause++)
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\" stroke=\"#888\"/><text x=\"%d\" "
                "y=\"%d\">%s</text>\n",
                LEFT + cause * 110, height - 24, colors[cause], LEFT + cause * 110 + 14, height - 15,
                window_cause_name((enum window_cause)cause));
}

static void draw_boxes(FILE *out, const struct view_options *options, const struct view_set *set)
{
    struct plot plot = {.segments = view_window(options)};
    struct lane_window *windows;
    for (int pass = 0; pass < 2; pass++) {
        int row = 0;
        if (pass)
            draw_frame(out, &plot);
        for (size_t i = 0; i < set->count; i++)
            for (size_t j = 0; j < set->boxes[i]->lane_count; j++) {
                size_t count = lane_windows(set->boxes[i], j, plot.segments, &windows);
                if (!pass)
                    measure(&plot, windows, count);
                if (pass && count) {
                    const struct blackbox_lane *lane = &set->boxes[i]->lanes[j];
                    fprintf(out, "<text x=\"8\" y=\"%d\">%u to %u, lane %u</text>\n", TOP + row * (ROW + GAP) + ROW,
                            set->boxes[i]->header.pid, lane->peer_pid, lane->index);
                    draw(out, &plot, row++, windows, count);
                }
                free(windows);
            }
    }
    fprintf(out, "</svg>\n");
}

static int write_plot(const struct view_options *options, const struct view_set *set)
{
    FILE *out = fopen(options->plot, "we");
    if (out)
        draw_boxes(out, options, set);
    bool fine = out && !ferror(out);
    fine = out && fclose(out) == 0 && fine;
    if (!fine)
        fprintf(stderr, "tutti trace: cannot write %s: %m\n", options->plot);
    return fine ? VIEW_SHOWN : VIEW_FAILED;
}

int view_lanes(const struct view_options *options, const struct view_set *set)
{
    if (options->plot)
        return write_plot(options, set);
    print_boxes(stdout, options, set);
    return VIEW_SHOWN;
}

int view_follow_lanes(const struct view_options *options)
{
    bool met = false;
    for (;;) {
        struct view_set set;
        size_t living = 0;
        if (!view_load(options, &set))
            return VIEW_FAILED;
        for (size_t i = 0; i < set.count; i++)
            living += set.boxes[i]->alive;
        if (living)
            print_boxes(stdout, options, &set);
        fflush(stdout);
        view_unload(&set);
        met |= living > 0;
        if (!living || ferror(stdout))
            return met ? VIEW_SHOWN : VIEW_NOTHING;
        poll(NULL, 0, LIVE_MS);
    }
}
