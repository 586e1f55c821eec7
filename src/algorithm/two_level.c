/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two levels, where hosts hold several ranks. As many ranks of each host as the smallest host has are owners.
 *
 * Allreduce: within a host all give each owner its two_level_part, and it reduces them. Owners of the same
 * two_level_part go round a ring of hosts, each with its two_level_part alone. Then owners share the results within
 * their host. The network carries 2V (hosts - 1) / hosts each way for a host, and every owner drives it; a ring of all
 * n ranks would carry 2V (n - 1) / n over one pair of ranks.
 *
 * Allgather: an owner's two_level_column is its share of each host's blocks; where hosts are alike, one block of each.
 * Columns go round the ring of hosts, and what came in one turn is shared within the host during the next one. Each
 * block enters a host once; a ring of all ranks brings nearly all blocks into each host, those that are from there,
 * too.
 */
#include "algorithm/rows.h"

/* Where a rank is: rank `index` of `size` of host `host`. Owners are those with an index below `owners`. */
struct two_level_seat {
    const struct levels *levels;
    int hosts, owners, host, index, size;
};

static struct two_level_seat seat_of(const struct shape *shape, int rank)
{
    const struct levels *levels = shape->levels;
    if (!levels)
        return (struct two_level_seat){NULL, 1, shape->nranks, 0, rank, shape->nranks};
    const struct level *hosts = levels_hosts(levels);
    int host = hosts->group[rank], first = hosts->first[host];
    int index = levels->position[rank] - first, size = hosts->first[host + 1] - first;
    return (struct two_level_seat){levels, hosts->groups, hosts->least, host, index, size};
}

static int two_level_rank_at(const struct two_level_seat *seat, int host, int index)
{
    return seat->levels ? seat->levels->order[levels_hosts(seat->levels)->first[host] + index] : index;
}

static int hosts_of(const struct shape *shape)
{
    return shape->levels ? levels_hosts(shape->levels)->groups : 1;
}

/* Turns of the ring of hosts. */
static int turns_of(const struct shape *shape)
{
    return 2 * (hosts_of(shape) - 1);
}

static int two_level_rounds(const struct shape *shape)
{
    return turns_of(shape) + 2;
}

/* Each owner's two_level_part has a block for each host. */
static int blocks(const struct shape *shape)
{
    return shape->levels ? levels_hosts(shape->levels)->least * levels_hosts(shape->levels)->groups : shape->nranks;
}

/* Contributions to an owner's two_level_part, by index. */
static int scratch_blocks(const struct shape *shape, int rank)
{
    struct two_level_seat me = seat_of(shape, rank);
    return me.index < me.owners ? me.size * me.hosts : 0;
}

static int most_actions(const struct shape *shape)
{
    return 2 * (shape->levels ? levels_hosts(shape->levels)->most : shape->nranks) + 3;
}

static struct run two_level_part(const struct two_level_seat *seat, int owner)
{
    return run(owner * seat->hosts, seat->hosts);
}

static int give_parts(const struct two_level_seat *me, struct action *actions)
{
    int count = 0;
    bool owns = me->index < me->owners;
    if (owns)
        actions[count++] =
            act_copy(in(me->index * me->hosts), scratch(me->index * me->hosts), two_level_part(me, me->index));
    for (int i = 1; i < me->size; i++) {
        int to = wrap(me->index + i, me->size), from = wrap(me->index - i, me->size);
        if (to < me->owners)
            actions[count++] =
                act_send(two_level_rank_at(me, me->host, to), in(to * me->hosts), two_level_part(me, to));
        if (owns)
            actions[count++] = act_recv(two_level_rank_at(me, me->host, from), scratch(from * me->hosts),
                                        two_level_part(me, me->index));
    }
    return count;
}

/* As a ring allreduce of as many ranks as there are hosts, over this owner's two_level_part. */
static int go_round(const struct two_level_seat *me, int turn, struct action *actions)
{
    int n = me->hosts, base = me->index * n, back = turn - (n - 1);
    int next = two_level_rank_at(me, wrap(me->host + 1, n), me->index),
        previous = two_level_rank_at(me, wrap(me->host - 1, n), me->index);
    int give = base + wrap(back < 0 ? me->host - turn : me->host + 1 - back, n);
    int take = base + wrap(back < 0 ? me->host - turn - 1 : me->host - back, n);
    actions[0] = act_send(next, out(give), run(give, 1));
    actions[1] = back < 0 ? act_recv_reduce(previous, out(take), out(take), run(take, 1), back == -1)
                          : act_recv(previous, out(take), run(take, 1));
    return 2;
}

static int share_parts(const struct two_level_seat *me, struct action *actions)
{
    int count = 0;
    for (int i = 1; i < me->size; i++) {
        int to = wrap(me->index + i, me->size), from = wrap(me->index - i, me->size);
        if (me->index < me->owners)
            actions[count++] = act_send(two_level_rank_at(me, me->host, to), out(me->index * me->hosts),
                                        two_level_part(me, me->index));
        if (from < me->owners)
            actions[count++] =
                act_recv(two_level_rank_at(me, me->host, from), out(from * me->hosts), two_level_part(me, from));
    }
    return count;
}

static int round_of(const struct shape *shape, int rank, int round, struct action *actions)
{
    struct two_level_seat me = seat_of(shape, rank);
    int count = 0, last = turns_of(shape) + 1;
    bool owns = me.index < me.owners;
    if (round == 0)
        return give_parts(&me, actions);
    if (round == 1 && owns)
        actions[count++] =
            act_reduce(scratch(0), me.size, out(me.index * me.hosts), two_level_part(&me, me.index), me.hosts == 1);
    if (round == last)
        return count + share_parts(&me, actions + count);
    return count + (owns ? go_round(&me, round - 1, actions + count) : 0);
}

