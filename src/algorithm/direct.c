/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct: everyone exchanges with everyone at once. Fewest rounds, most messages: for peers that load and store each
 * other's memory, and for few ranks. Allreduce comes in two: "one-shot" (all send everything, one exchange) and
 * "direct" (two exchanges: reduce my block of all, give it to all). Peers are taken in rotated order, so that rank 0 is
 * not everyone's first.
 */
#include "algorithm/rows.h"

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

/* A reduce in which all ranks exchange as in that, so that what each sends tells what it has read: only the root makes
 * anything of it. */
static int shared_reduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return round == 0 || me == shape->root ? oneshot_round(shape, me, round, actions) : 0;
}

/* All blocks of mine to their owners, who keep them in SCRATCH by rank. */
static int direct_spread(const struct shape *shape, int me, struct action *actions)
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

static int direct_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    if (round == 0)
        return direct_spread(shape, me, actions);
    actions[0] = act_reduce(scratch(0), shape->nranks, out(me), run(me, 1), true);
    return 1 + share(shape, me, out(me), actions + 1);
}

static int direct_reduce_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    if (round == 0)
        return direct_spread(shape, me, actions);
    actions[0] = act_reduce(scratch(0), shape->nranks, out(0), run(me, 1), true);
    return 1;
}

static int direct_allgather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    actions[0] = act_copy(in(0), out(me), run(me, 1));
    return 1 + share(shape, me, in(0), actions + 1);
}

static int direct_reduce_round(const struct shape *shape, int me, int round, struct action *actions)
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

static int direct_broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
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

static int direct_alltoall_round(const struct shape *shape, int me, int round, struct action *actions)
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

static int direct_gather_round(const struct shape *shape, int me, int round, struct action *actions)
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

static int direct_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
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

static int direct_barrier_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    for (int i = 1; i < n; i++) {
        actions[count++] = act_send(wrap(me + i, n), in(0), run(0, 0));
        actions[count++] = act_recv(wrap(me - i, n), out(0), run(0, 0));
    }
    return count;
}

/* One exchange of everyone with everyone: `bytes` of the vector each way, `reduced` folded. */
static struct cost_terms exchange_cost(const struct shape *shape, int exchanges, double bytes, double reduced)
{
    return uniform_cost(exchanges, exchanges * (shape->nranks - 1.0), bytes, reduced);
}

static struct cost_terms oneshot_cost(const struct shape *shape)
{
    return exchange_cost(shape, 1, shape->nranks - 1, shape->nranks - 1);
}

static struct cost_terms direct_allreduce_cost(const struct shape *shape)
{
    double share = others(shape);
    return exchange_cost(shape, 2, 2 * share, share);
}

static struct cost_terms direct_reduce_scatter_cost(const struct shape *shape)
{
    return exchange_cost(shape, 1, others(shape), others(shape));
}

static struct cost_terms block_each_cost(const struct shape *shape)
{
    return exchange_cost(shape, 1, others(shape), 0);
}

static struct cost_terms direct_broadcast_cost(const struct shape *shape)
{
    return exchange_cost(shape, 1, shape->nranks - 1, 0);
}

static struct cost_terms direct_barrier_cost(const struct shape *shape)
{
    return exchange_cost(shape, 1, 0, 0);
}

/* A schedule may have several names: ways of GPUs (ALGORITHM_GPU) that move the same blocks between the same ranks. */
#define SHARED ALGORITHM_SHARED
#define GPU    ALGORITHM_GPU
#define OWN_BLOCKS(way, name, flags)                                                                                   \
    ALGORITHM(way##_allreduce, name, COLL_BIT(ALLREDUCE), flags, two, nranks, scratch_ranks, all_actions,              \
              direct_allreduce_round, direct_allreduce_cost)
OWN_BLOCKS(direct, "direct", SHARED)
OWN_BLOCKS(two_shot, "two-shot", GPU)
OWN_BLOCKS(lines, "lines", GPU)
OWN_BLOCKS(bulk, "bulk", GPU)
OWN_BLOCKS(peer_load, "peer-load", GPU)
OWN_BLOCKS(bulk_copy, "bulk-copy", GPU)

#define TO_ROOT(way, name, flags)                                                                                      \
    ALGORITHM(way##_reduce, name, COLL_BIT(REDUCE), flags, two, one, scratch_ranks_at_root, all_actions,               \
              direct_reduce_round, oneshot_cost)
TO_ROOT(direct, "direct", SHARED)
TO_ROOT(one_shot, "one-shot", GPU)

#define SCATTERED(way, name, flags)                                                                                    \
    ALGORITHM(way##_reduce_scatter, name, COLL_BIT(REDUCE_SCATTER), flags, two, nranks, scratch_ranks, all_actions,    \
              direct_reduce_scatter_round, direct_reduce_scatter_cost)
SCATTERED(direct, "direct", SHARED)
SCATTERED(one_shot, "one-shot", GPU)
SCATTERED(lines, "lines", GPU)
SCATTERED(bulk, "bulk", GPU)
SCATTERED(peer_load, "peer-load", GPU)

ALGORITHM(one_shot_allreduce, "one-shot", COLL_BIT(ALLREDUCE), SHARED, two, one, scratch_ranks, all_actions,
          oneshot_round, oneshot_cost)

ALGORITHM(one_shot_lines_allreduce, "one-shot-lines", COLL_BIT(ALLREDUCE), GPU, two, one, scratch_ranks, all_actions,
          oneshot_round, oneshot_cost)
ALGORITHM(one_shot_lines_reduce, "one-shot-lines", COLL_BIT(REDUCE), GPU, two, one, scratch_ranks, all_actions,
          shared_reduce_round, oneshot_cost)

#define EXCHANGES(way, name, flags)                                                                                    \
    ALGORITHM(way##_broadcast, name, COLL_BIT(BROADCAST), flags, one, one, no_scratch, all_actions,                    \
              direct_broadcast_round, direct_broadcast_cost)                                                           \
    ALGORITHM(way##_allgather, name, COLL_BIT(ALLGATHER), flags, one, nranks, no_scratch, all_actions,                 \
              direct_allgather_round, block_each_cost)                                                                 \
    ALGORITHM(way##_alltoall, name, COLL_BIT(ALLTOALL) | COLL_BIT(ALLTOALLV), flags, one, nranks, no_scratch,          \
              all_actions, direct_alltoall_round, block_each_cost)                                                     \
    ALGORITHM(way##_gather, name, COLL_BIT(GATHER), flags, one, nranks, no_scratch, all_actions, direct_gather_round,  \
              block_each_cost)                                                                                         \
    ALGORITHM(way##_scatter, name, COLL_BIT(SCATTER), flags, one, nranks, no_scratch, all_actions,                     \
              direct_scatter_round, block_each_cost)
EXCHANGES(direct, "direct", SHARED)
EXCHANGES(exchange, "exchange", GPU)
EXCHANGES(copy, "copy", GPU)

#define EXCHANGE_WORDS(way, name, flags)                                                                               \
    ALGORITHM(way##_barrier, name, COLL_BIT(BARRIER), flags, one, zero, no_scratch, all_actions, direct_barrier_round, \
              direct_barrier_cost)
EXCHANGE_WORDS(direct, "direct", SHARED)
EXCHANGE_WORDS(exchange, "exchange", GPU)
