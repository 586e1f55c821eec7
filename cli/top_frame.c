/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a screen: findings, processes, their lanes, the keys. */
#include "cli/top.h"

#include "base/clock.h"
#include "cli/trace_lanes.h"
#include "cli/trace_text.h"
#include "diagnosis/phrase.h"
#include "wire/boxwindow.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FINDINGS_SHOWN 3
#define FINDING_LINES  3              /* lines of a long sentence */
#define LANES_PART     3              /* one line of this many is kept for lanes */
#define LANE_QUIET     (2 * NS_PER_S) /* a lane without a segment for this time carries nothing */

/* ---- lines ---- */

static void put(struct top_frame *frame, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Turns what is not ASCII into question marks: columns are bytes then, on any terminal. */
static void put(struct top_frame *frame, enum top_style style, const char *format, ...)
{
    struct top_line *more = realloc(frame->lines, (frame->count + 1) * sizeof *more);
    va_list args;
    if (!more)
        return;
    frame->lines = more;
    va_start(args, format);
    more[frame->count].style = style;
    if (vasprintf(&more[frame->count].text, format, args) < 0)
        more[frame->count].text = NULL;
    va_end(args);
    for (char *p = more[frame->count].text; p && *p; p++)
        *p = isprint((unsigned char)*p) ? *p : '?';
    frame->count += more[frame->count].text != NULL;
}

/* ---- at the top ---- */

static void put_title(struct top_frame *frame, const struct top_look *now)
{
    char clock[16];
    struct tm parts;
    size_t dead = 0, count, comms = 0;
    for (size_t i = 0; i < now->set.count; i++)
        dead += !now->set.boxes[i]->alive;
    struct trace_member *members = view_members(&now->set, &count);
    for (size_t at = 0; at < count; at += view_group(members, count, at))
        comms++;
    free(members);
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now->clock, &parts));
    put(frame, TOP_TITLE, "tutti top  %s  %zu process%s%s  %zu communicator%s", clock, now->set.count - dead,
        now->set.count - dead == 1 ? "" : "es", dead ? " and dead ones" : "", comms, comms == 1 ? "" : "s");
}

/* Puts a sentence over some lines, broken between words. */
static void put_sentence(struct top_frame *frame, const struct top_window *window, const char *text)
{
    for (int line = 0; *text && line < (window->height ? FINDING_LINES : 1); line++) {
        size_t length = strlen(text), room = (size_t)window->width - 2;
        if (window->height && length > room) {
            for (length = room; length > room / 2 && text[length] != ' ';)
                length--;
            length = text[length] == ' ' ? length : room;
        }
        put(frame, TOP_BAD, "%s%.*s", line ? "  " : "! ", (int)length, text);
        text += length + (text[length] == ' ');
    }
}

static void put_findings(struct top_frame *frame, const struct top_look *now, const struct top_window *window)
{
    const struct findings *findings = &now->findings;
    size_t shown = window->height && findings->count > FINDINGS_SHOWN ? FINDINGS_SHOWN : findings->count;
    for (size_t i = 0; i < shown; i++)
        put_sentence(frame, window, findings->items[i].sentence);
    if (findings->count + findings->left_out > shown)
        put(frame, TOP_BAD, "! and %zu more: tutti diagnose", findings->count + findings->left_out - shown);
    if (!findings->count)
        put(frame, TOP_WELL, now->set.count ? "nothing stands still" : "no process with a black box");
}

/* ---- processes ---- */

static struct phrase rate_text(double value, bool known)
{
    struct phrase word;
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    for (; value >= 9999.5 && unit < 4; unit++)
        value /= 1000;
    if (known)
        snprintf(word.text, sizeof word.text, value >= 0.005 && value < 10 ? "%.2f%s" : "%.0f%s", value, units[unit]);
    else
        snprintf(word.text, sizeof word.text, "-");
    return word;
}

/* A time short enough for a column: "181ms", "2.3s", "1.2h". */
static struct phrase wait_text(uint64_t ns)
{
    struct phrase word;
    double seconds = (double)ns / 1e9;
    if (seconds < 1)
        snprintf(word.text, sizeof word.text, "%.*fms", seconds < 0.01 ? 1 : 0, seconds * 1e3);
    else if (seconds < 3600)
        snprintf(word.text, sizeof word.text, "%.*fs", seconds < 100 ? 1 : 0, seconds);
    else
        snprintf(word.text, sizeof word.text, "%.1fh", seconds / 3600);
    return word;
}

/* The rank that the process waits for; of a dead process, that it is dead. */
static struct phrase waits_text(const struct top_row *row)
{
    struct phrase word = {""};
    if (!row->box->alive)
        snprintf(word.text, sizeof word.text, "%s", view_box_state(row->box));
    else if (row->waits && row->op->wait_peer >= 0)
        snprintf(word.text, sizeof word.text, "rank %d %.16s", row->op->wait_peer, wait_text(row->waits).text);
    else if (row->waits)
        snprintf(word.text, sizeof word.text, "nobody %.16s", wait_text(row->waits).text);
    if (row->box->alive && row->waits && row->world && row->comm->id != row->world->id)
        snprintf(word.text + strlen(word.text), sizeof word.text - strlen(word.text), " (%.20s)",
                 phrase_name(row->comm));
    return word;
}

static const char head[] = " RANK     PID PROGRAM   OPS/s   GB/s   MB/s CURRENT              WAITS FOR";

