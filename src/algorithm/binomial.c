/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binomial tree: log2 n rounds to, or from, one root. Ranks are counted from the root ("distance"); the parent of
 * distance d is d without its lowest (gather, reduce, scatter) or highest (broadcast) bit. A subtree of gather and
 * scatter is a run of consecutive distances. A run that wraps round from rank n - 1 to rank 0 goes as two messages, so
 * that the root's OUT, or IN, needs no turning.
 */
#include "algorithm/rows.h"

static int binomial_log_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_ceil(shape->nranks);
}

static int binomial_two_actions(const struct shape *shape)
{
    return 2;
}

static int six_actions(const struct shape *shape)
{
    return 6;
}

static int binomial_distance_of(const struct shape *shape, int rank)
{
    return wrap(rank - shape->root, shape->nranks);
}

static int binomial_rank_at(const struct shape *shape, int distance)
{
    return wrap(distance + shape->root, shape->nranks);
}

static int binomial_broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = binomial_distance_of(shape, me), bit = 1 << round, count = 0;
    if (round == 0 && distance == 0)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (distance < bit && distance + bit < n)
        actions[count++] = act_send(binomial_rank_at(shape, distance + bit), distance ? out(0) : in(0), run(0, 1));
    if (distance >= bit && distance < 2 * bit)
        actions[count++] = act_recv(binomial_rank_at(shape, distance - bit), out(0), run(0, 1));
    return count;
}

static bool has_children(const struct shape *shape, int distance)
{
    return distance % 2 == 0 && distance + 1 < shape->nranks;
}

static int binomial_reduce_scratch(const struct shape *shape, int rank)
{
    int distance = binomial_distance_of(shape, rank);
    return distance && has_children(shape, distance);
}

static int binomial_reduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = binomial_distance_of(shape, me), bit = 1 << round, count = 0;
    struct spot sum = distance ? scratch(0) : out(0);
    if (n == 1)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (distance % (2 * bit) == bit)
        actions[count++] =
            act_send(binomial_rank_at(shape, distance - bit), has_children(shape, distance) ? sum : in(0), run(0, 1));
    if (distance % (2 * bit) == 0 && distance + bit < n)
        actions[count++] = act_recv_reduce(binomial_rank_at(shape, distance + bit), round ? sum : in(0), sum, run(0, 1),
                                           distance == 0 && 2 * bit >= n);
    return count;
}

static int subtree_scratch(const struct shape *shape, int rank)
{
    int distance = binomial_distance_of(shape, rank), n = shape->nranks;
    if (!distance || !has_children(shape, distance))
        return 0;
    int size = distance & -distance;
    return size < n - distance ? size : n - distance;
}

/* Where a rank keeps the block of the rank at `distance`: the root by rank in its user buffer, others by distance from
 * themselves. */
static struct spot kept(const struct shape *shape, int me, int distance, enum buffer user)
{
    int mine = binomial_distance_of(shape, me);
    if (mine == 0)
        return (struct spot){(uint8_t)user, binomial_rank_at(shape, distance)};
    return has_children(shape, mine) ? scratch(distance - mine) : (struct spot){(uint8_t)user, 0};
}

/* The blocks of distances [first, first + 2^round) to or from `peer`: one action, or two where ranks wrap round. */
static int subtree(const struct shape *shape, int me, int peer, int first, int round, enum buffer user, bool send,
                   struct action *actions)
{
    int n = shape->nranks, size = 1 << round, count = 0;
    int end = first + size < n ? first + size : n, turn = n - shape->root;
    for (int from = first, to; from < end; from = to) {
        to = from < turn && turn < end ? turn : end;
        struct run blocks = run(binomial_rank_at(shape, from), to - from);
        struct spot place = kept(shape, me, from, user);
        actions[count++] = send ? act_send(peer, place, blocks) : act_recv(peer, place, blocks);
    }
    return count;
}

static int binomial_gather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = binomial_distance_of(shape, me), bit = 1 << round, count = 0;
    if (round == 0 && distance == 0)
        actions[count++] = act_copy(in(0), out(me), run(me, 1));
    else if (round == 0 && has_children(shape, distance))
        actions[count++] = act_copy(in(0), scratch(0), run(me, 1));
    if (distance % (2 * bit) == bit)
        count += subtree(shape, me, binomial_rank_at(shape, distance - bit), distance, round, BUFFER_IN, true,
                         actions + count);
    if (distance % (2 * bit) == 0 && distance + bit < n)
        count += subtree(shape, me, binomial_rank_at(shape, distance + bit), distance + bit, round, BUFFER_OUT, false,
                         actions + count);
    return count;
}

static int binomial_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = binomial_distance_of(shape, me), count = 0;
    int level = binomial_log_rounds(shape) - 1 - round, bit = 1 << level, arrival = distance & -distance;
    if (round == 0 && distance == 0)
        actions[count++] = act_copy(in(me), out(0), run(me, 1));
    else if (arrival == 2 * bit && has_children(shape, distance))
        actions[count++] = act_copy(scratch(0), out(0), run(me, 1));
    if (distance % (2 * bit) == 0 && distance + bit < n)
        count += subtree(shape, me, binomial_rank_at(shape, distance + bit), distance + bit, level, BUFFER_IN, true,
                         actions + count);
    if (arrival == bit)
        count += subtree(shape, me, binomial_rank_at(shape, distance - bit), distance, level, BUFFER_OUT, false,
                         actions + count);
    return count;
}

static struct cost_terms binomial_broadcast_cost(const struct shape *shape)
{
    double bits = log2_ceil(shape->nranks);
    return uniform_cost(bits, bits, bits, 0);
}

static struct cost_terms binomial_reduce_cost(const struct shape *shape)
{
    double bits = log2_ceil(shape->nranks);
    return uniform_cost(bits, bits, bits, bits);
}

/* Does a subtree of 2^level distances wrap round from rank n - 1 to rank 0, and so go as two messages? */
static bool level_wraps(int n, int turn, int level)
{
    int size = 1 << level, first = (turn - 1) & ~(size - 1);
    return turn < n && (first & size) && turn < first + size;
}

static struct cost_terms subtrees_cost(const struct shape *shape)
{
    int n = shape->nranks, bits = log2_ceil(n), turn = n - shape->root;
    struct cost_terms terms = uniform_cost(bits, bits, others(shape), 0);
    for (int level = 0; level < bits; level++)
        terms.messages += level_wraps(n, turn, level);
    terms.rank_messages += turn < n && (turn & (turn - 1)); /* one of the root's own subtrees wraps */
    return terms;
}

ALGORITHM(binomial_broadcast, "binomial", COLL_BIT(BROADCAST), 0, binomial_log_rounds, one, no_scratch,
          binomial_two_actions, binomial_broadcast_round, binomial_broadcast_cost)
ALGORITHM(binomial_reduce, "binomial", COLL_BIT(REDUCE), 0, binomial_log_rounds, one, binomial_reduce_scratch,
          binomial_two_actions, binomial_reduce_round, binomial_reduce_cost)
ALGORITHM(binomial_gather, "binomial", COLL_BIT(GATHER), 0, binomial_log_rounds, nranks, subtree_scratch, six_actions,
          binomial_gather_round, subtrees_cost)
ALGORITHM(binomial_scatter, "binomial", COLL_BIT(SCATTER), 0, binomial_log_rounds, nranks, subtree_scratch, six_actions,
          binomial_scatter_round, subtrees_cost)
