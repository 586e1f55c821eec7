/* SPDX-License-Identifier: Apache-2.0 */
/* For steps.c: parts of ranks, and which blocks belong to whom. */
#ifndef TUTTI_SCHEDULE_STEPS_PART_H
#define TUTTI_SCHEDULE_STEPS_PART_H

#include "schedule/steps.h"

/* Where a rank is. */
struct steps_seat {
    const struct shape *shape;
    const struct level *hosts;      /* NULL: one island */
    int rank, islands, rails, most; /* most: ranks of the largest island */
    int island, index, size;        /* rank `index` of `size` */
    int column, first, width;       /* the column's first index, and how many ranks it has */
    bool alike;                     /* all columns have one rank */
};

struct steps_seat steps_seat(const struct shape *shape, int rank);

/* Position in the order of levels, and back. */
int steps_begin(const struct steps_seat *seat, int island);
int steps_size(const struct steps_seat *seat, int island);
int steps_rank_at(const struct steps_seat *seat, int position);
/* Index on an island of `size` ranks of the first of a column. */
int steps_first_of(const struct steps_seat *seat, int size, int column);
int steps_column_of(const struct steps_seat *seat, int size, int index);
/* Ranks of the widest column. */
int steps_widest(const struct steps_seat *seat);
/* Ranks of the columns of this rank's rail on islands before `island`. */
int steps_ranks_before(const struct steps_seat *seat, int island);

/* The part of a step that a rank is in: member `me` of `size`. */
struct steps_group {
    int size, me, root;
};

/* False: this rank is in none. */
bool steps_group_of(const struct steps_seat *seat, const struct step *step, struct steps_group *out);
int steps_member(const struct steps_seat *seat, enum steps_part part, int index);

/* Ranks as positions: those of a column on islands [island, last), or one position alone; and of an alltoall the
 * positions of those whose blocks for them are meant. */
struct steps_set {
    int island, last, column;
    int at, end;          /* positions of the island that is next or, of one alone, all */
    int source, from, to; /* to: 0 if there are none */
    int target;           /* how many were before */
};

/* Neighbours in number: blocks [number, number + nblocks) of a user's buffer. */
struct steps_run {
    int number, nblocks;
    int target, source; /* how many are before them in the set, and among the sources */
};

struct steps_set steps_set_of_islands(const struct steps_seat *seat, int island, int last, int column);
struct steps_set steps_set_of_one(int position);
bool steps_next(const struct steps_seat *seat, struct steps_set *set, struct steps_run *out);

#endif
