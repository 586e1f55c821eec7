/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways between GPUs, and the parameter that says at which size the second one begins: what there is to tune. Those
 * of rows of tables/ways.tbl follow from the rows; tables/duels.tbl has what does not: which sizes are worth measuring.
 */
#ifndef TUTTI_PLAN_DUEL_H
#define TUTTI_PLAN_DUEL_H

#include "plan/plan.h"

#include "base/param.h"

enum plan_duel_where { PLAN_APART = 1, PLAN_TOGETHER = 2 }; /* each rank a process; all ranks in one */

/* What a parameter compares with the bytes of the vector. */
enum plan_duel_unit {
    PLAN_VECTOR,
    PLAN_PART,      /* to each peer */
    PLAN_SHORT_PART /* the same, divided by NUMBER_COLLECTIVE_TIMES */
};

struct plan_duel {
    enum param_id id;
    const char *ways[2];   /* of messages; NULL: a row's, see plan_duel_ways() */
    const char *values[2]; /* by which all measured sizes go the one way and the other */
    const char *collectives[2];
    char with[48]; /* a setting without which there is no choice between the two; or "" */
    enum plan_duel_unit unit;
    unsigned where;       /* of messages: bits of enum plan_duel_where */
    bool largest;         /* the parameter is the largest size of the first way */
    const char *never;    /* its value where the second way is taken nowhere; NULL: a size above those measured */
    uint64_t least, most; /* units */
    const char *untuned;  /* why it is not measured; NULL: it is */
};

#define ROWS(...)     +1
#define MESSAGES(...) +1
#define UNTUNED(...)  +1
enum {
    PLAN_DUELS = 0
#include "tables/duels.tbl"
};
#undef ROWS
#undef MESSAGES
#undef UNTUNED

struct plan_duel plan_duel(int index);

/* How a call goes with the first and the second value, where facts are those. False: the same way, so there is nothing
 * to measure. */
bool plan_duel_ways(const struct plan_duel *duel, const struct plan_facts *facts, uint64_t bytes, const char *ways[2]);

#endif
