/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring: each rank sends only to the next. Allreduce, allgather and reduce-scatter move the least bytes possible in n-1
 * (or 2n-2) rounds: best for long vectors (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
 * Broadcast and reduce are a chain from, or to, the root, which slices turn into a pipeline.
 */
#include "algorithm/rows.h"

static int algorithm_ring_once_around(const struct shape *shape)
{
    return shape->nranks > 1 ? shape->nranks - 1 : 1;
}

static int twice_around(const struct shape *shape)
{
    return shape->nranks > 1 ? 2 * (shape->nranks - 1) : 1;
}

static int once_more_around(const struct shape *shape)
{
    return shape->nranks;
}

static int algorithm_ring_three(const struct shape *shape)
{
    return 3;
}

/* Round r of the reduce-scatter phase sends block me - r, and adds mine to block me - r - 1: after n - 1 rounds block
 * me + 1 is complete here. The second phase hands complete blocks round. */
static int algorithm_ring_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, next = wrap(me + 1, n), previous = wrap(me - 1, n);
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    if (round < n - 1) {
        int give = wrap(me - round, n), take = wrap(me - round - 1, n);
        actions[0] = act_send(next, round == 0 ? in(give) : out(give), run(give, 1));
        actions[1] = act_recv_reduce(previous, in(take), out(take), run(take, 1), round == n - 2);
    } else {
        int turn = round - (n - 1), give = wrap(me + 1 - turn, n), take = wrap(me - turn, n);
        actions[0] = act_send(next, out(give), run(give, 1));
        actions[1] = act_recv(previous, out(take), run(take, 1));
    }
    return 2;
}

static int algorithm_ring_allgather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0, give = wrap(me - round, n), take = wrap(me - round - 1, n);
    if (round == 0)
        actions[count++] = act_copy(in(0), out(me), run(me, 1));
    if (n > 1) {
        actions[count++] = act_send(wrap(me + 1, n), round == 0 ? in(0) : out(give), run(give, 1));
        actions[count++] = act_recv(wrap(me - 1, n), out(take), run(take, 1));
    }
    return count;
}

static int reduce_scatter_scratch(const struct shape *shape, int rank)
{
    return shape->nranks > 2 ? 2 : 0;
}

/* One block later than allreduce's first phase, so that block `me` ends here. Partial sums alternate between two
 * scratch blocks: one is sent while the other is made. */
static int algorithm_ring_reduce_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks;
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    bool last = round == n - 2;
    int give = wrap(me - round - 1, n), take = wrap(me - round - 2, n);
    actions[0] = act_send(wrap(me + 1, n), round == 0 ? in(give) : scratch((round - 1) & 1), run(give, 1));
    actions[1] = act_recv_reduce(wrap(me - 1, n), in(take), last ? out(0) : scratch(round & 1), run(take, 1), last);
    return 2;
}

/* The reduce-scatter, whose results go to all at once. */
static int ring_copy_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks;
    if (n > 1 && round == n - 1)
        return share(shape, me, out(me), actions);
    int count = algorithm_ring_reduce_scatter_round(shape, me, round, actions);
    if (round >= n - 2)
        actions[count - 1].dst_block = me;
    return count;
}

/* The rank at distance d from the root sends in round d what it got in round d - 1. */
static int algorithm_ring_broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = wrap(me - shape->root, n), count = 0;
    if (round == 0 && distance == 0)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (round == distance && distance < n - 1)
        actions[count++] = act_send(wrap(me + 1, n), distance == 0 ? in(0) : out(0), run(0, 1));
    if (round == distance - 1)
        actions[count++] = act_recv(wrap(me - 1, n), out(0), run(0, 1));
    return count;
}

static int algorithm_ring_reduce_scratch(const struct shape *shape, int rank)
{
    int distance = wrap(shape->root - rank, shape->nranks);
    return distance > 0 && distance < shape->nranks - 1;
}

/* The farthest begins; the rank at distance d receives in round n - 2 - d and sends in the next. */
static int algorithm_ring_reduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = wrap(shape->root - me, n), count = 0;
    if (n == 1)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (distance > 0 && round == n - 1 - distance)
        actions[count++] = act_send(wrap(me + 1, n), distance == n - 1 ? in(0) : scratch(0), run(0, 1));
    if (round == n - 2 - distance)
        actions[count++] =
            act_recv_reduce(wrap(me - 1, n), in(0), distance == 0 ? out(0) : scratch(0), run(0, 1), distance == 0);
    return count;
}

