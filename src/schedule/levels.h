/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is near whom. Ranks of one host share memory; hosts are joined by a network, which is slower and shared by the
 * ranks of a host. A shape with levels lets algorithms send little over it, and a price count it apart.
 */
#ifndef TUTTI_SCHEDULE_LEVELS_H
#define TUTTI_SCHEDULE_LEVELS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

/* Positions order ranks by distance: those of a host follow one another, hosts come by their first ranks. The same on
 * all ranks. */
struct levels {
    int nranks, hosts;
    int least, most;         /* ranks of the host that has fewest, and most */
    bool in_order;           /* each rank's position is its number */
    const int32_t *order;    /* by position: the rank */
    const int32_t *position; /* by rank */
    const int32_t *host;     /* by rank: 0 .. hosts - 1 */
    const int32_t *first;    /* by host: the position of its first rank; one more entry is nranks */
};

/* host[r] names the host of rank r: equal names, one host. free() it. TUTTI_SYSTEM_ERROR: no memory. */
tutti_result_t levels_make(const uint64_t *host, int nranks, struct levels **out);

#endif
