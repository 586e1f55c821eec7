/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubling that meets the farthest rank first, and halving that meets it last (NCCLX section 5.4). A rank exchanges one
 * block with the farthest, and half of all blocks with its neighbour: where far links are slow, or shared by many, they
 * carry little. The same rounds, messages and bytes of a rank as in doubling.c and halving.c, which go the other way.
 *
 * Ranks have seats: the bits of a rank's position, the highest last. Doubling over seats from the lowest bit meets the
 * farthest position first. A run of seats lies together in SCRATCH, and copies put its blocks where they belong.
 */
#include "algorithm/fold.h"

static int far_bits(const struct shape *shape)
{
    return log2_floor(shape->nranks);
}

static int far_seat(const struct shape *shape, int rank)
{
    return fold_reverse(shape->levels ? shape->levels->position[rank] : rank, far_bits(shape));
}

static int far_rank(const struct shape *shape, int seat)
{
    int position = fold_reverse(seat, far_bits(shape));
    return shape->levels ? shape->levels->order[position] : position;
}

static int far_scratch(const struct shape *shape, int rank)
{
    return shape->nranks > 1 ? shape->nranks : 0;
}

static int far_actions(const struct shape *shape)
{
    return shape->nranks + 2;
}

static int far_doubling_rounds(const struct shape *shape)
{
    return far_bits(shape) + 1;
}

/* All blocks are there, in the order of seats. */
static int far_put_in_order(const struct shape *shape, int me, struct action *actions)
{
    for (int seat = 0; seat < shape->nranks; seat++) {
        int rank = far_rank(shape, seat);
        actions[seat] = act_copy(rank == me ? in(0) : scratch(seat), out(rank), run(rank, 1));
    }
    return shape->nranks;
}

static int far_doubling_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int seat = far_seat(shape, me), size = 1 << round, mine = seat & ~(size - 1), count = 0;
    if (round == far_bits(shape))
        return far_put_in_order(shape, me, actions);
    int peer = far_rank(shape, seat ^ size);
    if (round == 0 && shape->nranks > 2) /* else nobody sends it on */
        actions[count++] = act_copy(in(0), scratch(seat), run(me, 1));
    actions[count++] = round ? act_send(peer, scratch(mine), run(mine, size)) : act_send(peer, in(0), run(me, 1));
    actions[count++] = act_recv(peer, scratch(mine ^ size), run(mine ^ size, size));
    return count;
}

static int far_halving_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : far_bits(shape);
}

static int far_halving_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, seat = far_seat(shape, me), size = n >> (round + 1), count = 0;
    if (n == 1) {
        actions[0] = act_copy(in(0), out(0), run(0, 1));
        return 1;
    }
    for (int i = 0; i < n && round == 0; i++) {
        int rank = far_rank(shape, i);
        actions[count++] = act_copy(in(rank), scratch(i), run(rank, 1));
    }
    int keep = seat & ~(size - 1), give = keep ^ size, peer = far_rank(shape, seat ^ size);
    bool last = size == 1;
    actions[count++] = act_send(peer, scratch(give), run(give, size));
    actions[count++] =
        act_recv_reduce(peer, scratch(keep), last ? out(0) : scratch(keep), last ? run(me, 1) : run(keep, size), last);
    return count;
}

static struct cost_terms far_doubling_cost(const struct shape *shape)
{
    return uniform_cost(far_bits(shape), far_bits(shape), others(shape), 0);
}

static struct cost_terms far_halving_cost(const struct shape *shape)
{
    return uniform_cost(far_bits(shape), far_bits(shape), others(shape), others(shape));
}

ALGORITHM(far_doubling, "far-doubling", COLL_BIT(ALLGATHER), ALGORITHM_POWER_OF_TWO | ALGORITHM_LEVELS,
          far_doubling_rounds, nranks, far_scratch, far_actions, far_doubling_round, far_doubling_cost)
ALGORITHM(far_halving, "far-halving", COLL_BIT(REDUCE_SCATTER), ALGORITHM_POWER_OF_TWO | ALGORITHM_LEVELS,
          far_halving_rounds, nranks, far_scratch, far_actions, far_halving_round, far_halving_cost)