static struct cost_terms algorithm_ring_allreduce_cost(const struct shape *shape)
{
    double turns = 2 * (shape->nranks - 1.0);
    return uniform_cost(turns, turns, 2 * others(shape), others(shape));
}

static struct cost_terms algorithm_ring_allgather_cost(const struct shape *shape)
{
    return uniform_cost(shape->nranks - 1, shape->nranks - 1, others(shape), 0);
}

/* The ring without the link from its last rank to its first: rank r adds its vector to what comes from r - 1. */
static int algorithm_ring_scan_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (me == 0 && round == 0)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (round == me && me < n - 1)
        actions[count++] = act_send(me + 1, me ? out(0) : in(0), run(0, 1));
    if (round == me - 1)
        actions[count++] = act_recv_reduce(me - 1, in(0), out(0), run(0, 1), me == n - 1);
    return count;
}

static struct cost_terms algorithm_ring_scan_cost(const struct shape *shape)
{
    double steps = shape->nranks - 1;
    return (struct cost_terms){steps, steps, steps, steps, 1, 1, 1};
}

static struct cost_terms algorithm_ring_reduce_scatter_cost(const struct shape *shape)
{
    return uniform_cost(shape->nranks - 1, shape->nranks - 1, others(shape), others(shape));
}

static struct cost_terms ring_copy_cost(const struct shape *shape)
{
    return uniform_cost(shape->nranks, 2 * (shape->nranks - 1.0), 2 * others(shape), others(shape));
}

/* A chain: long for one slice, but each rank is busy in only two rounds of it. */
static struct cost_terms chain_cost(const struct shape *shape, bool reduces)
{
    double hops = shape->nranks - 1;
    return (struct cost_terms){hops, hops, hops, reduces ? hops : 0, 1, 1, reduces};
}

static struct cost_terms algorithm_ring_broadcast_cost(const struct shape *shape)
{
    return chain_cost(shape, false);
}

static struct cost_terms algorithm_ring_reduce_cost(const struct shape *shape)
{
    return chain_cost(shape, true);
}

ALGORITHM(ring_allreduce, "ring", COLL_BIT(ALLREDUCE), 0, twice_around, nranks, no_scratch, algorithm_ring_three,
          algorithm_ring_allreduce_round, algorithm_ring_allreduce_cost)
ALGORITHM(ring_allgather, "ring", COLL_BIT(ALLGATHER), 0, algorithm_ring_once_around, nranks, no_scratch,
          algorithm_ring_three, algorithm_ring_allgather_round, algorithm_ring_allgather_cost)
ALGORITHM(ring_reduce_scatter, "ring", COLL_BIT(REDUCE_SCATTER), 0, algorithm_ring_once_around, nranks,
          reduce_scatter_scratch, algorithm_ring_three, algorithm_ring_reduce_scatter_round,
          algorithm_ring_reduce_scatter_cost)
#define CHAIN(symbol, name, flags)                                                                                     \
    ALGORITHM(symbol, name, COLL_BIT(BROADCAST), flags, algorithm_ring_once_around, one, no_scratch,                   \
              algorithm_ring_three, algorithm_ring_broadcast_round, algorithm_ring_broadcast_cost)
CHAIN(ring_broadcast, "ring", 0)
CHAIN(ring_lines_broadcast, "ring-lines", ALGORITHM_GPU)
CHAIN(chain_broadcast, "chain", ALGORITHM_GPU)
CHAIN(copy_chain_broadcast, "copy-chain", ALGORITHM_GPU)
ALGORITHM(ring_copy_allreduce, "ring-copy", COLL_BIT(ALLREDUCE), ALGORITHM_GPU, once_more_around, nranks,
          reduce_scatter_scratch, all_actions, ring_copy_round, ring_copy_cost)
#define TO_ROOT(symbol, name, flags)                                                                                   \
    ALGORITHM(symbol, name, COLL_BIT(REDUCE), flags, algorithm_ring_once_around, one, algorithm_ring_reduce_scratch,   \
              algorithm_ring_three, algorithm_ring_reduce_round, algorithm_ring_reduce_cost)
TO_ROOT(ring_reduce, "ring", 0)
TO_ROOT(ring_lines_reduce, "ring-lines", ALGORITHM_GPU)
ALGORITHM(ring_scan, "ring", COLL_BIT(SCAN), 0, algorithm_ring_once_around, one, no_scratch, algorithm_ring_three,
          algorithm_ring_scan_round, algorithm_ring_scan_cost)