ALGORITHM(two_level_allreduce, "two-level", COLL_BIT(ALLREDUCE), ALGORITHM_LEVELS, two_level_rounds, blocks,
          scratch_blocks, most_actions, round_of, NULL)

/* ---- allgather ---- */

/* Where hosts are not alike, owners have blocks of others to carry, and get these first. */
static int turns_before(const struct shape *shape)
{
    return shape->levels && levels_hosts(shape->levels)->least < levels_hosts(shape->levels)->most;
}

static int two_level_allgather_rounds(const struct shape *shape)
{
    return turns_before(shape) + hosts_of(shape);
}

/* Messages of a rank: its own block to and from its host, or its two_level_column's blocks to all of the host, and
 * theirs; and columns of two hosts. */
static int allgather_actions(const struct shape *shape)
{
    int most = shape->levels ? levels_hosts(shape->levels)->most : shape->nranks;
    int least = shape->levels ? levels_hosts(shape->levels)->least : shape->nranks; /* one host: all are owners */
    int two_level_column = (most + least - 1) / least;
    return most * two_level_column + most + 2 * two_level_column + 1;
}

/* Blocks of consecutive ranks, of what an owner carries of a host. */
struct stretch {
    int index, end; /* of ranks of the host; what is left */
    struct run blocks;
};

static struct stretch two_level_column(const struct two_level_seat *seat, int host, int owner)
{
    const int32_t *first = seat->levels ? levels_hosts(seat->levels)->first + host : NULL;
    int size = first ? first[1] - first[0] : seat->size;
    return (struct stretch){.index = owner * size / seat->owners, .end = (owner + 1) * size / seat->owners};
}

static bool next_stretch(const struct two_level_seat *seat, int host, struct stretch *stretch)
{
    if (stretch->index == stretch->end)
        return false;
    stretch->blocks = run(two_level_rank_at(seat, host, stretch->index++), 1);
    while (stretch->index < stretch->end &&
           two_level_rank_at(seat, host, stretch->index) == stretch->blocks.block + stretch->blocks.nblocks) {
        stretch->blocks.nblocks++;
        stretch->index++;
    }
    return true;
}

static int send_column(const struct two_level_seat *me, int host, int to, struct action *actions)
{
    struct stretch stretch = two_level_column(me, host, me->index);
    int count = 0;
    while (next_stretch(me, host, &stretch))
        actions[count++] = act_send(to, out(stretch.blocks.block), stretch.blocks);
    return count;
}

static int recv_column(const struct two_level_seat *me, int host, int owner, int from, struct action *actions)
{
    struct stretch stretch = two_level_column(me, host, owner);
    int count = 0;
    while (next_stretch(me, host, &stretch))
        actions[count++] = act_recv(from, out(stretch.blocks.block), stretch.blocks);
    return count;
}

/* In turn t the blocks of the host t before this one go on, and those of the one before that come. The first block is
 * the caller's own, which is not in OUT yet if the turn is the first of all two_level_rounds. */
static int pass_columns(const struct two_level_seat *me, int rank, int turn, bool at_once, struct action *actions)
{
    int n = me->hosts, count = 0;
    int next = two_level_rank_at(me, wrap(me->host + 1, n), me->index),
        previous = two_level_rank_at(me, wrap(me->host - 1, n), me->index);
    if (at_once)
        actions[count++] = act_send(next, in(0), run(rank, 1));
    else
        count += send_column(me, wrap(me->host - turn, n), next, actions);
    return count + recv_column(me, wrap(me->host - turn - 1, n), me->index, previous, actions + count);
}

static int share_own(const struct two_level_seat *me, int rank, struct action *actions)
{
    int count = 0;
    actions[count++] = act_copy(in(0), out(rank), run(rank, 1));
    for (int i = 1; i < me->size; i++) {
        int to = two_level_rank_at(me, me->host, wrap(me->index + i, me->size));
        int from = two_level_rank_at(me, me->host, wrap(me->index - i, me->size));
        actions[count++] = act_send(to, in(0), run(rank, 1));
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

static int share_columns(const struct two_level_seat *me, int host, struct action *actions)
{
    int count = 0;
    for (int i = 1; i < me->size; i++) {
        int to = wrap(me->index + i, me->size), from = wrap(me->index - i, me->size);
        if (me->index < me->owners)
            count += send_column(me, host, two_level_rank_at(me, me->host, to), actions + count);
        if (from < me->owners)
            count += recv_column(me, host, from, two_level_rank_at(me, me->host, from), actions + count);
    }
    return count;
}

/* What goes over the network comes first: sharing goes on beside it. */
static int two_level_allgather_round(const struct shape *shape, int rank, int round, struct action *actions)
{
    struct two_level_seat me = seat_of(shape, rank);
    int count = 0, turn = round - turns_before(shape);
    if (turn >= 0 && turn < me.hosts - 1 && me.index < me.owners)
        count += pass_columns(&me, rank, turn, round == 0, actions);
    if (round == 0)
        return count + share_own(&me, rank, actions + count);
    return turn > 0 ? count + share_columns(&me, wrap(me.host - turn, me.hosts), actions + count) : count;
}

ALGORITHM(two_level_allgather, "two-level", COLL_BIT(ALLGATHER), ALGORITHM_LEVELS, two_level_allgather_rounds, nranks,
          no_scratch, allgather_actions, two_level_allgather_round, NULL)