static void put_row(struct top_frame *frame, const struct top_row *row)
{
    char rank[16] = "-", current[80] = "-";
    enum top_style style = !row->box->alive ? TOP_DIM : row->waits >= NS_PER_S ? TOP_WAITS : TOP_PLAIN;
    if (row->world)
        snprintf(rank, sizeof rank, "%d", row->world->rank);
    if (row->op)
        snprintf(current, sizeof current, "%s", phrase_call(row->op).text);
    put(frame, style, "%5s %7u %-8.8s %6s %6s %6s %-20.20s %s", rank, row->box->header.pid, row->program,
        rate_text(row->operations, row->measured).text, rate_text(row->bus, row->bus > 0).text,
        rate_text(row->moved / 1e6, row->measured).text, current, waits_text(row).text);
}

static void put_rows(struct top_frame *frame, const struct top_row *rows, size_t count, size_t from, size_t room)
{
    size_t end = count - from < room ? count : from + room;
    if (!count)
        return;
    put(frame, TOP_HEAD, "%s", head);
    for (size_t i = from; i < end; i++)
        put_row(frame, &rows[i]);
    frame->shown = end - from;
}

/* ---- lanes ---- */

static struct phrase peer_text(const struct top_look *now, const struct blackbox_lane *lane)
{
    struct phrase word;
    snprintf(word.text, sizeof word.text, "process %u", lane->peer_pid);
    for (size_t i = 0; i < now->set.count; i++) {
        const struct blackbox *box = now->set.boxes[i];
        if (box->header.pid == lane->peer_pid && view_world(box))
            snprintf(word.text, sizeof word.text, "rank %d", view_world(box)->rank);
    }
    return word;
}

static bool carries(const struct blackbox *box, const struct blackbox_lane *lane)
{
    const struct blackbox_segment *last = lane->segment_count ? &lane->segments[lane->segment_count - 1] : NULL;
    return last && (!last->completed || last->completed + LANE_QUIET > box->now);
}

/* A lane has a line if it has carried something, or is down. */
static bool is_told(const struct blackbox_lane *lane)
{
    return lane->state == WIRE_LANE_DOWN || (lane->state == WIRE_LANE_UP && lane->segment_count);
}

static void put_lane(struct top_frame *frame, const struct top_look *now, const struct top_row *row, size_t index)
{
    const struct blackbox_lane *lane = &row->box->lanes[index];
    struct view_lane_sum sum = view_lane_sum(row->box, index, WINDOW_SEGMENTS);
    bool busy = carries(row->box, lane), up = lane->state == WIRE_LANE_UP;
    char slow[48] = "", loan[48];
    if (sum.slow)
        snprintf(slow, sizeof slow, "%zu of %zu, %s", sum.slow, sum.windows, window_cause_name(sum.slow_cause));
    view_lane_loan(lane, loan, sizeof loan);
    put(frame, up ? TOP_PLAIN : TOP_BAD, "%5d %-14s %-5s %4u %7s %7.3f %7.3f  %s%s%s",
        row->world ? row->world->rank : -1, peer_text(now, lane).text, lane->transport, lane->index,
        up ? busy ? "up" : "quiet" : "down", busy ? sum.last / 1e9 : 0, sum.best / 1e9, slow,
        *slow && *loan ? "; " : "", loan);
}

static size_t lanes_of(const struct top_row *rows, size_t count)
{
    size_t lanes = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; rows[i].box->alive && j < rows[i].box->lane_count; j++)
            lanes += is_told(&rows[i].box->lanes[j]);
    return lanes;
}

static void put_lanes(struct top_frame *frame, const struct top_look *now, const struct top_row *rows, size_t count,
                      size_t room)
{
    size_t left = room;
    if (!room)
        return;
    put(frame, TOP_HEAD, " FROM TO             VIA   LANE   STATE    GB/s    BEST  SLOW WINDOWS, LOANS");
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; rows[i].box->alive && j < rows[i].box->lane_count && left; j++) {
            if (!is_told(&rows[i].box->lanes[j]))
                continue;
            put_lane(frame, now, &rows[i], j);
            left--;
        }
}

/* ---- all ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Shares the room: what does not fit is left out of the lanes first, then of the processes. The last line is the
 * screen's own. */
static void share_room(const struct top_frame *frame, const struct top_window *window, size_t *processes, size_t *lanes)
{
    size_t used = frame->count + 3, height = (size_t)window->height, free_lines = height > used ? height - used : 0;
    size_t for_lanes = least(*lanes, free_lines / LANES_PART);
    if (*processes + for_lanes < free_lines)
        for_lanes = least(*lanes, free_lines - *processes);
    *lanes = for_lanes;
    *processes = free_lines - for_lanes;
}

struct top_frame top_frame(const struct top_look *before, const struct top_look *now, const struct top_view *view,
                           const struct top_window *window)
{
    struct top_frame frame = {0};
    size_t count, skip;
    struct top_row *rows = top_rows(before, now, view, &count);
    size_t processes = count, lanes = rows ? lanes_of(rows, count) : 0;
    put_title(&frame, now);
    put_findings(&frame, now, window);
    if (window->height)
        share_room(&frame, window, &processes, &lanes);
    skip = least(window->skip, count > processes ? count - processes : 0);
    frame.processes = count;
    put_rows(&frame, rows, count, skip, processes);
    put_lanes(&frame, now, rows, count, lanes);
    free(rows);
    return frame;
}

void top_frame_free(struct top_frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        free(frame->lines[i].text);
    free(frame->lines);
    *frame = (struct top_frame){0};
}
