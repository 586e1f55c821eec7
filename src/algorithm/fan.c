/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast by a fan: block b goes from the root to one rank in the middle, the b-th behind the root, and from there to
 * all others. The root's link carries the vector once, as in a chain, and there are two hops, however many ranks there
 * are.
 */
#include "algorithm/rows.h"

static int middles(const struct shape *shape)
{
    return shape->nranks > 1 ? shape->nranks - 1 : 1;
}

static int fan_actions(const struct shape *shape)
{
    return 2 * shape->nranks;
}

/* The rank in the middle for block b. */
static int middle(const struct shape *shape, int b)
{
    return wrap(shape->root + 1 + b, shape->nranks);
}

static int hand_out(const struct shape *shape, int me, struct action *actions)
{
    int n = shape->nranks, count = 0, mine = wrap(me - shape->root, n) - 1;
    if (me != shape->root) {
        actions[count++] = act_recv(shape->root, out(mine), run(mine, 1));
        return count;
    }
    actions[count++] = act_copy(in(0), out(0), run(0, middles(shape)));
    for (int b = 0; b < n - 1; b++)
        actions[count++] = act_send(middle(shape, b), in(b), run(b, 1));
    return count;
}

static int fan_pass_on(const struct shape *shape, int me, struct action *actions)
{
    int n = shape->nranks, count = 0, mine = wrap(me - shape->root, n) - 1;
    for (int b = 0; b < n - 1 && me != shape->root; b++) {
        if (b == mine)
            continue;
        actions[count++] = act_send(middle(shape, b), out(mine), run(mine, 1));
        actions[count++] = act_recv(middle(shape, b), out(b), run(b, 1));
    }
    return count;
}

static int fan_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return (round == 0 ? hand_out : fan_pass_on)(shape, me, actions);
}

static struct cost_terms fan_cost(const struct shape *shape)
{
    double peers = shape->nranks - 1, rest = peers - 1;
    return (struct cost_terms){rest > 0 ? 2 : 1, peers + rest, 1 + rest / peers, 0, peers, 1, 0};
}

ALGORITHM(fan_broadcast, "fan", COLL_BIT(BROADCAST), ALGORITHM_GPU, two, middles, no_scratch, fan_actions, fan_round,
          fan_cost)
