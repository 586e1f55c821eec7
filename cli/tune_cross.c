/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the size at which one way takes over from another, by the times of both. */
#include "cli/tune.h"

#include <math.h>

/* The gain that a change of the way must bring at the sizes that it concerns: less is noise. */
#define WORTH_A_CHANGE 1.03

/* The sum of the logarithms of all times if the second way begins at `from`. */
static double cost(const struct tune_point *points, int count, int64_t from, int64_t now)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        bool second = points[i].unit >= from;
        sum += log(points[i].us[second]);
        if (second != (points[i].unit >= now))
            sum += log(WORTH_A_CHANGE);
    }
    return sum;
}

int64_t tune_cross(const struct tune_point *points, int count, int64_t now)
{
    int64_t best = now;
    double least = cost(points, count, now, now);
    for (int i = -1; i < count; i++) {
        int64_t from = i < 0 ? TUNE_NEVER : points[i].unit;
        double this = cost(points, count, from, now);
        if (this < least - 1e-9) {
            least = this;
            best = from;
        }
    }
    return best;
}
