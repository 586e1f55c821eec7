/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min fair rates: all flows grow at the same speed until a link is full. The flows of that link stay as they are,
 * and the others grow on ("progressive filling": Bertsekas and Gallager, "Data Networks", section 6.5.2). Pure: no I/O,
 * no state.
 *
 * Equal flows (the same links) are one flow with a weight: a fabric of 131,072 GPUs is some 100,000 of them.
 */
#ifndef TUTTI_FABRIC_MAXMIN_H
#define TUTTI_FABRIC_MAXMIN_H

#include "tutti/tutti.h"

#include <stdint.h>

#define MAXMIN_MOST (1u << 28) /* entries of link[]: 1 GiB, and the same again while rates are computed */

struct maxmin {
    int32_t links, flows;
    const double *capacity; /* of each link, in bytes per second; INFINITY: no limit, 0: down */
    const uint32_t *first;  /* flow f takes link[first[f]] to link[first[f + 1] - 1], each link at most once */
    const int32_t *link;
    const double *weight; /* the number of equal flows that each stands for; NULL: one */
};

/* rate[f]: of each of the equal flows; INFINITY where no link limits it. */
tutti_result_t maxmin_rates(const struct maxmin *problem, double *rate);

/*
 * Flow f begins at start[f] (NULL: all at 0) and has bytes[f] to send. finish[f] is its end; INFINITY: never. Each
 * begin and end of a flow changes the rates of the others. Ends that are less than `step` seconds apart count as one,
 * for speed: rates are late by that much then, each end is still at its own time. 0: none do.
 */
tutti_result_t maxmin_finish(const struct maxmin *problem, const double *bytes, const double *start, double step,
                             double *finish);

/*
 * Bounds the ends of flows that begin together, without computing a rate: no flow f ends later than each[f]. If all
 * flows have the same bytes, the last one ends at the greatest of each[]. For a max-min fair flow is at the least as
 * fast as the even share of its links, and the flows of the busiest link are exactly so.
 */
void maxmin_bound(const struct maxmin *problem, const double *bytes, double *load, double *each);

#endif
