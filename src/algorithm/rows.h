/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of this folder: the rows they give to the table, and short ways to write actions. */
#ifndef TUTTI_ALGORITHM_ROWS_H
#define TUTTI_ALGORITHM_ROWS_H

#include "schedule/schedule.h"

/* All rows, in the order in which they are listed: X(symbol). Ways of GPUs come last. */
/* clang-format off */
#define ALGORITHM_ROWS(ROW)                                                                                            \
    ROW(direct_allreduce) ROW(direct_reduce) ROW(direct_broadcast) ROW(direct_allgather)                               \
    ROW(direct_reduce_scatter) ROW(direct_alltoall) ROW(direct_gather) ROW(direct_scatter) ROW(direct_barrier)         \
    ROW(one_shot_allreduce) ROW(ring_allreduce) ROW(ring_reduce) ROW(ring_broadcast) ROW(ring_allgather)               \
    ROW(ring_reduce_scatter) ROW(doubling_allreduce) ROW(doubling_allgather) ROW(doubling_barrier)                     \
    ROW(doubling_scan) ROW(ring_scan)                                                                                  \
    ROW(pairwise_alltoall) ROW(pairwise_reduce_scatter) ROW(binomial_reduce) ROW(binomial_broadcast)                   \
    ROW(binomial_gather) ROW(binomial_scatter) ROW(halving_allreduce) ROW(halving_reduce_scatter)                      \
    ROW(bruck_allgather) ROW(bruck_alltoall) ROW(tree_allreduce) ROW(tree_reduce) ROW(tree_broadcast)                  \
    ROW(scatter_allgather_broadcast) ROW(composed) ROW(far_doubling) ROW(far_halving) ROW(far_halving_allreduce)       \
    ROW(one_shot_reduce)                                                                                               \
    ROW(one_shot_reduce_scatter) ROW(two_shot_allreduce)                                                               \
    ROW(two_shot_reduce) ROW(bulk_allreduce) ROW(bulk_reduce) ROW(bulk_reduce_scatter) ROW(bulk_copy_allreduce)        \
    ROW(peer_load_allreduce) ROW(peer_load_reduce) ROW(peer_load_reduce_scatter) ROW(fan_broadcast)                    \
    ROW(lines_allreduce) ROW(lines_reduce) ROW(lines_reduce_scatter)                                                   \
    ROW(one_shot_lines_allreduce) ROW(one_shot_lines_reduce)                                                           \
    ROW(chain_broadcast) ROW(copy_chain_broadcast) ROW(exchange_broadcast) ROW(exchange_allgather)                     \
    ROW(exchange_alltoall) ROW(exchange_gather) ROW(exchange_scatter) ROW(exchange_barrier) ROW(copy_broadcast)        \
    ROW(copy_allgather) ROW(copy_alltoall) ROW(copy_gather) ROW(copy_scatter) ROW(ring_copy_allreduce)                 \
    ROW(ring_lines_reduce) ROW(ring_lines_broadcast)
/* clang-format on */

#define DECLARE_ROW(symbol) extern const struct algorithm algorithm_##symbol;
ALGORITHM_ROWS(DECLARE_ROW)
#undef DECLARE_ROW

#define COLL_BIT(name) (1u << COLL_##name)

/* A row of the table: see struct algorithm for the fields, in the same order. */
#define ALGORITHM(symbol, name_, colls_, flags_, rounds_, blocks_, scratch_, actions_, round_, cost_)                  \
    const struct algorithm algorithm_##symbol = {                                                                      \
        .name = name_,                                                                                                 \
        .colls = colls_,                                                                                               \
        .flags = flags_,                                                                                               \
        .rounds = rounds_,                                                                                             \
        .blocks = blocks_,                                                                                             \
        .scratch = scratch_,                                                                                           \
        .actions = actions_,                                                                                           \
        .round = round_,                                                                                               \
        .cost = cost_,                                                                                                 \
    };

/* (buffer, block), and the vector blocks that an action is about. */
struct spot {
    uint8_t buffer;
    int32_t block;
};
struct run {
    int32_t block, nblocks;
};

static inline struct spot in(int block)
{
    return (struct spot){BUFFER_IN, block};
}

