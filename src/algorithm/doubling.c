/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive doubling: in round k exchange with the rank whose number differs in bit k. log2 n rounds, whole vectors:
 * for short messages. Both partners compute a op b of the same a and b, so all ranks end with the same bits. Barrier is
 * the dissemination barrier (Hensgen, Finkel and Manber 1988), which takes any n. Scan is the data-parallel prefix sum
 * of Hillis and Steele (1986): in round k give what you have to rank + 2^k.
 */
#include "algorithm/fold.h"

static int doubling_two_actions(const struct shape *shape)
{
    return 2;
}

static int doubling_three_actions(const struct shape *shape)
{
    return 3;
}

static int doubling_allreduce_rounds(const struct shape *shape)
{
    int n = shape->nranks;
    return n == 1 ? 1 : log2_floor(n) + (fold_extra(n) ? 2 : 0);
}

/* First and last round of a folded shape: the even one of a pair gives its vector, and later gets the result. */
static int doubling_fold_round(int me, int extra, bool before, struct action *actions)
{
    if (me >= 2 * extra)
        return 0;
    if (before)
        actions[0] =
            me % 2 ? act_recv_reduce(me - 1, in(0), out(0), run(0, 1), false) : act_send(me + 1, in(0), run(0, 1));
    else
        actions[0] = me % 2 ? act_send(me - 1, out(0), run(0, 1)) : act_recv(me + 1, out(0), run(0, 1));
    return 1;
}

static int doubling_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, extra = fold_extra(n), bits = log2_floor(n), bit = round - (extra > 0);
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    if (bit < 0 || bit == bits)
        return doubling_fold_round(me, extra, bit < 0, actions);
    int member = fold_member(me, extra);
    if (member < 0)
        return 0;
    int peer = fold_rank(member ^ 1 << bit, extra);
    struct spot mine = bit == 0 && me >= 2 * extra ? in(0) : out(0);
    actions[0] = act_send(peer, mine, run(0, 1));
    actions[1] = act_recv_reduce(peer, mine, out(0), run(0, 1), bit == bits - 1);
    return 2;
}

static int doubling_log_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_ceil(shape->nranks);
}

static int doubling_allgather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int size = 1 << round, mine = me & ~(size - 1), count = 0;
    if (round == 0)
        actions[count++] = act_copy(in(0), out(me), run(me, 1));
    if (shape->nranks > 1) {
        actions[count++] = act_send(me ^ size, round == 0 ? in(0) : out(mine), run(mine, size));
        actions[count++] = act_recv(me ^ size, out(mine ^ size), run(mine ^ size, size));
    }
    return count;
}

static int doubling_barrier_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = 1 << round;
    if (n == 1)
        return 0;
    actions[0] = act_send(wrap(me + distance, n), in(0), run(0, 0));
    actions[1] = act_recv(wrap(me - distance, n), out(0), run(0, 0));
    return 2;
}

static int doubling_scan_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, distance = 1 << round, count = 0;
    struct spot mine = round == 0 ? in(0) : out(0);
    if (me == 0 && round == 0)
        actions[count++] = act_copy(in(0), out(0), run(0, 1));
    if (distance < n - me)
        actions[count++] = act_send(me + distance, mine, run(0, 1));
    if (distance <= me)
        actions[count++] =
            act_recv_reduce(me - distance, mine, out(0), run(0, 1), me == n - 1 && log2_ceil(n) == round + 1);
    return count;
}

static struct cost_terms doubling_allreduce_cost(const struct shape *shape)
{
    double bits = log2_floor(shape->nranks), fold = fold_extra(shape->nranks) > 0;
    double path = bits + 2 * fold, rank = bits + fold;
    return (struct cost_terms){path, path, path, rank, rank, rank, rank};
}

static struct cost_terms doubling_allgather_cost(const struct shape *shape)
{
    return uniform_cost(log2_ceil(shape->nranks), log2_ceil(shape->nranks), others(shape), 0);
}

static struct cost_terms doubling_scan_cost(const struct shape *shape)
{
    double bits = log2_ceil(shape->nranks);
    return uniform_cost(bits, bits, bits, bits);
}

static struct cost_terms doubling_barrier_cost(const struct shape *shape)
{
    return uniform_cost(log2_ceil(shape->nranks), log2_ceil(shape->nranks), 0, 0);
}

ALGORITHM(doubling_allreduce, "doubling", COLL_BIT(ALLREDUCE), 0, doubling_allreduce_rounds, one, no_scratch,
          doubling_two_actions, doubling_allreduce_round, doubling_allreduce_cost)
ALGORITHM(doubling_allgather, "doubling", COLL_BIT(ALLGATHER), ALGORITHM_POWER_OF_TWO, doubling_log_rounds, nranks,
          no_scratch, doubling_three_actions, doubling_allgather_round, doubling_allgather_cost)
ALGORITHM(doubling_barrier, "doubling", COLL_BIT(BARRIER), 0, doubling_log_rounds, zero, no_scratch,
          doubling_two_actions, doubling_barrier_round, doubling_barrier_cost)
ALGORITHM(doubling_scan, "doubling", COLL_BIT(SCAN), 0, doubling_log_rounds, one, no_scratch, doubling_two_actions,
          doubling_scan_round, doubling_scan_cost)
