/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collective as data. An algorithm is a pure function (shape, rank, round) -> actions over blocks. It opens nothing,
 * holds nothing, and yields one round at a time into the caller's array.
 *
 * Blocks. The vector of a collective has B = algorithm->blocks() blocks.
 *   allreduce, reduce, scan, broadcast: `count` elements in B blocks of `stride` = ceil(count / B) elements (an
 * executor may round the stride up, for alignment, when all ranks do the same). Block b is elements
 * [b * stride, (b + 1) * stride)
 * cut off at count: the last blocks may be short or empty. All others: B = n (barrier: 0), one block for each rank,
 * `count` elements each. alltoallv: see below. In each buffer block b starts at b * stride: also in SCRATCH, whose
 * blocks can hold any block of the vector.
 *
 * Buffers, in blocks:      IN            OUT                  in place, as NCCL has it
 *   allreduce              B             B                    IN is OUT
 *   reduce                 B             B, root only         IN is OUT at the root
 *   scan                   B             B                    IN is OUT; rank r ends with what ranks 0 .. r gave
 *   broadcast              B, root only  B                    IN is OUT at the root
 *   allgather              1             n                    IN[0] is OUT[rank]
 *   reduce-scatter         n             1                    OUT[0] is IN[rank]
 *   alltoall, alltoallv    n             n                    not defined: the caller copies first
 *   gather                 1             n, root only         IN[0] is OUT[root] at the root
 *   scatter                n, root only  1                    OUT[0] is IN[root] at the root
 *   barrier                0             0
 * IN is never written (but through OUT, in place). SCRATCH has algorithm->scratch() blocks and starts undefined.
 *
 * Rounds. A rank goes through rounds 0 .. rounds() - 1, at its own pace. In one round:
 *   1. the local actions (COPY, REDUCE), one after the other, as listed;
 *   2. then all SEND, RECV and RECV_REDUCE, at the same time.
 * A rank's next round begins when all of these are complete. The i-th SEND from a to b in round r is received by the
 * i-th RECV or RECV_REDUCE from a at b in round r; both have the same length. In step 2 no block is written twice, nor
 * written by one action and read by another, with one exception: a RECV_REDUCE may write what a SEND reads. The
 * executor then applies it after that SEND is complete, or from a copy.
 *
 * Slices. A long vector may be cut into slices, each of which runs the whole schedule as if it were the vector; where
 * each rank has a block, a slice is the same part of every block. All ranks cut alike. Slices are independent: several
 * may be in flight.
 *
 * Sources: the block-and-round notation follows Thakur, Rabenseifner and Gropp, "Optimization of Collective
 * Communication Operations in MPICH" (2005); a collective as a checked program of chunk operations is the idea of
 * MSCCLang (ASPLOS 2023).
 */
#ifndef TUTTI_SCHEDULE_SCHEDULE_H
#define TUTTI_SCHEDULE_SCHEDULE_H

#include "schedule/levels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coll {
    COLL_ALLREDUCE,
    COLL_REDUCE,
    COLL_BROADCAST,
    COLL_ALLGATHER,
    COLL_REDUCE_SCATTER,
    COLL_ALLTOALL,
    COLL_ALLTOALLV,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_BARRIER,
    COLL_SCAN,
    COLL_COUNT
};

enum action_kind {
    ACTION_SEND,        /* src -> peer */
    ACTION_RECV,        /* peer -> dst */
    ACTION_RECV_REDUCE, /* dst = src op what the peer sent; src may be dst */
    ACTION_COPY,        /* dst = src; nothing to do when they are the same memory (in place) */
    ACTION_REDUCE       /* dst = src[0] op src[1] ... op src[nsrc - 1], left to right; dst is none of them */
};

enum buffer { BUFFER_IN, BUFFER_OUT, BUFFER_SCRATCH };

/* One step. Places are (buffer, block) and hold `nblocks` consecutive blocks; unused fields are 0. An executor may
 * split an action with several blocks into one for each block. */
struct action {
    uint8_t kind;       /* enum action_kind */
    uint8_t src_buffer; /* enum buffer */
    uint8_t dst_buffer;
    uint8_t final;                /* this reduction completes dst: apply the operator's ending (AVG divides) to it */
    int32_t peer;                 /* of SEND, RECV, RECV_REDUCE */
    int32_t src_block, dst_block; /* where in the buffers */
    int32_t block;   /* which blocks of the vector [block, block + nblocks): they give the length in elements */
    int32_t nblocks; /* 0: an empty message (barrier) */
    int32_t nsrc;    /* of REDUCE: src[i] starts at block src_block + i * nblocks */
};
/* alltoallv: SEND and COPY have the length of IN block `block`, RECV that of OUT block `block`; nblocks is 1. */

struct shape {
    enum coll coll;
    int nranks;
    int root;                    /* 0 where the collective has none */
    const struct levels *levels; /* NULL: all ranks are equally far from one another */
};

