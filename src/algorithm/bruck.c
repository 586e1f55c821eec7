/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems" (1997): log2
 * n rounds for any n. Allgather: a rank holds a run of blocks that starts with its own, and doubles it; the run wraps
 * round in OUT, so nothing is turned at the end. Alltoall: the block for rank me + i travels by the bits of i, packed
 * with all that go the same way. Each block moves up to log2 n times, so this is for small blocks.
 */
#include "algorithm/rows.h"

static int bruck_allgather_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_ceil(shape->nranks);
}

static int five_actions(const struct shape *shape)
{
    return 5;
}

static int bruck_allgather_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, have = 1 << round, count = 0;
    int length = have < n - have ? have : n - have;
    if (round == 0)
        actions[count++] = act_copy(in(0), out(me), run(me, 1));
    if (n == 1)
        return count;
    int to = wrap(me - have, n), from = wrap(me + have, n);
    int send_first = length < n - me ? length : n - me, receive_first = length < n - from ? length : n - from;
    actions[count++] = act_send(to, round ? out(me) : in(0), run(me, send_first));
    if (send_first < length)
        actions[count++] = act_send(to, out(0), run(0, length - send_first));
    actions[count++] = act_recv(from, out(from), run(from, receive_first));
    if (receive_first < length)
        actions[count++] = act_recv(from, out(0), run(0, length - receive_first));
    return count;
}

/* Alltoall. Offset i is the block for rank me + i, later the one from rank me - i. In round k all offsets with bit k go
 * from a rank to rank + 2^k, packed in SCRATCH[0..n/2). Each round has its own place in SCRATCH to receive. */

/* How many of the offsets 0 .. i - 1 have bit k: also the place of offset i among those that travel in round k. */
static int travellers(int i, int k)
{
    int rest = (i & ((2 << k) - 1)) - (1 << k);
    return (i >> (k + 1) << k) + (rest > 0 ? rest : 0);
}

static int arrival_area(int n, int round)
{
    int at = n / 2;
    for (int k = 0; k < round; k++)
        at += travellers(n, k);
    return at;
}

static int alltoall_scratch(const struct shape *shape, int rank)
{
    int n = shape->nranks;
    return n == 1 ? 0 : arrival_area(n, log2_ceil(n));
}

static int alltoall_rounds(const struct shape *shape)
{
    return shape->nranks == 1 ? 1 : log2_ceil(shape->nranks) + 1;
}

static int alltoall_actions(const struct shape *shape)
{
    return shape->nranks + 2;
}

/* Where offset i is before round k: in IN if no lower bit has moved it, else where its last move put it. */
static struct spot offset_place(int n, int me, int i, int k)
{
    int moved = i & ((1 << k) - 1);
    if (!moved)
        return in(wrap(me + i, n));
    int last = log2_floor(moved);
    return scratch(arrival_area(n, last) + travellers(i, last));
}

static int bruck_alltoall_round(const struct shape *shape, int me, int round, struct action *actions)
{
    int n = shape->nranks, count = 0, bits = n == 1 ? 0 : log2_ceil(n);
    if (round == bits) {
        for (int i = 0; i < n; i++) {
            int from = wrap(me - i, n);
            actions[count++] = act_copy(offset_place(n, me, i, bits), out(from), run(from, 1));
        }
        return count;
    }
    int step = 1 << round, length = travellers(n, round);
    for (int i = step; i < n; i = (i + 1) | step) {
        struct spot from = offset_place(n, me, i, round);
        actions[count++] =
            act_copy(from, scratch(travellers(i, round)), run(from.buffer == BUFFER_IN ? from.block : 0, 1));
    }
    actions[count++] = act_send(wrap(me + step, n), scratch(0), run(0, length));
    actions[count++] = act_recv(wrap(me - step, n), scratch(arrival_area(n, round)), run(0, length));
    return count;
}

static struct cost_terms bruck_allgather_cost(const struct shape *shape)
{
    int n = shape->nranks, bits = log2_ceil(n);
    double messages = 0;
    for (int k = 0; k < bits; k++) /* some rank's run of more than one block wraps round */
        messages += k > 0 && n - (1 << k) > 1 ? 2 : 1;
    return uniform_cost(bits, messages, others(shape), 0);
}

static struct cost_terms bruck_alltoall_cost(const struct shape *shape)
{
    int n = shape->nranks, bits = log2_ceil(n);
    return uniform_cost(bits, bits, (arrival_area(n, bits) - arrival_area(n, 0)) / (double)n, 0);
}

ALGORITHM(bruck_allgather, "bruck", COLL_BIT(ALLGATHER), 0, bruck_allgather_rounds, nranks, no_scratch, five_actions,
          bruck_allgather_round, bruck_allgather_cost)
ALGORITHM(bruck_alltoall, "bruck", COLL_BIT(ALLTOALL), 0, alltoall_rounds, nranks, alltoall_scratch, alltoall_actions,
          bruck_alltoall_round, bruck_alltoall_cost)
