/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which GPUs carry out a collective. Each is a schedule, a row of src/algorithm of the same name. */
#ifndef TUTTI_PLAN_WAYS_H
#define TUTTI_PLAN_WAYS_H

#include "schedule/flow.h"
#include "wire/blackbox.h"

enum way {
    WAY_EXCHANGE,       /* all messages at once, by kernel */
    WAY_COPY,           /* the same by copy engines, as far as messages are long */
    WAY_ONE_SHOT,       /* reductions: contributions to who wants the result */
    WAY_TWO_SHOT,       /* contributions to owners of parts, and their results back */
    WAY_LINES,          /* the same, in lines of 128 bytes */
    WAY_ONE_SHOT_LINES, /* contributions to everybody, in such lines */
    WAY_BULK,           /* as WAY_TWO_SHOT, through larger scratch */
    WAY_BULK_COPY,      /* the same, results by copy engines */
    WAY_PEER_LOAD,      /* the same, from and to users' memory */
    WAY_RING,           /* reductions and broadcasts: from rank to rank */
    WAY_RING_LINES,     /* the same, in lines of 128 bytes */
    WAY_RING_COPY,      /* the same of an allreduce, results by copy engines */
    WAY_CHAIN,          /* broadcasts: from rank to rank, in long chunks */
    WAY_COPY_CHAIN,     /* the same by copy engines */
    WAY_FAN,            /* broadcasts: to all through one */
    WAY_COUNT
};

/* The last flow of each collective: calls repeat. */
struct way_flows {
    struct way_flow {
        const struct algorithm *algorithm;
        enum way way;
        int root;
        struct flow flow;
    } of[COLL_COUNT];
};

const struct wire_name *way_name(enum way way);

/* What `rank` of `nranks` does when a collective goes that way; NULL if none can, which is a mistake of the caller's.
 * Valid until another way or root of this collective is asked for. root: as the call has it. */
const struct way_flow *way_find(struct way_flows *flows, enum way way, enum coll coll, int root, int rank, int nranks);

#endif
