/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane remembers of all its windows, pauses and small messages: how a reader looks at struct wire_box_watch. */
#ifndef TUTTI_WIRE_BOXWATCH_H
#define TUTTI_WIRE_BOXWATCH_H

#include "wire/boxread.h"

enum watch_kind { WATCH_LEAST, WATCH_PAUSE, WATCH_MESSAGE };

/* "last second", "last minute", "last hour": that span, and up to a third part of it more. */
const char *watch_span_name(enum wire_watch_span span);

/* The slowest window, or the longest pause or message, that ended in the span before `now`. NULL: there was none. */
const struct wire_box_mark *watch_mark(const struct wire_box_watch *watch, enum watch_kind kind,
                                       enum wire_watch_span span, uint64_t now);

/* Bytes a second; 0: it took no time. */
double watch_rate(const struct wire_box_mark *mark);
double watch_slow_rate(const struct wire_box_slow *slow);

/* The latest rows of slow windows, the newest first: from 0 on, NULL behind the last. */
const struct wire_box_slow *watch_slow(const struct wire_box_watch *watch, size_t index);

/* The least rate of a row, in bytes a second; the least time of a row, in ns. */
double watch_rate_of_row(unsigned row);
double watch_time_of_row(unsigned row);

#define WATCH_STILL 2u /* the stamp of a copy */

/* Makes numbers from outside safe to reckon with: times that cannot be become none, causes that are none the network.
 * Always true. */
bool watch_check(struct wire_box_watch *watch);

/* The row below which `part` of all counts lie. */
unsigned watch_row(const uint32_t *counts, unsigned rows, double part);

/* Writers and readers agree: the row of a rate in bytes a second, and of a time in ns. */
static inline unsigned watch_row_of_rate(uint64_t rate)
{
    if (rate < 1ull << WIRE_WATCH_RATE)
        return 0;
    unsigned bits = 63 - (unsigned)__builtin_clzll(rate);
    unsigned row = 4 * (bits - WIRE_WATCH_RATE) + (rate >> (bits - 2) & 3);
    return row < WIRE_WATCH_RATES ? row : WIRE_WATCH_RATES - 1;
}

static inline unsigned watch_row_of_time(uint64_t ns)
{
    if (ns < 1ull << WIRE_WATCH_TIME)
        return 0;
    unsigned bits = 63 - (unsigned)__builtin_clzll(ns);
    unsigned row = 2 * (bits - WIRE_WATCH_TIME) + (ns >> (bits - 1) & 1);
    return row < WIRE_WATCH_TIMES ? row : WIRE_WATCH_TIMES - 1;
}

/* Nanoseconds of a slot. */
static inline uint64_t watch_slot_ns(unsigned span)
{
    static const uint64_t ns[WIRE_WATCH_SPANS] = {WIRE_WATCH_SECOND, WIRE_WATCH_MINUTE, WIRE_WATCH_HOUR};
    return ns[span];
}

#endif
