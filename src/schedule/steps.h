/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collective over several islands as steps, each a collective of a part of the ranks. An island is a host of the
 * shape's levels; later code may take any level. The steps are a table of rows. They are expanded to the rounds of an
 * ordinary schedule, so that proof, price, drawing, executors and black box need not know of steps.
 *
 * Parts. The smallest island has `rails` ranks. The ranks of each island are cut into as many columns, runs of
 * neighbours of nearly equal length: column i of an island of s ranks is those of index i * s / rails up to
 * (i + 1) * s / rails. The first rank of each column is on rail i, which has one rank of every island. Where islands
 * are alike a column is one rank, and a rail joins ranks of equal index. Of islands of 3 and 1 ranks there is one rail:
 * the first rank of each.
 *
 * Blocks. A collective that cuts its vector gives each rail an equal part of it: blocks [i * p, (i + 1) * p). Where
 * each rank has a block, a rail carries the blocks of its column's ranks on all islands.
 */
#ifndef TUTTI_SCHEDULE_STEPS_H
#define TUTTI_SCHEDULE_STEPS_H

#include "schedule/schedule.h"

enum steps_part { STEPS_ISLAND, STEPS_COLUMN, STEPS_RAIL };

/* Where a rank has what a step reads or writes. */
enum steps_place {
    STEPS_IN, /* the user's buffers */
    STEPS_OUT,
    STEPS_HELD,  /* what its column is to have of or for all islands: in SCRATCH, or where the user has it whole */
    STEPS_SHARE, /* of or for the ranks of its column on its own island: the same */
};

enum steps_how {
    STEPS_FOLDS = 1,  /* the last round is local: the next step begins in it */
    STEPS_BESIDE = 2, /* begins with the step before, where islands are alike; that has copied the rank's own block */
    STEPS_TURNS = 4,  /* in each round of the step before but the first: with what has come from the island that many
                         places back round the ring */
    STEPS_OWN = 8,    /* of an island: each member's own block, not that of its column */
    STEPS_ROOT = 16   /* on the root's island alone */
};

/* A row. Of rooted collectives the root is: of an island the root itself; of a rail its rank on the root's island; of a
 * column its first rank. */
struct step {
    const struct algorithm *by; /* a row for the collective that the step is. On islands and columns its rounds must be
                                   as many for any number of ranks */
    enum steps_part part;
    enum steps_place from, to;
    unsigned how; /* set of enum steps_how */
};

#define STEPS_MOST 4

struct steps_row {
    int count;
    struct step step[STEPS_MOST];
};

/* The functions of struct algorithm. The bound of actions() is that of all steps together. */
int steps_rounds(const struct steps_row *steps, const struct shape *shape);
int steps_blocks(const struct steps_row *steps, const struct shape *shape);
int steps_scratch(const struct steps_row *steps, const struct shape *shape, int rank);
int steps_actions(const struct steps_row *steps, const struct shape *shape);
int steps_round(const struct steps_row *steps, const struct shape *shape, int rank, int round, struct action *out);
/* The same of one step alone. */
int steps_round_of(const struct steps_row *steps, const struct shape *shape, int index, int rank, int round,
                   struct action *out);

/* When a step is under way: rounds [begin, end). Empty where no rank has anything to do in it. */
struct steps_span {
    int begin, end;
};
struct steps_span steps_when(const struct steps_row *steps, const struct shape *shape, int index);

/* What all rails together carry, in vectors (n blocks of one rank, where each rank has a block). */
double steps_rail_vectors(const struct shape *shape);
/* The same as a formula, for people. */
const char *steps_rail_formula(enum coll coll);

#endif
