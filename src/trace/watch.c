/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of lanes as they end. The measure of a window is its bytes over the time in which the lane was busy: pauses
 * of WINDOW_IDLE and more are marked by themselves. A window is slow that has less than half of the usual rate of
 * windows with segments of about its length. For the usual rate, nine steps up are one step down: so nine of ten
 * windows lie below. Slow windows in a row that were busy for SLOW_NS are an alarm.
 */
#include "trace/watch.h"
#include "wire/boxwatch.h"

#include <string.h>

#define SLOW_NS   (100 * NS_PER_MS)
#define LEARNED   8               /* windows, before one is called slow */
#define SMALLEST  14              /* a power of 2: shorter segments are of one kind */
#define OCTAVE    1024            /* of a logarithm */
#define STEP      16              /* of the usual rate, down; up nine of them */
#define RELEARN   (60 * NS_PER_S) /* what was slow for this time is usual from then on */
#define FAR_ABOVE 9

/* Of a number above 0; between powers of 2 it is a straight line. */
static uint32_t logarithm(uint64_t value)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(value | 1);
    uint64_t rest = value << (63 - bits) << 1; /* what is behind the highest bit, in the highest ones */
    return bits * OCTAVE + (uint32_t)(rest >> 54);
}

static uint64_t power(uint32_t logarithm)
{
    unsigned bits = logarithm / OCTAVE;
    return bits < 54 ? (uint64_t)(OCTAVE + logarithm % OCTAVE) << bits >> 10 : 0;
}

static unsigned size_kind(uint64_t length)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(length | 1);
    unsigned size = bits <= SMALLEST ? 0 : (bits - SMALLEST + 1) / 2;
    return size < TRACE_SIZES ? size : TRACE_SIZES - 1;
}

static void record_begin_watch(struct wire_box_watch *record)
{
    trace_store(&record->stamp, record->stamp + 1);
    trace_fence();
}

static void record_end_watch(struct wire_box_watch *record)
{
    __atomic_store_n(&record->stamp, record->stamp + 1, __ATOMIC_RELEASE);
}

static bool is_longer(const struct wire_box_mark *mark, const struct wire_box_mark *than)
{
    return mark->ns > than->ns;
}

static bool is_slower(const struct wire_box_mark *mark, const struct wire_box_mark *than)
{
    return (double)mark->bytes * (double)than->ns < (double)than->bytes * (double)mark->ns;
}

/* Keeps the mark in the slot of its end, if it is the worst there. What leaves a slot goes on to the longer spans. */
static void keep(struct wire_box_mark (*spans)[WIRE_WATCH_SLOTS], struct wire_box_mark mark,
                 bool (*is_worse)(const struct wire_box_mark *mark, const struct wire_box_mark *than))
{
    for (unsigned span = 0; span < WIRE_WATCH_SPANS; span++) {
        mark.slot = mark.end / watch_slot_ns(span) + 1;
        struct wire_box_mark *place = &spans[span][mark.slot % WIRE_WATCH_SLOTS], before = *place;
        if (before.slot > mark.slot) /* it is older than all that this span is about */
            continue;
        if (before.slot == mark.slot) {
            if (is_worse(&mark, &before))
                *place = mark;
            return;
        }
        *place = mark;
        if (!before.slot)
            return;
        mark = before;
    }
}

/* ---- Slow windows in a row ---- */

static void watch_tell(const struct trace_lane *lane, enum wire_event_kind kind, uint64_t value1, uint64_t value2)
{
    const struct wire_box_lane *record = lane->record;
    const struct trace_about about = {.lane = (int)record->index,
                                      .peer_pid = record->peer_pid,
                                      .peer_rank = -1,
                                      .peer_host = record->peer_host,
                                      .value1 = value1,
                                      .value2 = value2};
    trace_event(lane->trace, kind, &about);
}