/* Units of the cost model (cost.h) for one slice: `bytes` and `reduced` are fractions of the vector's bytes (B blocks).
 */
struct cost_terms {
    double rounds;        /* rounds with a message: each costs one latency */
    double messages;      /* sum over rounds of the most messages that a rank sends or receives */
    double bytes;         /* sum over rounds of the most that a rank sends or receives */
    double reduced;       /* sum over rounds of the most operands that a rank folds into another */
    double rank_messages; /* the same summed for one rank over all rounds; the most of all ranks: bounds the pipeline */
    double rank_bytes;
    double rank_reduced;
};

enum algorithm_flags {
    ALGORITHM_POWER_OF_TWO = 1, /* only for n = 2^k */
    ALGORITHM_SHARED = 2, /* fit for peers that load and store each other's memory: a RECV into SCRATCH that only a
                             REDUCE reads can be a pointer, and the REDUCE a fused kernel */
    ALGORITHM_GPU = 4,    /* a way of GPUs, by kernels or copy engines; host memory can take it too */
    ALGORITHM_LEVELS = 8  /* looks at shape->levels itself: see schedule_round() */
};

/* A row of the table in algorithm/algorithm.h. All functions are pure. */
struct algorithm {
    const char *name;
    uint32_t colls; /* set of 1u << enum coll */
    uint32_t flags; /* enum algorithm_flags */
    int (*rounds)(const struct shape *shape);
    int (*blocks)(const struct shape *shape);
    int (*scratch)(const struct shape *shape, int rank); /* blocks of SCRATCH */
    int (*actions)(const struct shape *shape);           /* most actions of one rank in one round */
    int (*round)(const struct shape *shape, int rank, int round, struct action *out); /* returns how many; may be 0 */
    struct cost_terms (*cost)(const struct shape *shape); /* n > 1, in O(log n); NULL: by walking only */
};

/* "allreduce", "reduce-scatter", ... */
const char *schedule_coll_name(enum coll coll);
/* The collective of that name ('-' and '_' and case do not matter, so NCCL's ReduceScatter is one), COLL_COUNT if none.
 */
enum coll schedule_coll_find(const char *name, size_t length);
/* Is `a` the first `length` characters of `b`, if case, '-' and '_' do not matter? */
bool schedule_same_name(const char *a, const char *b, size_t length);
const char *schedule_kind_name(enum action_kind kind);

static inline bool schedule_in_set(enum coll coll, uint32_t set)
{
    return (set >> coll) & 1;
}

static inline bool schedule_reduces(enum coll coll)
{
    const uint32_t set = 1u << COLL_ALLREDUCE | 1u << COLL_REDUCE | 1u << COLL_REDUCE_SCATTER | 1u << COLL_SCAN;
    return schedule_in_set(coll, set);
}

/* True for collectives whose vector of `count` elements is cut into B blocks; false where each rank has a block. */
static inline bool schedule_cuts_vector(enum coll coll)
{
    return schedule_in_set(coll, 1u << COLL_ALLREDUCE | 1u << COLL_REDUCE | 1u << COLL_BROADCAST | 1u << COLL_SCAN);
}

bool schedule_has_root(enum coll coll);
bool schedule_in_place_defined(enum coll coll);

/* May `algorithm` run this shape? Checks the collective, n, the root and the flags. */
bool schedule_fits(const struct algorithm *algorithm, const struct shape *shape);

/*
 * A round and the SCRATCH of a rank of this shape: what whoever runs, proves, prices or draws a schedule asks. Where
 * the shape has levels, algorithms that do not know them get ranks by position, so that neighbours of a ring, or of a
 * tree, are near: of collectives that cut a vector, in which no block belongs to a rank, but not of a scan, whose
 * result depends on the rank.
 */
int schedule_round(const struct algorithm *algorithm, const struct shape *shape, int rank, int round,
                   struct action *out);
int schedule_scratch(const struct algorithm *algorithm, const struct shape *shape, int rank);

/* Blocks of a user buffer (BUFFER_IN or BUFFER_OUT) at `rank`, by the table above. */
int schedule_buffer_blocks(const struct shape *shape, int rank, enum buffer buffer, int nblocks);
/* What in-place calls share at `rank`: block 0 of *inner (IN or OUT) is block *offset of the other buffer. False where
 * the buffers of this rank never overlap. */
bool schedule_alias(const struct shape *shape, int rank, enum buffer *inner, int *offset);

/* Elements of vector blocks [block, block + nblocks). */
static inline size_t schedule_span(size_t count, size_t stride, int32_t block, int32_t nblocks)
{
    size_t begin = (size_t)block * stride, end = begin + (size_t)nblocks * stride;
    return (end < count ? end : count) - (begin < count ? begin : count);
}

#endif
