/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive halving, then doubling (Rabenseifner, "Optimization of Collective Reduction Operations", 2004): a
 * reduce-scatter that halves the run a rank is responsible for, then an allgather that doubles it. Least bytes in 2
 * log2 n rounds; any n by folding. Reduce-scatter is the first half alone, for powers of two.
 */
#include "algorithm/fold.h"

static int members(const struct shape *shape)
{
    return 1 << log2_floor(shape->nranks);
}

static int halving_three_actions(const struct shape *shape)
{
    return 3;
}

static int halving_allreduce_rounds(const struct shape *shape)
{
    int n = shape->nranks;
    return n == 1 ? 1 : 2 * log2_floor(n) + (fold_extra(n) ? 2 : 0);
}

/* First and last round of a folded shape, with whole vectors. */
static int halving_fold_round(int me, int extra, int nblocks, bool before, struct action *actions)
{
    struct run all = run(0, nblocks);
    if (me >= 2 * extra)
        return 0;
    if (before)
        actions[0] = me % 2 ? act_recv_reduce(me - 1, in(0), out(0), all, false) : act_send(me + 1, in(0), all);
    else
        actions[0] = me % 2 ? act_send(me - 1, out(0), all) : act_recv(me + 1, out(0), all);
    return 1;
}

/* Two seats exchange halves: the one of 2 * size blocks that I keep is [keep, keep + size). */
static int halve(int seat, int peer, int size, bool first, bool final, struct action *actions)
{
    int keep = seat & ~(size - 1), give = keep ^ size;
    actions[0] = act_send(peer, first ? in(give) : out(give), run(give, size));
    actions[1] = act_recv_reduce(peer, first ? in(keep) : out(keep), out(keep), run(keep, size), final);
    return 2;
}

static int twice(int seat, int peer, int size, struct action *actions)
{
    int mine = seat & ~(size - 1), other = mine ^ size;
    actions[0] = act_send(peer, out(mine), run(mine, size));
    actions[1] = act_recv(peer, out(other), run(other, size));
    return 2;
}

/* `far`: members have seats, which are their numbers with the highest bit last. So halving begins with neighbours, and
 * doubling ends with them (far.c). */
static int halving_exchange(const struct shape *shape, int me, int round, bool far, struct action *actions)
{
    int n = shape->nranks, extra = fold_extra(n), bits = log2_floor(n), step = round - (extra > 0);
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    if (step < 0 || step == 2 * bits)
        return halving_fold_round(me, extra, 1 << bits, step < 0, actions);
    int member = fold_member(me, extra);
    if (member < 0)
        return 0;
    int size = step < bits ? 1 << (bits - 1 - step) : 1 << (step - bits),
        seat = far ? fold_reverse(member, bits) : member;
    int other = seat ^ size, peer = fold_rank(far ? fold_reverse(other, bits) : other, extra);
    if (step < bits)
        return halve(seat, peer, size, step == 0 && me >= 2 * extra, step == bits - 1, actions);
    return twice(seat, peer, size, actions);
}

static int halving_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return halving_exchange(shape, me, round, false, actions);
}

static int far_halving_allreduce_round(const struct shape *shape, int me, int round, struct action *actions)
{
    return halving_exchange(shape, me, round, true, actions);
}

static int halving_log_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_floor(shape->nranks);
}

static int half_scratch(const struct shape *shape, int rank)
{
    return shape->nranks > 2 ? shape->nranks / 2 : 0;
}

/* Partial sums of block b stand at SCRATCH[b mod n / 2]: after the first round a rank has only one of the two halves.
 */
static int halving_reduce_scatter_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, size = n >> (round + 1), half = n / 2;
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    int keep = me & ~(size - 1), give = keep ^ size;
    bool last = size == 1;
    struct spot from = round ? scratch(give % half) : in(give), mine = round ? scratch(keep % half) : in(keep);
    actions[0] = act_send(me ^ size, from, run(give, size));
    actions[1] = act_recv_reduce(me ^ size, mine, last ? out(0) : scratch(keep % half), run(keep, size), last);
    return 2;
}

static struct cost_terms halving_allreduce_cost(const struct shape *shape)
{
    double bits = log2_floor(shape->nranks), fold = fold_extra(shape->nranks) > 0, part = 1 - 1.0 / members(shape);
    return (struct cost_terms){2 * bits + 2 * fold, 2 * bits + 2 * fold, 2 * part + 2 * fold, part + fold,
                               2 * bits + fold,     2 * part + fold,     part + fold};
}

static struct cost_terms halving_reduce_scatter_cost(const struct shape *shape)
{
    return uniform_cost(halving_log_rounds(shape), halving_log_rounds(shape), others(shape), others(shape));
}

ALGORITHM(halving_allreduce, "halving", COLL_BIT(ALLREDUCE), 0, halving_allreduce_rounds, members, no_scratch,
          halving_three_actions, halving_allreduce_round, halving_allreduce_cost)
ALGORITHM(far_halving_allreduce, "far-halving", COLL_BIT(ALLREDUCE), 0, halving_allreduce_rounds, members, no_scratch,
          halving_three_actions, far_halving_allreduce_round, halving_allreduce_cost)
ALGORITHM(halving_reduce_scatter, "halving", COLL_BIT(REDUCE_SCATTER), ALGORITHM_POWER_OF_TWO, halving_log_rounds,
          nranks, half_scratch, halving_three_actions, halving_reduce_scatter_round, halving_reduce_scatter_cost)
