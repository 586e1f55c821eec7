/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches lanes all the time (ICCL section 3.4): windows of segments that have landed, what the lane stood still for
 * between them, and how long small messages took. Constant work for each, some 25 instructions a segment. What is found
 * stands in the black box, minutes and hours later, too. The calls on one lane: one at a time, as those of trace.h.
 */
#ifndef TUTTI_TRACE_WATCH_H
#define TUTTI_TRACE_WATCH_H

#include "trace/trace.h"
#include "wire/boxwindow.h"

/* The lane has its place: what an earlier one did there is forgotten. */
void trace_watch_open(struct trace_lane *lane);

/* The lane is up: what was before is over, and no pause of it counts. */
void trace_watch_begin(struct trace_lane *lane);

/* The window has its segments. */
void trace_watch_close(struct trace_lane *lane, uint64_t now);

/* The lane stood still until the segment was put. beside: other lanes to that peer had segments meanwhile. Returns the
 * time that belongs to the window. */
uint64_t trace_watch_gap(struct trace_lane *lane, const struct wire_box_segment *segment, bool beside);

/* A small message took `ns`, and had arrived at `when`. */
void trace_watch_message(struct trace_lane *lane, uint64_t ns, uint64_t when);

/* The segment landed, of the last WIRE_BOX_SEGMENTS segments. */
static inline void trace_segment_landed(struct trace_lane *lane, uint64_t position, bool beside, uint64_t when)
{
    if (!lane)
        return;
    trace_segment_end(lane, position, WIRE_SEGMENT_LANDED, when);
    const struct wire_box_segment *segment = &lane->ring[position & (WIRE_BOX_SEGMENTS - 1)];
    struct trace_watch *watch = &lane->watch;
    uint64_t from = watch->free_since;
    if (segment->posted > from) {
        watch->busy += trace_watch_gap(lane, segment, beside);
        from = segment->posted;
    }
    when = when > from ? when : from;
    watch->busy += when - from;
    watch->free_since = when;
    watch->bytes += segment->length;
    if (++watch->segments >= WINDOW_SEGMENTS || when - watch->begin > NS_PER_S)
        trace_watch_close(lane, when);
}

#endif
