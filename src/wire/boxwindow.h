/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bandwidth of lanes, from the times of their segments alone: pure functions of what a black box holds. ICCL
 * section 3.4: a window of some segments smooths what one segment does not tell, and is short enough to show what an
 * average over a second hides.
 */
#ifndef TUTTI_WIRE_BOXWINDOW_H
#define TUTTI_WIRE_BOXWINDOW_H

#include "wire/boxread.h"

#define WINDOW_SEGMENTS   8      /* of a window, as ICCL's */
#define WINDOW_RESOLUTION 10000  /* ns: no window is shorter, no pause that is shorter is told of */
#define WINDOW_IDLE       100000 /* ns: windows begin anew after a pause of so much */

/* A window of segments that have landed, or a pause between two (segments: 0). */
struct lane_window {
    uint64_t begin, end; /* ns of CLOCK_MONOTONIC */
    uint64_t bytes;
    uint32_t segments;
    uint64_t time[WINDOW_CAUSES]; /* ns; their sum is end - begin */
    enum window_cause cause;      /* that took the longest */
    bool slow; /* a window of less than half of what the lane does at its best (nine of ten windows do less) */
};

/* Bytes a second; 0 of a pause, and of a window that took no time. */
double window_rate(const struct lane_window *window);

/* The windows and pauses of one of a box's lanes, in order, with `segments` segments each. The last window before a
 * pause may have fewer, or what would be less than WINDOW_RESOLUTION more. Returns how many; freed by the caller. *out
 * is NULL when there is none, or no memory. */
size_t lane_windows(const struct blackbox *box, size_t lane, uint32_t segments, struct lane_window **out);

/* "network", "sender late", "receiver late", "starved", "other lanes", "idle" */
const char *window_cause_name(enum window_cause cause);

#endif
