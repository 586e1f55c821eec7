/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast of long vectors as scatter then allgather (van de Geijn; Barnett et al., "Interprocessor collective
 * communication library", 1994): the root scatters n blocks down a binomial tree, then a ring hands them round. A block
 * that a rank already has from the scatter is not sent to it again. Blocks are numbered by distance from the root.
 */
#include "algorithm/rows.h"

static int scatter_allgather_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_ceil(shape->nranks) + shape->nranks - 1;
}

static int scatter_allgather_three_actions(const struct shape *shape)
{
    return 3;
}

/* Blocks [distance, distance + held) stay with a rank after the scatter. */
static int held(int distance, int n)
{
    int size = distance ? distance & -distance : n;
    return size < n - distance ? size : n - distance;
}

static bool holds(int distance, int n, int block)
{
    return block >= distance && block < distance + held(distance, n);
}

static int scatter_allgather_scatter_round(const struct shape *shape, int distance, int bit, struct action *actions)
{
    int n = shape->nranks, count = 0, child = distance + bit;
    if (distance % (2 * bit) == 0 && child < n)
        actions[count++] =
            act_send(wrap(child + shape->root, n), distance ? out(child) : in(child), run(child, held(child, n)));
    if (distance && (distance & -distance) == bit)
        actions[count++] =
            act_recv(wrap(distance - bit + shape->root, n), out(distance), run(distance, held(distance, n)));
    return count;
}

static int scatter_allgather_allgather_round(const struct shape *shape, int me, int turn, struct action *actions)
{
    int n = shape->nranks, distance = wrap(me - shape->root, n), count = 0;
    int give = wrap(distance - turn, n), take = wrap(distance - turn - 1, n);
    if (!holds(wrap(distance + 1, n), n, give))
        actions[count++] = act_send(wrap(me + 1, n), distance ? out(give) : in(give), run(give, 1));
    if (!holds(distance, n, take))
        actions[count++] = act_recv(wrap(me - 1, n), out(take), run(take, 1));
    return count;
}

static int scatter_allgather_broadcast_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = wrap(me - shape->root, n), bits = log2_ceil(n), count = 0;
    if (round == 0 && distance == 0)
        actions[count++] = act_copy(in(0), out(0), run(0, n));
    if (n == 1)
        return count;
    if (round < bits)
        return count + scatter_allgather_scatter_round(shape, distance, 1 << (bits - 1 - round), actions + count);
    return count + scatter_allgather_allgather_round(shape, me, round - bits, actions + count);
}

static struct cost_terms scatter_allgather_broadcast_cost(const struct shape *shape)
{
    return uniform_cost(scatter_allgather_rounds(shape), scatter_allgather_rounds(shape), 2 * others(shape), 0);
}

ALGORITHM(scatter_allgather_broadcast, "scatter-allgather", COLL_BIT(BROADCAST), 0, scatter_allgather_rounds, nranks,
          no_scratch, scatter_allgather_three_actions, scatter_allgather_broadcast_round,
          scatter_allgather_broadcast_cost)
