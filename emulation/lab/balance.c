/* SPDX-License-Identifier: Apache-2.0 */
/* Mean, variance and the busiest link's share. */
#include "lab/balance.h"

struct balance balance_of(const uint64_t *values, int count)
{
    struct balance balance = {0, 0, 1};
    uint64_t max = 0;
    if (count == 0)
        return balance;
    for (int i = 0; i < count; i++) {
        balance.mean += (double)values[i] / count;
        max = values[i] > max ? values[i] : max;
    }
    for (int i = 0; i < count; i++) {
        double distance = (double)values[i] - balance.mean;
        balance.variance += distance * distance / count;
    }
    if (balance.mean > 0)
        balance.max_over_mean = (double)max / balance.mean;
    return balance;
}
