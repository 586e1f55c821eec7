/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in the making. */
#ifndef TUTTI_PATHMASTER_PLAN_H
#define TUTTI_PATHMASTER_PLAN_H

#include "pathmaster/allot.h"

#define PLAN_LESS  1e-9 /* fills that differ by less are alike */
#define PLAN_WORTH 0.01 /* of a link: a lane that moves may be slow for a while, so less is not worth it */

/* Ways of lanes as the plan would have them, and the loads that they make. */
struct plan_draft {
    struct allot_way *way; /* of each lane */
    uint64_t *load;
};

/* Takes lanes off links that are beyond their share, by chains of moves, while there are any and `most` moves were not
 * made. Returns how many were made; -1: no memory. */
int64_t plan_chains(const struct allot *allot, int64_t most, struct plan_draft *draft);

#endif
