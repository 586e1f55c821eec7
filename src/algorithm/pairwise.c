/* SPDX-License-Identifier: Apache-2.0 */
/* Pairwise exchange: in round r each rank sends to rank + r + 1 and receives from rank - r - 1. One message at a time
 * each way. */
#include "algorithm/rows.h"

static int pairwise_once_around(const struct shape *shape)
{
    return shape->nranks > 1 ? shape->nranks - 1 : 1;
}

static int pairwise_three(const struct shape *shape)
{
    return 3;
}

static int pairwise_alltoall_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0;
    if (round == 0)
        actions[count++] = act_copy(in(me), out(me), run(me, 1));
    if (n > 1) {
        int to = wrap(me + round + 1, n), from = wrap(me - round - 1, n);
        actions[count++] = act_send(to, in(to), run(to, 1));
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

static int pairwise_reduce_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks;
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    int to = wrap(me + round + 1, n), from = wrap(me - round - 1, n);
    actions[0] = act_send(to, in(to), run(to, 1));
    actions[1] = act_recv_reduce(from, round == 0 ? in(me) : out(0), out(0), run(me, 1), round == n - 2);
    return 2;
}

static struct cost_terms pairwise_alltoall_cost(const struct shape *shape)
{
    return uniform_cost(shape->nranks - 1, shape->nranks - 1, others(shape), 0);
}

static struct cost_terms pairwise_reduce_scatter_cost(const struct shape *shape)
{
    return uniform_cost(shape->nranks - 1, shape->nranks - 1, others(shape), others(shape));
}

ALGORITHM(pairwise_alltoall, "pairwise", COLL_BIT(ALLTOALL) | COLL_BIT(ALLTOALLV), 0, pairwise_once_around, nranks,
          no_scratch, pairwise_three, pairwise_alltoall_round, pairwise_alltoall_cost)
ALGORITHM(pairwise_reduce_scatter, "pairwise", COLL_BIT(REDUCE_SCATTER), 0, pairwise_once_around, nranks, no_scratch,
          pairwise_three, pairwise_reduce_scatter_round, pairwise_reduce_scatter_cost)