static inline struct spot out(int block)
{
    return (struct spot){BUFFER_OUT, block};
}

static inline struct spot scratch(int block)
{
    return (struct spot){BUFFER_SCRATCH, block};
}

static inline struct run run(int block, int nblocks)
{
    return (struct run){block, nblocks};
}

static inline struct action act_send(int peer, struct spot src, struct run blocks)
{
    return (struct action){.kind = ACTION_SEND,
                           .src_buffer = src.buffer,
                           .peer = peer,
                           .src_block = src.block,
                           .block = blocks.block,
                           .nblocks = blocks.nblocks};
}

static inline struct action act_recv(int peer, struct spot dst, struct run blocks)
{
    return (struct action){.kind = ACTION_RECV,
                           .dst_buffer = dst.buffer,
                           .peer = peer,
                           .dst_block = dst.block,
                           .block = blocks.block,
                           .nblocks = blocks.nblocks};
}

/* dst = src op what arrives. */
static inline struct action act_recv_reduce(int peer, struct spot src, struct spot dst, struct run blocks, bool final)
{
    return (struct action){.kind = ACTION_RECV_REDUCE,
                           .src_buffer = src.buffer,
                           .dst_buffer = dst.buffer,
                           .final = final,
                           .peer = peer,
                           .src_block = src.block,
                           .dst_block = dst.block,
                           .block = blocks.block,
                           .nblocks = blocks.nblocks};
}

static inline struct action act_copy(struct spot src, struct spot dst, struct run blocks)
{
    return (struct action){.kind = ACTION_COPY,
                           .src_buffer = src.buffer,
                           .dst_buffer = dst.buffer,
                           .src_block = src.block,
                           .dst_block = dst.block,
                           .block = blocks.block,
                           .nblocks = blocks.nblocks};
}

static inline struct action act_reduce(struct spot src, int nsrc, struct spot dst, struct run blocks, bool final)
{
    return (struct action){.kind = ACTION_REDUCE,
                           .src_buffer = src.buffer,
                           .dst_buffer = dst.buffer,
                           .final = final,
                           .src_block = src.block,
                           .dst_block = dst.block,
                           .block = blocks.block,
                           .nblocks = blocks.nblocks,
                           .nsrc = nsrc};
}

/* value mod n for -n <= value < 2n. */
static inline int wrap(int value, int n)
{
    return value < 0 ? value + n : value >= n ? value - n : value;
}

/* My block, from `mine`, to all. */
static inline int share(const struct shape *shape, int me, struct spot mine, struct action *actions)
{
    int n = shape->nranks, count = 0;
    for (int i = 1; i < n; i++) {
        int to = wrap(me + i, n), from = wrap(me - i, n);
        actions[count++] = act_send(to, mine, run(me, 1));
        actions[count++] = act_recv(from, out(from), run(from, 1));
    }
    return count;
}

/* Least k with 2^k >= n. */
static inline int log2_ceil(int n)
{
    int k = 0;
    while (k < 31 && (1u << k) < (unsigned)n)
        k++;
    return k;
}

/* Greatest k with 2^k <= n. */
static inline int log2_floor(int n)
{
    return 31 - __builtin_clz((unsigned)n);
}

/* Shared answers. */
static inline int one(const struct shape *shape)
{
    return 1;
}

static inline int zero(const struct shape *shape)
{
    return 0;
}

static inline int two(const struct shape *shape)
{
    return 2;
}

static inline int nranks(const struct shape *shape)
{
    return shape->nranks;
}

/* Of a round in which everyone has a message from and to everyone, and something of its own. */
static inline int all_actions(const struct shape *shape)
{
    return 2 * shape->nranks + 1;
}

static inline int no_scratch(const struct shape *shape, int rank)
{
    return 0;
}

/* The part of a vector of n blocks that is not mine. */
static inline double others(const struct shape *shape)
{
    return (shape->nranks - 1.0) / shape->nranks;
}

/* The cost where one rank is the busiest in every round. */
static inline struct cost_terms uniform_cost(double rounds, double messages, double bytes, double reduced)
{
    return (struct cost_terms){rounds, messages, bytes, reduced, messages, bytes, reduced};
}

#endif
