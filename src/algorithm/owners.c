/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce by owners, for peers that store in each other's memory. The vector has a block for each owner. All ranks
 * owners_give their contributions to the owners, who reduce and owners_give the results to the root. "two-shot": every
 * rank is an owner. "lines", "bulk" and "peer-load" (longer vectors): all but the root are, because all results come
 * over the root's link; of two ranks both are.
 */
#include "algorithm/rows.h"

static int spared(const struct shape *shape)
{
    return shape->nranks > 2 ? shape->nranks - 1 : shape->nranks;
}

/* The block that a rank owns, of `owners`; -1: none. */
static int owned(const struct shape *shape, int owners, int rank)
{
    if (owners == shape->nranks)
        return rank;
    return rank == shape->root ? -1 : rank - (rank > shape->root);
}

static int owners_give(const struct shape *shape, int owners, int me, struct action *actions)
{
    int n = shape->nranks, count = 0, mine = owned(shape, owners, me);
    if (mine >= 0)
        actions[count++] = act_copy(in(mine), scratch(me), run(mine, 1));
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n), theirs = owned(shape, owners, to);
        if (theirs >= 0)
            actions[count++] = act_send(to, in(theirs), run(theirs, 1));
        if (mine >= 0)
            actions[count++] = act_recv(from, scratch(from), run(mine, 1));
    }
    return count;
}

static int owners_collect(const struct shape *shape, int owners, int me, struct action *actions)
{
    int n = shape->nranks, count = 0, mine = owned(shape, owners, me);
    struct spot sum = me == shape->root ? out(mine) : scratch(n);
    if (mine >= 0)
        actions[count++] = act_reduce(scratch(0), n, sum, run(mine, 1), true);
    if (mine >= 0 && me != shape->root)
        actions[count++] = act_send(shape->root, sum, run(mine, 1));
    for (int i = 1; i < n && me == shape->root; i++) {
        int from = wrap(me + i, n), theirs = owned(shape, owners, from);
        actions[count++] = act_recv(from, out(theirs), run(theirs, 1));
    }
    return count;
}

static int two_shot_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return (round == 0 ? owners_give : owners_collect)(shape, shape->nranks, me, actions);
}

static int spared_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return (round == 0 ? owners_give : owners_collect)(shape, spared(shape), me, actions);
}

/* Of each rank a contribution, and the sum where it is sent on. */
static int two_shot_scratch(const struct shape *shape, int rank)
{
    return shape->nranks + (rank != shape->root);
}

static int spared_scratch(const struct shape *shape, int rank)
{
    return owned(shape, spared(shape), rank) < 0 ? 0 : two_shot_scratch(shape, rank);
}

/* The root is the busiest: it gives to all owners and gets from all. Where it owns nothing it gets nothing at first. */
static struct cost_terms owners_cost(const struct shape *shape, int owners)
{
    double peers = shape->nranks - 1, share = peers / owners, times = owners == shape->nranks ? 2 : 1;
    return (struct cost_terms){2, 2 * peers, 2 * share, share, times * peers, times * share, share};
}

static struct cost_terms two_shot_cost(const struct shape *shape)
{
    return owners_cost(shape, shape->nranks);
}

static struct cost_terms spared_cost(const struct shape *shape)
{
    return owners_cost(shape, spared(shape));
}

ALGORITHM(two_shot_reduce, "two-shot", COLL_BIT(REDUCE), ALGORITHM_GPU, two, nranks, two_shot_scratch, all_actions,
          two_shot_round, two_shot_cost)
ALGORITHM(bulk_reduce, "bulk", COLL_BIT(REDUCE), ALGORITHM_GPU, two, spared, spared_scratch, all_actions, spared_round,
          spared_cost)
ALGORITHM(lines_reduce, "lines", COLL_BIT(REDUCE), ALGORITHM_GPU, two, spared, spared_scratch, all_actions,
          spared_round, spared_cost)
ALGORITHM(peer_load_reduce, "peer-load", COLL_BIT(REDUCE), ALGORITHM_GPU, two, spared, spared_scratch, all_actions,
          spared_round, spared_cost)
