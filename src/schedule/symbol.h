/* SPDX-License-Identifier: Apache-2.0 */
/* For the checker: the symbolic value of one block, and the symbolic memory of one rank. */
#ifndef TUTTI_SCHEDULE_SYMBOL_H
#define TUTTI_SCHEDULE_SYMBOL_H

#include "base/random.h"
#include "schedule/schedule.h"

struct symbol {
    uint64_t set[2]; /* sums over the contributions in it: equal exactly if the multisets are (but for 2^-128) */
    uint64_t tree;   /* the expression; commutative, not associative */
    uint32_t count;  /* contributions; 0: undefined */
    int32_t block;   /* which block of the vector it is: gives its length */
};

/* What `rank` brings to block `block` of the vector. */
static inline struct symbol symbol_leaf(int rank, int block)
{
    uint64_t key = (uint64_t)rank << 32 | (uint32_t)block;
    uint64_t low = mix64(key + 0x9e3779b97f4a7c15ull), high = mix64(low ^ 0xd1b54a32d192ed03ull);
    return (struct symbol){.set = {low, high}, .tree = mix64(high + key), .count = 1, .block = block};
}

static inline struct symbol symbol_join(struct symbol a, struct symbol b)
{
    uint64_t low = a.tree < b.tree ? a.tree : b.tree, high = a.tree < b.tree ? b.tree : a.tree;
    return (struct symbol){.set = {a.set[0] + b.set[0], a.set[1] + b.set[1]},
                           .tree = mix64(mix64(low) + 3 * high),
                           .count = a.count + b.count,
                           .block = a.block};
}

static inline bool symbol_same_set(struct symbol a, struct symbol b)
{
    return a.set[0] == b.set[0] && a.set[1] == b.set[1] && a.count == b.count;
}

/* One rank's memory: each buffer is a window of `cells`; in place, IN and OUT overlap. */
struct symbol_memory {
    struct symbol *cells;
    int first[3], size[3]; /* by enum buffer */
    int total;
};

/* Lays the buffers out; cells come later. */
static inline void symbol_layout(struct symbol_memory *memory, const struct shape *shape, int rank, int nblocks,
                                 int scratch, bool in_place)
{
    enum buffer inner;
    int offset;
    bool alias = schedule_alias(shape, rank, &inner, &offset) && in_place;
    int in_size = schedule_buffer_blocks(shape, rank, BUFFER_IN, nblocks);
    int out_size = schedule_buffer_blocks(shape, rank, BUFFER_OUT, nblocks);
    memory->size[BUFFER_IN] = in_size;
    memory->size[BUFFER_OUT] = out_size;
    memory->size[BUFFER_SCRATCH] = scratch;
    memory->first[BUFFER_IN] = alias && inner == BUFFER_IN ? offset : 0;
    memory->first[BUFFER_OUT] = alias ? (inner == BUFFER_OUT ? offset : 0) : in_size;
    int users = alias ? (in_size > out_size ? in_size : out_size) : in_size + out_size;
    memory->first[BUFFER_SCRATCH] = users;
    memory->total = users + scratch;
}

#endif
