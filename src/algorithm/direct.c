/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct: everyone exchanges with everyone at once. Fewest rounds, most messages: for peers that load and store each other's memory,
 * and for few ranks. Allreduce comes in two: "oneshot" (all send everything, one exchange) and "direct" (two exchanges: reduce my
 * block of all, give it to all). Peers are taken in rotated order, so that rank 0 is not everyone's first.
 */
#include "algorithm/rows.h"

static int all_actions(const struct shape *shape)
{
    return 2 * shape->nranks + 1;
}

static int two(const struct shape *shape)
{
    return 2;
}

static int scratch_ranks(const struct shape *shape, int rank)
{
    return shape->nranks;
}

static int scratch_ranks_at_root(const struct shape *shape, int rank)
{
    return rank == shape->root ? shape->nranks : 0;
}

static int oneshot_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (round == 1) {
        actions[0] = act_reduce(scratch(0), n, out(0), run(0, 1), true);
        return 1;
    }
    actions[count++] = act_copy(in(0), scratch(me), run(0, 1));
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n);
        actions[count++] = act_send(to, in(0), run(0, 1));
        actions[count++] = act_recv(from, scratch(from), run(0, 1));
    }
    return count;
}

/* All blocks of mine to their owners, who keep them in SCRATCH by rank. */
static int spread(const struct shape *shape, int me, struct action *actions)
{
    int n = shape->nranks, count = 0;
    actions[count++] = act_copy(in(me), scratch(me), run(me, 1));
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n);
        actions[count++] = act_send(to, in(to), run(to, 1));
        actions[count++] = act_recv(from, scratch(from), run(me, 1));
    }
    return count;
}

/* My block, from `mine`, to all. */
static int share(const struct shape *shape, int me, struct place mine, struct action *actions)
{
    int n = shape->nranks, count = 0;
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n);
        actions[count++] = act_send(to, mine, run(me, 1));
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

static int allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    if (round == 0)
        return spread(shape, me, actions);
    actions[0] = act_reduce(scratch(0), shape->nranks, out(me), run(me, 1), true);
    return 1 + share(shape, me, out(me), actions + 1);
}

static int reduce_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    if (round == 0)
        return spread(shape, me, actions);
    actions[0] = act_reduce(scratch(0), shape->nranks, out(0), run(me, 1), true);
    return 1;
}

static int allgather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = act_copy(in(0), out(me), run(me, 1));
    return 1 + share(shape, me, in(0), actions + 1);
}

static int reduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (round == 0 && me != shape->root) {
        actions[count++] = act_send(shape->root, in(0), run(0, 1));
    } else if (round == 0) {
        actions[count++] = act_copy(in(0), scratch(me), run(0, 1));
        for (int i = 1; i < n; i++)
            actions[count++] = act_recv(wrap(me + i, n), scratch(wrap(me + i, n)), run(0, 1));
    } else if (me == shape->root) {
        actions[count++] = act_reduce(scratch(0), n, out(0), run(0, 1), true);
    }
    return count;
}

static int broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (me != shape->root) {
        actions[count++] = act_recv(shape->root, out(0), run(0, 1));
        return count;
    }
    actions[count++] = act_copy(in(0), out(0), run(0, 1));
    for (int i = 1; i < n; i++)
        actions[count++] = act_send(wrap(me + i, n), in(0), run(0, 1));
    return count;
}

static int alltoall_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    actions[count++] = act_copy(in(me), out(me), run(me, 1));
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n);
        actions[count++] = act_send(to, in(to), run(to, 1));
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

static int gather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (me != shape->root) {
        actions[count++] = act_send(shape->root, in(0), run(me, 1));
        return count;
    }
    actions[count++] = act_copy(in(0), out(me), run(me, 1));
    for (int i = 1; i < n; i++) {
        int from = wrap(me + i, n);
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

static int scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (me != shape->root) {
        actions[count++] = act_recv(shape->root, out(0), run(me, 1));
        return count;
    }
    actions[count++] = act_copy(in(me), out(0), run(me, 1));
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n);
        actions[count++] = act_send(to, in(to), run(to, 1));
    }
    return count;
}

static int barrier_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    for (int i = 1; i < n; i++) {
        actions[count++] = act_send(wrap(me + i, n), in(0), run(0, 0));
        actions[count++] = act_recv(wrap(me - i, n), out(0), run(0, 0));
    }
    return count;
}

static int no_blocks(const struct shape *shape)
{
    return 0;
}

#define DIRECT .flags = ALGORITHM_DIRECT, .actions = all_actions
const struct algorithm algorithm_oneshot_allreduce = {
    .name = "oneshot", .colls = COLL_BIT(ALLREDUCE), DIRECT, .rounds = two, .blocks = one, .scratch = scratch_ranks,
    .round = oneshot_round};
const struct algorithm algorithm_direct_allreduce = {
    .name = "direct", .colls = COLL_BIT(ALLREDUCE), DIRECT, .rounds = two, .blocks = nranks, .scratch = scratch_ranks,
    .round = allreduce_round};
const struct algorithm algorithm_direct_reduce = {
    .name = "direct", .colls = COLL_BIT(REDUCE), DIRECT, .rounds = two, .blocks = one, .scratch = scratch_ranks_at_root,
    .round = reduce_round};
const struct algorithm algorithm_direct_broadcast = {
    .name = "direct", .colls = COLL_BIT(BROADCAST), DIRECT, .rounds = one, .blocks = one, .scratch = no_scratch,
    .round = broadcast_round};
const struct algorithm algorithm_direct_allgather = {
    .name = "direct", .colls = COLL_BIT(ALLGATHER), DIRECT, .rounds = one, .blocks = nranks, .scratch = no_scratch,
    .round = allgather_round};
const struct algorithm algorithm_direct_reduce_scatter = {
    .name = "direct", .colls = COLL_BIT(REDUCE_SCATTER), DIRECT, .rounds = two, .blocks = nranks, .scratch = scratch_ranks,
    .round = reduce_scatter_round};
const struct algorithm algorithm_direct_alltoall = {
    .name = "direct", .colls = COLL_BIT(ALLTOALL) | COLL_BIT(ALLTOALLV), DIRECT, .rounds = one, .blocks = nranks,
    .scratch = no_scratch, .round = alltoall_round};
const struct algorithm algorithm_direct_gather = {
    .name = "direct", .colls = COLL_BIT(GATHER), DIRECT, .rounds = one, .blocks = nranks, .scratch = no_scratch,
    .round = gather_round};
const struct algorithm algorithm_direct_scatter = {
    .name = "direct", .colls = COLL_BIT(SCATTER), DIRECT, .rounds = one, .blocks = nranks, .scratch = no_scratch,
    .round = scatter_round};
const struct algorithm algorithm_direct_barrier = {
    .name = "direct", .colls = COLL_BIT(BARRIER), DIRECT, .rounds = one, .blocks = no_blocks, .scratch = no_scratch,
    .round = barrier_round};
