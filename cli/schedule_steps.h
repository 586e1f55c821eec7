/* SPDX-License-Identifier: Apache-2.0 */
/* tutti schedule --plan with --islands. */
#ifndef TUTTI_CLI_SCHEDULE_STEPS_H
#define TUTTI_CLI_SCHEDULE_STEPS_H

#include "schedule/cost.h"

struct schedule_price {
    struct cost_model model; /* within an island */
    struct cost_network network;
    int slices;
};

/* Prints the steps of a call of these bytes (n blocks of a rank where each rank has one), and their cost. Returns the
 * name of the algorithm. The shape has levels. */
const char *schedule_steps(const struct shape *shape, int64_t bytes, const struct schedule_price *price);

#endif
