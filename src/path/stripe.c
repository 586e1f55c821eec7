/* SPDX-License-Identifier: Apache-2.0 */
/* Striping by expected completion. */
#include "path/path.h"

static uint64_t expected(const struct link_lane_view *lane)
{
    return (lane->in_flight + 1) * (lane->completion_ns + 1);
}

static int pick(const struct link_lane_view *lanes, int count, size_t length)
{
    (void)length;
    int best = 0;
    for (int i = 1; i < count; i++)
        if (expected(&lanes[i]) < expected(&lanes[best]))
            best = i;
    return best;
}

const struct path_policy path_stripe = {.name = "stripe", .pick = pick};
