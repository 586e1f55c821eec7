/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which GPUs carry out a collective. Each is a schedule, a row of src/algorithm of the same name. */
#ifndef TUTTI_PLAN_WAYS_H
#define TUTTI_PLAN_WAYS_H

#include "schedule/flow.h"
#include "wire/blackbox.h"
#include "wire/way.h"

/* Ranks without whose data this one cannot end, and those that cannot end without its: straight or by others. */
struct way_needs {
    const struct algorithm *algorithm;
    uint32_t from, to;
};

/* The last flow of each collective: calls repeat. Which rank needs which takes longer to find out: the answer is kept
 * for each root. */
struct way_flows {
    struct way_flow {
        const struct algorithm *algorithm;
        enum way way;
        int root;
        struct flow flow;
        const struct way_needs *needs;
    } of[COLL_COUNT];
    struct way_needs needs[COLL_COUNT][FLOW_RANKS];
};

const struct wire_name *way_name(enum way way);

/* What `rank` of `nranks` does when a collective goes that way; NULL if none can, which is a mistake of the caller's.
 * Valid until another way or root of this collective is asked for. root: as the call has it. */
const struct way_flow *way_find(struct way_flows *flows, enum way way, enum coll coll, int root, int rank, int nranks);

#endif
