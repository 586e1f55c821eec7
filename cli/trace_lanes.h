/* SPDX-License-Identifier: Apache-2.0 */
/* The time of lanes, and what they did with it. */
#ifndef TUTTI_CLI_TRACE_LANES_H
#define TUTTI_CLI_TRACE_LANES_H

#include "cli/trace_set.h"
#include "wire/boxwindow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The times of a lane, over all windows and pauses that are remembered. Rates are bytes a second. */
struct view_lane_sum {
    uint64_t bytes, busy, all, time[WINDOW_CAUSES];
    size_t windows, slow;
    double last, best;
    enum window_cause slow_cause; /* of the last slow window */
};
/* Segments of a window. */
uint32_t view_window(const struct view_options *options);
struct view_lane_sum view_lane_sum(const struct blackbox *box, size_t lane, uint32_t segments);
const char *view_lane_state(const struct blackbox_lane *lane);
/* The lane carries data only while no lane for data is up. */
bool view_lane_is_backup(const struct blackbox_lane *lane);
/* "borrowed from process 4711"; "borrowed": no living process owned the interface; "": the lane borrows none. */
void view_lane_loan(const struct blackbox_lane *lane, char *out, size_t size);

#endif