static void slow_goes_on(struct trace_lane *lane, uint64_t now, enum window_cause cause, uint64_t usual)
{
    struct trace_watch *watch = &lane->watch;
    struct wire_box_slow *slow = &watch->slow;
    if (!slow->windows)
        *slow = (struct wire_box_slow){.begin = watch->begin, .usual = usual, .cause = cause};
    slow->end = now;
    slow->ns += watch->busy;
    slow->bytes += watch->bytes;
    slow->windows++;
    if (slow->ns < SLOW_NS)
        return;
    struct wire_box_watch *record = watch->record;
    record->slows += !watch->told;
    record->slow[(record->slows - 1) % WIRE_WATCH_SLOWS] = *slow;
}

static void slow_is_over(struct trace_lane *lane)
{
    struct trace_watch *watch = &lane->watch;
    const struct wire_box_slow slow = watch->slow;
    bool told = watch->told;
    watch->slow.windows = 0;
    watch->told = false;
    if (told)
        watch_tell(lane, WIRE_EVENT_LANE_SLOW_OVER, (slow.end - slow.begin) / NS_PER_MS,
                   (uint64_t)watch_slow_rate(&slow));
}

/* Outside of the record's writing, for it takes a lock. */
static void slow_alarm(struct trace_lane *lane)
{
    struct trace_watch *watch = &lane->watch;
    if (watch->told || !watch->slow.windows || watch->slow.ns < SLOW_NS)
        return;
    watch->told = true;
    trace_count(lane->trace, WIRE_COUNTER_LANES_SLOW, 1);
    watch_tell(lane, WIRE_EVENT_LANE_SLOW, (uint64_t)watch_slow_rate(&watch->slow), watch->slow.usual);
}

/* ---- Windows ---- */

static enum window_cause window_cause_of(const struct trace_watch *watch)
{
    uint64_t late = watch->late[WINDOW_SENDER] + watch->late[WINDOW_RECEIVER] + watch->late[WINDOW_STARVED];
    unsigned most = WINDOW_SENDER;
    if (2 * late <= watch->busy)
        return WINDOW_NETWORK;
    for (unsigned cause = WINDOW_RECEIVER; cause <= WINDOW_STARVED; cause++)
        most = watch->late[cause] > watch->late[most] ? cause : most;
    return (enum window_cause)most;
}

/* Is a window of this rate slow? Else the usual rate learns from it. */
static bool is_slow_window(struct trace_watch *watch, unsigned size, uint32_t rate)
{
    uint32_t *usual = &watch->usual[size];
    bool known = watch->known[size] >= LEARNED;
    if (known && rate + OCTAVE < *usual && (!watch->slow.windows || watch->slow.ns < RELEARN))
        return true;
    if (!watch->known[size] || (known && rate + OCTAVE < *usual))
        *usual = rate;
    else if (rate > *usual)
        *usual += rate - *usual < FAR_ABOVE * STEP ? rate - *usual : FAR_ABOVE * STEP;
    else
        *usual -= *usual - rate < STEP ? *usual - rate : STEP;
    watch->known[size] += !known;
    return false;
}

void trace_watch_close(struct trace_lane *lane, uint64_t now)
{
    struct trace_watch *watch = &lane->watch;
    struct wire_box_watch *record = watch->record;
    if (watch->busy < WINDOW_RESOLUTION)
        return;
    enum window_cause cause = window_cause_of(watch);
    uint64_t rate = (uint64_t)((double)watch->bytes * 1e9 / (double)watch->busy);
    unsigned size = size_kind(watch->bytes / watch->segments);
    bool slow = is_slow_window(watch, size, logarithm(rate));
    record_begin_watch(record);
    record->windows++;
    record->segments += watch->segments;
    record->bytes += watch->bytes;
    record->slow_windows += slow;
    record->usual = power(watch->usual[size]);
    record->rates[watch_row_of_rate(rate)]++;
    trace_store(&record->time[WINDOW_NETWORK], record->time[WINDOW_NETWORK] + watch->busy - watch->late[WINDOW_SENDER] -
                                                   watch->late[WINDOW_RECEIVER] - watch->late[WINDOW_STARVED]);
    keep(record->least,
         (struct wire_box_mark){
             .end = now, .ns = watch->busy, .bytes = watch->bytes, .segments = watch->segments, .cause = cause},
         is_slower);
    if (slow)
        slow_goes_on(lane, now, cause, record->usual);
    record_end_watch(record);
    if (slow)
        slow_alarm(lane);
    else if (watch->slow.windows)
        slow_is_over(lane);
    watch->begin = now;
    watch->busy = watch->bytes = watch->segments = 0;
    watch->late[WINDOW_SENDER] = watch->late[WINDOW_RECEIVER] = watch->late[WINDOW_STARVED] = 0;
}

