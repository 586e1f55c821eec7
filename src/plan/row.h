/* SPDX-License-Identifier: Apache-2.0 */
/* A row of tables/ways.tbl, for the choice and for what derives duels from it. */
#ifndef TUTTI_PLAN_ROW_H
#define TUTTI_PLAN_ROW_H

#include "plan/plan.h"

enum plan_quantity { VECTOR, INPUT, ALL };
enum plan_collectives { REDUCING, WHOLE, UNROOTED, ROOTED, ALLREDUCE, SCATTER, BROADCAST, GATHERING, EXCHANGING, ANY };

struct plan_limit {
    enum { LIMIT_OPEN, LIMIT_BYTES, LIMIT_AT, LIMIT_PAST } kind;
    uint64_t value; /* bytes, or a parameter */
};

struct plan_row {
    enum plan_collectives collectives;
    unsigned where;
    enum plan_quantity quantity;
    struct plan_limit from, below;
    enum way way;
    enum kernel_id kernel;
};

extern const struct plan_row plan_table[PLAN_ROWS];

static inline bool plan_limit_names(struct plan_limit limit, uint64_t parameter)
{
    return limit.kind >= LIMIT_AT && limit.value == parameter;
}

bool plan_concerns(enum plan_collectives collectives, enum coll coll);

#endif
