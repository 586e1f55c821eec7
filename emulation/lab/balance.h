/* SPDX-License-Identifier: Apache-2.0 */
/* How evenly a load lies on parallel links. */
#ifndef LAB_BALANCE_H
#define LAB_BALANCE_H

#include <stdint.h>

struct balance {
    double mean;
    double variance;      /* of the population: the mean of squared distances from the mean */
    double max_over_mean; /* 1 is even, the number of links is the worst; 1 if there is no load */
};

struct balance balance_of(const uint64_t *values, int count);

#endif