/* ---- Pauses ---- */

static uint64_t watch_between(uint64_t least, uint64_t value, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void add_time(struct wire_box_watch *record, enum window_cause cause, uint64_t ns)
{
    trace_store(&record->time[cause], trace_load(&record->time[cause]) + ns);
}

/* First nobody waited, then one of the two ends, then the lane was not given what was there. */
uint64_t trace_watch_gap(struct trace_lane *lane, const struct wire_box_segment *segment, bool beside)
{
    struct trace_watch *watch = &lane->watch;
    uint64_t from = watch->free_since, to = segment->posted;
    if (!watch->segments)
        watch->begin = to;
    if (!from)
        return 0;
    uint64_t ready = watch_between(from, segment->ready, to), credit = watch_between(from, segment->credit, to);
    uint64_t both = ready > credit ? ready : credit, idle = (ready < credit ? ready : credit) - from;
    enum window_cause who = ready < credit ? WINDOW_RECEIVER : WINDOW_SENDER;
    enum window_cause then = beside ? WINDOW_UNUSED : WINDOW_STARVED;
    uint64_t late = both - from - idle, starved = beside ? 0 : to - both;
    add_time(watch->record, WINDOW_IDLE_TIME, idle);
    add_time(watch->record, who, late);
    add_time(watch->record, then, to - both);
    if (to - from < WINDOW_IDLE) {
        watch->late[who] += late;
        watch->late[WINDOW_STARVED] += starved;
        return late + starved;
    }
    uint64_t most = late > starved ? late : starved;
    if (most < WINDOW_IDLE)
        return 0;
    record_begin_watch(watch->record);
    keep(watch->record->pause,
         (struct wire_box_mark){.end = to, .ns = most, .cause = late > starved ? who : WINDOW_STARVED}, is_longer);
    record_end_watch(watch->record);
    return 0;
}

void trace_watch_message(struct trace_lane *lane, uint64_t ns, uint64_t when)
{
    if (!lane)
        return;
    struct wire_box_watch *record = lane->watch.record;
    record_begin_watch(record);
    record->messages++;
    record->times[watch_row_of_time(ns)]++;
    keep(record->message, (struct wire_box_mark){.end = when, .ns = ns}, is_longer);
    record_end_watch(record);
}

void trace_watch_open(struct trace_lane *lane)
{
    struct wire_box_watch *watch = (struct wire_box_watch *)(void *)((char *)lane->record + WIRE_BOX_WATCH_AT);
    uint64_t stamp = watch->stamp;
    trace_store(&watch->stamp, stamp + 1);
    trace_fence();
    memset((char *)watch + sizeof stamp, 0, sizeof *watch - sizeof stamp);
    __atomic_store_n(&watch->stamp, stamp + 2, __ATOMIC_RELEASE);
    lane->watch = (struct trace_watch){.record = watch};
}

void trace_watch_begin(struct trace_lane *lane)
{
    struct trace_watch *watch = &lane->watch;
    if (watch->slow.windows)
        slow_is_over(lane);
    watch->free_since = watch->begin = watch->busy = watch->bytes = watch->segments = 0;
    memset(watch->late, 0, sizeof watch->late);
}
