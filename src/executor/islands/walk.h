/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's way through the steps of a call: what all rows of steps are made of. */
#ifndef TUTTI_EXECUTOR_ISLANDS_WALK_H
#define TUTTI_EXECUTOR_ISLANDS_WALK_H

#include "executor/islands/steps.h"

struct walk {
    const struct islands *islands;
    const struct call *call;
    islands_step_fn *each;
    void *context;
    int steps;   /* all; 0: not counted so far */
    int *number; /* of the latest one */
};

static inline void *walk_at(const void *base, size_t elements, const struct call *call)
{
    return base ? (char *)(uintptr_t)base + elements * call->size : NULL;
}

static inline size_t walk_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline const struct level *walk_hosts(const struct walk *walk)
{
    return levels_hosts(walk->islands->team->levels);
}

/* The island that has the root, the root's number there, and whether it is this one. */
int walk_root_island(const struct walk *walk);
int walk_root_index(const struct walk *walk);
bool walk_roots_own(const struct walk *walk);

/* A step of no elements is none. An average is a sum on islands, and divided on the rail, where all come together. */
tutti_result_t walk_island(const struct walk *walk, enum coll coll, size_t count, const void *in, void *out, int root);
/* longest: of all rails. A rank on no rail, or on one that has nothing to do, has no elements. */
tutti_result_t walk_rail(const struct walk *walk, enum coll coll, size_t count, size_t longest, const void *in,
                         void *out, int root);
tutti_result_t walk_copy(const struct walk *walk, size_t count, const void *in, void *out);
/* A step that the caller has described, but for its number: of alltoallv, or of blocks of unlike lengths. */
tutti_result_t walk_lengths(const struct walk *walk, enum islands_part part, struct call *call, size_t longest);
/* Steps of `count` elements, which only other islands have. */
tutti_result_t walk_skip(const struct walk *walk, int steps, size_t count);

#endif
