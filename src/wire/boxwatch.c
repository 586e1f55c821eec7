/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a lane remembers of its windows. Whatever bytes are in it, nothing but numbers of the mark are believed.
 */
#include "wire/boxwatch.h"

const char *watch_span_name(enum wire_watch_span span)
{
    static const char *const names[] = {"last second", "last minute", "last hour"};
    return (unsigned)span < WIRE_WATCH_SPANS ? names[span] : "?";
}

double watch_rate(const struct wire_box_mark *mark)
{
    return mark->ns ? (double)mark->bytes * 1e9 / (double)mark->ns : 0;
}

double watch_slow_rate(const struct wire_box_slow *slow)
{
    return slow->ns ? (double)slow->bytes * 1e9 / (double)slow->ns : 0;
}

/* The slot of its end is one of the latest of this span. */
static bool ended_within(const struct wire_box_mark *mark, enum wire_watch_span span, uint64_t now)
{
    uint64_t ns = watch_slot_ns(span);
    return mark->slot && mark->end / ns + WIRE_WATCH_SLOTS > now / ns;
}

static bool is_worse(const struct wire_box_mark *mark, const struct wire_box_mark *than, enum watch_kind kind)
{
    return kind == WATCH_LEAST ? watch_rate(mark) < watch_rate(than) : mark->ns > than->ns;
}

const struct wire_box_mark *watch_mark(const struct wire_box_watch *watch, enum watch_kind kind,
                                       enum wire_watch_span span, uint64_t now)
{
    const struct wire_box_mark *worst = NULL;
    for (unsigned at = 0; watch && at <= (unsigned)span; at++)
        for (unsigned i = 0; i < WIRE_WATCH_SLOTS; i++) {
            const struct wire_box_mark *mark = kind == WATCH_LEAST   ? &watch->least[at][i]
                                               : kind == WATCH_PAUSE ? &watch->pause[at][i]
                                                                     : &watch->message[at][i];
            if (ended_within(mark, span, now) && (!worst || is_worse(mark, worst, kind)))
                worst = mark;
        }
    return worst;
}

static bool can_be(uint64_t ns)
{
    return ns < INT64_MAX / 2;
}

static void check_marks(struct wire_box_mark *marks)
{
    for (unsigned i = 0; i < WIRE_WATCH_SPANS * WIRE_WATCH_SLOTS; i++) {
        marks[i].slot = can_be(marks[i].end) && can_be(marks[i].ns) ? marks[i].slot : 0;
        marks[i].cause = marks[i].cause < WINDOW_CAUSES ? marks[i].cause : WINDOW_NETWORK;
    }
}

bool watch_check(struct wire_box_watch *watch)
{
    check_marks(watch->least[0]);
    check_marks(watch->pause[0]);
    check_marks(watch->message[0]);
    for (unsigned i = 0; i < WIRE_WATCH_SLOWS; i++) {
        struct wire_box_slow *slow = &watch->slow[i];
        bool can = can_be(slow->begin) && can_be(slow->end) && slow->begin <= slow->end;
        slow->windows = can ? slow->windows : 0;
        slow->cause = slow->cause < WINDOW_CAUSES ? slow->cause : WINDOW_NETWORK;
    }
    return true;
}

const struct wire_box_slow *watch_slow(const struct wire_box_watch *watch, size_t index)
{
    if (!watch || index >= WIRE_WATCH_SLOWS || index >= watch->slows)
        return NULL;
    const struct wire_box_slow *slow = &watch->slow[(watch->slows - 1 - index) % WIRE_WATCH_SLOWS];
    return slow->windows ? slow : NULL;
}

double watch_rate_of_row(unsigned row)
{
    return (double)(1ull << (WIRE_WATCH_RATE + row / 4)) * (4 + row % 4) / 4;
}

double watch_time_of_row(unsigned row)
{
    return (double)(1ull << (WIRE_WATCH_TIME + row / 2)) * (2 + row % 2) / 2;
}

unsigned watch_row(const uint32_t *counts, unsigned rows, double part)
{
    uint64_t all = 0, below = 0;
    unsigned row = 0;
    for (unsigned i = 0; i < rows; i++)
        all += counts[i];
    while (row + 1 < rows && (double)(below += counts[row]) < part * (double)all)
        row++;
    return row;
}
