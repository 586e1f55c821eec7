/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of a lane. A window's bandwidth is its bytes over the time to its last arrival. The time begins at its first
 * put, or at the end of the window before if that is later. For with many segments under way, the first of a window
 * waits behind those of the window before, and that time is not its own.
 */
#include "wire/boxwindow.h"

#include <stdlib.h>
#include <string.h>

double window_rate(const struct lane_window *window)
{
    uint64_t time = window->end - window->begin;
    return time ? (double)window->bytes * 1e9 / (double)time : 0;
}

const char *window_cause_name(enum window_cause cause)
{
    static const char *const names[] = {"network", "sender late", "receiver late", "starved", "other lanes", "idle"};
    return (unsigned)cause < WINDOW_CAUSES ? names[cause] : "?";
}

/* The lanes of one box to one process, of which one is looked at. */
struct boxwindow_view {
    const struct blackbox *box;
    const struct blackbox_lane *lane;
};

static bool is_sibling(const struct boxwindow_view *view, const struct blackbox_lane *other)
{
    return other != view->lane && other->peer_pid == view->lane->peer_pid && other->peer_host == view->lane->peer_host;
}

/* From `at` on, before `end`: how long is a sibling busy (*busy), or if none is, until when is none? */
static uint64_t next_change(const struct boxwindow_view *view, uint64_t at, uint64_t end, bool *busy)
{
    uint64_t until = at, begins = end;
    for (size_t i = 0; i < view->box->lane_count; i++) {
        const struct blackbox_lane *other = &view->box->lanes[i];
        for (size_t j = 0; is_sibling(view, other) && j < other->segment_count; j++) {
            const struct blackbox_segment *segment = &other->segments[j];
            uint64_t over = segment->completed ? segment->completed : UINT64_MAX;
            if (segment->posted <= at && over > until)
                until = over;
            else if (segment->posted > at && segment->posted < begins)
                begins = segment->posted;
        }
    }
    *busy = until > at;
    until = *busy ? until : begins;
    return until < end ? until : end;
}

/* The lane stood still with data and credit. */
static void add_unused(const struct boxwindow_view *view, struct lane_window *window, uint64_t from, uint64_t to)
{
    while (from < to) {
        bool busy;
        uint64_t until = next_change(view, from, to, &busy);
        window->time[busy ? WINDOW_UNUSED : WINDOW_STARVED] += until - from;
        from = until;
    }
}

static uint64_t between(uint64_t least, uint64_t value, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* The lane stood still until it was given this segment: for want of what? */
static void add_pause(const struct boxwindow_view *view, struct lane_window *window, uint64_t from,
                      const struct blackbox_segment *next)
{
    uint64_t to = next->posted, ready = between(from, next->ready, to), credit = between(from, next->credit, to);
    if (ready < credit) {
        window->time[WINDOW_IDLE_TIME] += ready - from;
        window->time[WINDOW_RECEIVER] += credit - ready;
        add_unused(view, window, credit, to);
    } else {
        window->time[WINDOW_IDLE_TIME] += credit - from;
        window->time[WINDOW_SENDER] += ready - credit;
        add_unused(view, window, ready, to);
    }
}

static void boxwindow_find_cause(struct lane_window *window)
{
    for (unsigned cause = 1; cause < WINDOW_CAUSES; cause++)
        if (window->time[cause] > window->time[window->cause])
            window->cause = (enum window_cause)cause;
}

/* Adds a segment to a window; the lane was free since `free_since`. */
static void add_segment(const struct boxwindow_view *view, struct lane_window *window, uint64_t free_since,
                        const struct blackbox_segment *segment)
{
    if (segment->posted > free_since)
        add_pause(view, window, free_since, segment);
    uint64_t from = segment->posted > free_since ? segment->posted : free_since;
    window->time[WINDOW_NETWORK] += segment->completed > from ? segment->completed - from : 0;
    if (segment->completed > window->end)
        window->end = segment->completed;
    window->bytes += segment->length;
    window->segments++;
}

static int by_rate(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void mark_slow(struct lane_window *windows, size_t count)
{
    double *rates = malloc((count + 1) * sizeof *rates);
    size_t known = 0;
    for (size_t i = 0; rates && i < count; i++)
        if (window_rate(&windows[i]) > 0)
            rates[known++] = window_rate(&windows[i]);
    if (known)
        qsort(rates, known, sizeof *rates, by_rate);
    for (size_t i = 0; known && i < count; i++) {
        double rate = window_rate(&windows[i]);
        windows[i].slow = rate > 0 && 2 * rate < rates[known * 9 / 10];
    }
    free(rates);
}

/* What is left before a pause, or at the end, may have landed in one moment with the window before: too short to have a
 * rate of its own, it is part of that one. Returns how many windows there are. */
static size_t join_short(struct lane_window *windows, size_t count)
{
    if (count < 2)
        return count;
    struct lane_window *last = &windows[count - 1], *before = &windows[count - 2];
    if (!last->segments || !before->segments || before->end != last->begin ||
        last->end - last->begin >= WINDOW_RESOLUTION)
        return count;
    before->end = last->end;
    before->bytes += last->bytes;
    before->segments += last->segments;
    for (int cause = 0; cause < WINDOW_CAUSES; cause++)
        before->time[cause] += last->time[cause];
    return count - 1;
}

size_t lane_windows(const struct blackbox *box, size_t index, uint32_t segments, struct lane_window **out)
{
    const struct boxwindow_view view = {box, &box->lanes[index]};
    const struct blackbox_lane *lane = view.lane;
    struct lane_window *windows = *out = calloc(2 * lane->segment_count + 1, sizeof *windows), *open = NULL;
    size_t count = 0;
    uint64_t free_since = 0;
    for (size_t i = 0; windows && i < lane->segment_count; i++) {
        const struct blackbox_segment *segment = &lane->segments[i];
        if (!blackbox_landed(segment))
            continue;
        if (!free_since && segment->position) { /* it waited behind segments that are not remembered */
            free_since = segment->completed;
            continue;
        }
        if (!free_since)
            free_since = segment->posted;
        if (segment->posted > free_since && segment->posted - free_since >= WINDOW_IDLE) {
            count = join_short(windows, count);
            struct lane_window *pause = &windows[count++];
            *pause = (struct lane_window){.begin = free_since, .end = segment->posted};
            add_pause(&view, pause, free_since, segment);
            free_since = segment->posted;
            open = NULL;
        }
        if (!open) {
            open = &windows[count++];
            *open = (struct lane_window){.begin = free_since, .end = free_since};
        }
        add_segment(&view, open, free_since, segment);
        if (segment->completed > free_since)
            free_since = segment->completed;
        if (open->segments >= segments && open->end - open->begin >= WINDOW_RESOLUTION)
            open = NULL;
    }
    count = join_short(windows, count);
    for (size_t i = 0; i < count; i++)
        boxwindow_find_cause(&windows[i]);
    mark_slow(windows, count);
    if (count)
        return count;
    free(windows);
    *out = NULL;
    return 0;
}
