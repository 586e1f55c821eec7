/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library and the kernels for CUDA agree on: parameters, sizes, names. Read by C and by CUDA. Every kernel
 * takes one of these structs by value. What lies inside a window is the kernels' own business (window.cuh).
 *
 * Kernels have the names of enum kernel_id: one, two and gather are for small vectors, lines for those of middle
 * length, bulk and ring ("bulk kernels") for large ones, peer for symmetric memory.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_KERNELS_H
#define TUTTI_DEVICE_CUDA_KERNELS_KERNELS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define KERNEL_SHARED static __host__ __device__ inline
#else
#define KERNEL_SHARED static inline
#endif

#define KERNEL_RANKS         8               /* most ranks of a team */
#define KERNEL_STRIPES       64              /* most stripes of a message or a vector; most blocks of a launch */
#define KERNEL_LINE          ((uint64_t)128) /* bytes that a link carries at once */
#define KERNEL_LL_BYTES      2048
#define KERNEL_LL_HALF       256 /* threads for a stripe of a small reduction */
#define KERNEL_LL_THREADS    512 /* of a block, which has two of them */
#define KERNEL_BULK_THREADS  512
#define KERNEL_BULK_DEPTH    4                    /* slots of a channel, which hold successive chunks; 2 or more */
#define KERNEL_BULK_BYTES    ((uint64_t)1 << 20)  /* of one source in one slot, shared by the blocks of a launch */
#define KERNEL_RING_BYTES    ((uint64_t)16 << 20) /* of the slots of reductions that go round */
#define KERNEL_BULK_LEAST    ((uint64_t)8 << 10)  /* a chunk is not cut smaller than this for the sake of overlap */
#define KERNEL_BULK_CHUNKS   8                    /* into which a stripe is cut, if they are between these two */
#define KERNEL_BULK_FEW      4 /* where they would be fewer, and results go straight, they may be half as long */
#define KERNEL_PEER_THREADS  512
#define KERNEL_CONTROL_BYTES ((uint64_t)120 << 10) /* the words of a window */
#define KERNEL_BLOCKS_OVER                                                                                             \
    (KERNEL_CONTROL_BYTES - 4) /* where among them the blocks of a launch that are over are counted */
#define KERNEL_EXCHANGE_BYTES    ((uint64_t)4 << 10) /* of a short message for each of its stripes */
#define KERNEL_EXCHANGE_MOST     32                  /* stripes of a message */
#define KERNEL_EXCHANGE_THREADS  512
#define KERNEL_PLAIN_FROM        ((uint64_t)128 << 10) /* messages that go as plain data, by default */
#define KERNEL_LINES_EACH        ((uint64_t)8 << 10)   /* of a message in lines for each of its stripes */
#define KERNEL_LINES_MOST        16                    /* stripes of it */
#define KERNEL_LINES_DEPTH       4                     /* chunks of it that a sender may be ahead of the receiver */
#define KERNEL_LINES_SLOT        ((uint64_t)16 << 10)  /* for each of these */
#define KERNEL_RING_LINES_DEPTH  8                     /* of what goes round */
#define KERNEL_LINES_THREADS     512                   /* of a reduction in lines */
#define KERNEL_LINES_WORKERS     512                   /* most warps of one */
#define KERNEL_LINES_WARPS       (KERNEL_LINES_THREADS / 32)
#define KERNEL_LINES_BLOCKS      (KERNEL_LINES_WORKERS / KERNEL_LINES_WARPS)
#define KERNEL_LINES_TILE        ((uint64_t)16 * 120) /* bytes that a warp of it carries at once */
#define KERNEL_PLAIN_EACH        ((uint64_t)8 << 10)  /* of a message of plain data, for each of its stripes */
#define KERNEL_PLAIN_DEPTH       4                    /* chunks of it that a sender may be ahead of the receiver */
#define KERNEL_PLAIN_LEAST       ((uint64_t)16 << 10) /* a chunk is not cut smaller than this for the sake of overlap */
#define KERNEL_PLAIN_CHUNKS      8   /* into which a stripe is cut, if they are between this and a slot */
#define KERNEL_OFFERS            512 /* buffers of a rank that a peer may have mapped at a time */
#define KERNEL_COURIER_THREADS   512
#define KERNEL_COURIER_BLOCKS    2                    /* of a launch, at most; */
#define KERNEL_COURIER_LONG      4                    /* of a call from here on: */
#define KERNEL_COURIER_LONG_FROM ((uint64_t)64 << 20) /* bytes */
#define KERNEL_COURIER_CHANNELS  16                   /* of a block, at most */
#define KERNEL_CHAIN_THREADS     576                  /* 64 of them touch no data */
#define KERNEL_CHAIN_CHUNK       ((uint64_t)16 << 10) /* least bytes of a chunk, where a launch names none */
#define KERNEL_CHAIN_EACH        ((uint64_t)16 << 10) /* of a broadcast for each of its stripes */

#define KERNEL_LIST_MOST     64 /* vectors that one launch reduces */
#define KERNEL_MESSAGES_MOST 7  /* exchanges in one launch: parameters of a kernel have 4 KiB */

#define KERNEL_DYNAMIC_SPLITS  2048 /* most splits of a rank, in an exchange whose sizes only GPUs know */
#define KERNEL_DYNAMIC_THREADS 512
#define KERNEL_DYNAMIC_ROWS    ((uint32_t)0x7ffffffe) /* most rows of a window */

#define KERNEL_PUTS_MOST    64 /* calls on windows in one launch */
#define KERNEL_PUTS_THREADS 512

#define KERNEL_TIMES 256 /* launches whose times are kept: by ticket */

/* In kernel_team.abort; and words behind it. */
#define KERNEL_GIVE_UP 1u
#define KERNEL_ASKED   2u
#define KERNEL_OVER    1
#define KERNEL_WAITS   2
#define KERNEL_WRONG   10 /* for each rank struct kernel_wrong */

enum kernel_mode {
    KERNEL_ALLREDUCE,
    KERNEL_REDUCE_SCATTER,
    KERNEL_REDUCE,
    KERNEL_REDUCE_OWN,
    KERNEL_BROADCAST,
    KERNEL_ALLGATHER,
    KERNEL_ALLTOALL
};

/* What a kernel has found wrong in the lengths and indices of a rank: of whom the place is. `what` is stored last. */
enum kernel_wrong_kind {
    KERNEL_RIGHT,
    KERNEL_WRONG_SPLIT,  /* split `at` has `value` rows */
    KERNEL_WRONG_SUM,    /* with split `at` its window has `value` rows */
    KERNEL_WRONG_LENGTH, /* the length of the block of indices for rank `at` is `value` */
    KERNEL_WRONG_BLOCKS, /* with that block there are `value` indices */
    KERNEL_WRONG_INDEX,  /* index number `at` is `value` */
    KERNEL_WRONG_SHAPE,  /* the rank has `at` splits, and rows, or windows, of other lengths */
    KERNEL_WRONG_WINDOW  /* what comes from the rank for split `at` ends at row `value` of this one's window */
};
struct kernel_wrong {
    uint32_t what, at, low, high; /* low, high: value */
};

/* The ranks that take part. Fields count for all kernels, but for `bulk`. */
struct kernel_team {
    int32_t rank, nranks;
    /* What the host wants of kernels that wait; NULL: never anything. A kernel that is asked puts 1 into the word
     * KERNEL_WAITS + p behind *abort for each rank p that it waits for. */
    const uint32_t *abort;
    /* Stored in the word KERNEL_OVER behind *abort when the launch is over, after all that it stores; 0: nothing is. */
    uint32_t ticket;
    /* Where a launch with a ticket stores when it begins and when it is over, in ns of this GPU's clock, in pair
     * `ticket % KERNEL_TIMES`; NULL: nowhere. */
    uint64_t *times;
    /* window[p], bulk[p]: rank p's memory as this rank addresses it, aligned to 256 bytes and zeroed before the first
     * kernel of any rank. */
    unsigned char *window[KERNEL_RANKS];
    unsigned char *bulk[KERNEL_RANKS]; /* kernels bulk, ring, lines, chain */
};

/* Where the buffers that peers offer are mapped, and what the kernels of this rank have counted. */
struct kernel_mappings {
    uint64_t at[KERNEL_RANKS][KERNEL_OFFERS]; /* [peer][offer]: 0 or kernel_mapping() */
    /* Stripes of messages, and of results, whose receivers were asked: stored where they are wanted, and through slots.
     */
    uint32_t straight[KERNEL_EXCHANGE_MOST][KERNEL_RANKS], slots[KERNEL_EXCHANGE_MOST][KERNEL_RANKS];
    uint32_t read[2]; /* reductions whose contributions might be read where they are: [1] were, [0] were not */
};

/*
 * A reduction or broadcast, or (kernel gather) an allgather or alltoall. Each field says for which kernels and modes it
 * counts; the others do not look at it. One that names none counts for all.
 *
 * KERNEL_REDUCE_OWN (bulk kernels): each rank gets only its own part of an allreduce (kernel_part_bytes()), at the
 * part's place in out. The rest of out is not touched.
 */
struct kernel_reduce {
    struct kernel_team team;
    const void *in; /* KERNEL_REDUCE_SCATTER, KERNEL_ALLTOALL: nranks blocks of count elements */
    void *out;      /* may be in; KERNEL_REDUCE_SCATTER: the own block of in. Not touched on a rank without a result */
    /* Elements. KERNEL_BROADCAST: bytes, whatever the type. KERNEL_ALLGATHER, KERNEL_ALLTOALL: bytes of a block.
     * Kernels one and two: their bytes have 32 bits. */
    uint64_t count;
    int32_t mode;       /* enum kernel_mode; KERNEL_ALLGATHER: kernels gather, and listed of floats */
    int32_t wants;      /* reductions, broadcasts: this rank gets a result */
    int32_t op, premul; /* reductions. premul: each contribution is first multiplied by one element, see scalar_at */
    uint32_t gives;     /* reductions without `ring`: the other ranks that get this one's results */
    uint32_t takes;     /* one: the ranks whose contributions come; two, bulk, lines: those whose results do */
    int32_t parts;      /* bulk, lines, peer: of the vector. `ring`: n, or 1 where only this rank has a part */
    int8_t part[KERNEL_RANKS]; /* the same: [p], the part that rank p owns; -1: none. `ring`: p, or 0 of this rank */
    uint64_t scalar;           /* of premul: the element, in the low bytes; not looked at with scalar_at */
    const void *scalar_at;     /* of premul: the element, in device memory; NULL: `scalar` is it */
    uint64_t chunk;            /* bulk kernels: bytes of their chunks; 0: by the vector's length */
    /* one, two, gather: two for each block; if no more than blocks (also 0): one. listed: warps that work */
    uint32_t stripes;
    bool invites;        /* bulk, the same on all ranks: results may go straight to out */
    bool sure;           /* of invites: rank p reaches this very out, and none that was there before */
    bool ring;           /* kernel ring, and lines of KERNEL_REDUCE and KERNEL_BROADCAST: from rank to rank */
    int8_t before, next; /* of ring: the rank from which chunks come, and the one to which they go; -1: none */
    /* bulk, where results stay with their owners, the same on all ranks. 0: contributions are pushed. From 1 on: the
     * number of the launch among those that read contributions where they are, if all ranks reach all of them. */
    uint32_t reads;
    /* bulk: of invites, how rank p reaches out (kernel_invite_*()); of reads, how it reaches in. 0: it does not. */
    uint64_t invite[KERNEL_RANKS];
    struct kernel_mappings *mappings; /* of invites and reads: of peers' buffers, in device memory; NULL: none is */
};

/*
 * Several vectors in one launch of kernels one, two, gather or listed. They have `reduce` in common but for its in,
 * out, count and stripes. Without items, `reduce` is the only vector.
 *
 * Vectors share out the team's stripes 0 to width - 1 (width 0: all), so that several are reduced at a time. A stripe
 * of kernel listed, which always has items and goes in lines, is a warp: the one of that number among
 * KERNEL_LINES_WORKERS. Stripe s of a vector is the team's stripe turn + s, modulo width. The launch has reduce.stripes
 * of the team's stripes, from `first` on. Each of them reduces its part of one vector after another. width and an
 * item's turn and stripes are the same on all ranks. Ranks may have the same vectors in other launches, in the same
 * order.
 */
struct kernel_item {
    const void *in;
    void *out;
    uint32_t count;
    uint16_t stripes, turn;
};

struct kernel_list {
    struct kernel_reduce reduce;
    uint32_t items, first, width;
    struct kernel_item item[KERNEL_LIST_MOST];
};

/*
 * Of kernel peer, whose ranks tell one another where `in` and `out` are: in bytes behind in_base[p] and out_base[p].
 * Both bases are the same place of rank p's memory for all ranks, as this rank addresses it. All 0: one process, whose
 * GPUs address everything alike.
 */
struct kernel_peer {
    struct kernel_reduce reduce;
    uint64_t in_base[KERNEL_RANKS], out_base[KERNEL_RANKS];
};

/* Ways of a message: a flag in every word, in every line of 128 bytes, behind every chunk of plain data. */
enum kernel_form { KERNEL_PACKETS, KERNEL_LINES, KERNEL_PLAIN };

/*
 * A message to and from every rank. The one to this rank itself is a copy, and both its sizes are the same.
 *
 * Which form a message has: lines from lines_from bytes on, but below lines_to; links must carry lines as a whole.
 * Plain data from lines_to bytes on (lines_to 0: no message goes in lines). Of the others, plain data from plain_from
 * bytes on (0: KERNEL_PLAIN_FROM), else packets.
 *
 * Which blocks carry a message: those from out_end[k - 1] up to out_end[k] carry the one to the k-th rank behind this
 * one. Those from in_end[k - 1] up to in_end[k] carry the one from the k-th rank before this one. out_end[0] and
 * in_end[0] are 0. A message that is not empty has one block or more. The blocks behind all these copy what is for this
 * rank itself.
 */
struct kernel_exchange {
    struct kernel_team team;
    const void *send[KERNEL_RANKS]; /* NULL where the size is 0; so is recv */
    void *recv[KERNEL_RANKS];
    uint64_t send_bytes[KERNEL_RANKS], recv_bytes[KERNEL_RANKS]; /* may be 0 */
    uint64_t plain_from, lines_from, lines_to;                   /* the same on all ranks */
    uint32_t turn; /* the same on all ranks: stripe s of a message is the pair's turn + s, modulo its form's */
    uint16_t out_end[KERNEL_RANKS], in_end[KERNEL_RANKS]; /* may differ from rank to rank */
    /* invite_from, the same on all ranks: plain data of this length or more begin with the receiver's invitation; 0:
     * none do. invite[p]: the invitation for plain data from rank p, kernel_invite_*(), or 0. */
    uint64_t invite_from, invite[KERNEL_RANKS];
    struct kernel_mappings *mappings; /* of peers' buffers, in device memory; NULL: none is mapped */
};

/* Several exchanges in one launch, one after another in each half of a block: `item[0].team` is the launch's. out_end
 * and in_end are those of all, so that a pair's stripe is one block's in all of them. Other ranks may have the same
 * ones in other launches, in the same order. */
struct kernel_messages {
    struct kernel_exchange item[KERNEL_MESSAGES_MOST];
    uint32_t items;
};

/*
 * An exchange of which only GPUs know how much goes where: lengths and indices are read when the kernel runs. Of
 * `exchange` team, forms and mappings count. send[p]: where this rank's windows begin. recv[p]: where the one for what
 * comes from rank p does. Rows of a window are those of its splits, one behind another, at both ends.
 *
 * Each of the peers has `blocks` blocks, which is the same on all ranks. The blocks behind these copy what a rank has
 * for itself.
 */
struct kernel_dynamic {
    struct kernel_exchange exchange;
    const int64_t *splits;         /* rows of each */
    const int64_t *lengths;        /* nranks: how many of the indices are for rank 0, 1 and so on */
    const int64_t *indices;        /* of splits, one rank's behind another's */
    int64_t *recv_splits;          /* [nranks][count]: all ranks' splits; NULL: not wanted */
    uint64_t row;                  /* bytes of a row; the same on all ranks, and so are count and group */
    uint32_t count, group;         /* splits; of a window. KERNEL_DYNAMIC_SPLITS at most */
    uint32_t room;                 /* indices, at most */
    uint32_t send_rows, recv_rows; /* of a window, at most: KERNEL_DYNAMIC_ROWS. All of send: 2^32 rows */
    uint32_t blocks;
};

/*
 * Broadcast of `bytes` bytes: from in on the root to out on all ranks; in is not looked at on others, and may be out.
 * Stripes take turns with `parts` ways: this rank gets its stripe of part i from rank source[i] (-1: it is the root)
 * and passes it on to the ranks next[i]. chunk (0: the default) and parts are the same on all ranks. Needs bulk and two
 * ranks or more.
 */
struct kernel_chain {
    struct kernel_team team;
    const void *in;
    void *out;
    uint64_t bytes, chunk;
    int32_t parts;
    int8_t source[KERNEL_RANKS];
    uint32_t next[KERNEL_RANKS];
};

/*
 * Calls on windows in a CUDA graph, and behind one. An item is a copy (bytes), a signal that is raised behind all
 * copies (word), or a wait for `count` signals (word, taken): `taken` counts those that waits have had. peers: bits of
 * the others that are put to, or got from; their words are the mailbox's (struct mailbox_pair). A launch of one block
 * has all three parts. Otherwise three launches follow one another: one block announces, all move, one block tells.
 */
struct kernel_puts_item {
    uint64_t bytes;
    const void *from;
    void *to;
    uint32_t *word, *taken;
    uint32_t count;
    int32_t peer;
};

struct kernel_puts_pair {
    uint32_t *putting, *put;
    const uint32_t *shut; /* not 0: the peer has given up its memory */
};

struct kernel_puts {
    struct kernel_team team;
    uint32_t items, peers;
    bool announces, moves, tells;
    struct kernel_puts_pair pair[KERNEL_RANKS];
    struct kernel_puts_item item[KERNEL_PUTS_MOST];
};

/*
 * A copy that the host wants of a kernel, or a fold: the reduction of one block of each rank, in the order of ranks,
 * with this rank's own at `own`, and rank p's at byte p * bytes behind `from`. In pinned host memory. Each half word of
 * the order stands beside the number of the order, so that a kernel has all of them by loads that go at once: it takes
 * an order when all numbers are equal, and the job is its own. `done` is the number of the last one that has been
 * carried out; the host alone reads that line.
 */
enum kernel_order {
    KERNEL_ORDER_TO = 0, /* and the next, as all words: low half, high half */
    KERNEL_ORDER_FROM = 2,
    KERNEL_ORDER_BYTES = 4,
    KERNEL_ORDER_OWN = 6,
    KERNEL_ORDER_JOB = 8,
    KERNEL_ORDER_FOLD = 9, /* 0: a copy; else kernel_fold() */
    KERNEL_ORDER_PARTS = 10
};
#define KERNEL_ORDER_PART(half, number) ((uint64_t)(number) << 32 | (uint32_t)(half))
struct kernel_copy {
    uint64_t part[KERNEL_ORDER_PARTS], room[6];
    uint32_t done, unused[15];
};

/* Of a fold: how many ranks there are, and which one this is. KERNEL_FOLD_SCALES, of one rank: its block times the
 * element whose bits stand instead of `from`. */
#define KERNEL_FOLD_RANKS  (1u << 15) /* most ranks of a fold, and one more */
#define KERNEL_FOLD_SCALES (1u << 31)
KERNEL_SHARED uint32_t kernel_fold(int nranks, int rank)
{
    return (uint32_t)nranks | (uint32_t)rank << 16;
}

/* Where a launch of a graph, which knows no job, asks the host for one. The kernel writes which launch it is, and of
 * which recipe. The host answers with the number of that launch and the job, and tells which of these jobs are over. */
struct kernel_post {
    uint32_t asked, recipe;
    uint32_t answered, job;
    uint32_t over, unused[11];
};

/* Block b carries out the orders of copies[b], and of each gridDim.x-th behind it, if they are of this job, until *over
 * has come to its number. In a graph: of the job that the host gives, until post->over has. */
struct kernel_courier {
    struct kernel_copy *copies;
    const uint32_t *over;
    uint32_t job;
    uint32_t recipe;          /* in a graph */
    struct kernel_post *post; /* NULL: it is in none */
    uint32_t *launches;       /* on the GPU: blocks of this launch that are through; launches of graphs that are over */
    uint32_t channels;        /* copies[] has so far */
    int32_t op;               /* of folds */
    int32_t divisor;          /* of averages; 0: the ranks of the fold */
};

/* X(type, name): names of kernels end in these, which are type_name()'s. */
#define KERNEL_INTEGERS(X)                                                                                             \
    X(TUTTI_INT8, int8)                                                                                                \
    X(TUTTI_UINT8, uint8)                                                                                              \
    X(TUTTI_INT32, int32)                                                                                              \
    X(TUTTI_UINT32, uint32)                                                                                            \
    X(TUTTI_INT64, int64)                                                                                              \
    X(TUTTI_UINT64, uint64)
#define KERNEL_FLOATS(X)                                                                                               \
    X(TUTTI_FLOAT16, half)                                                                                             \
    X(TUTTI_FLOAT32, float)                                                                                            \
    X(TUTTI_FLOAT64, double)                                                                                           \
    X(TUTTI_BFLOAT16, bfloat16)                                                                                        \
    X(TUTTI_FLOAT8_E4M3, f8e4m3)                                                                                       \
    X(TUTTI_FLOAT8_E5M2, f8e5m2)

/* As links carry data. */
KERNEL_SHARED uint64_t kernel_whole_lines(uint64_t bytes)
{
    return (bytes + KERNEL_LINE - 1) & ~(KERNEL_LINE - 1);
}

/* Bytes of each rank's part of a vector; the last parts may be shorter, or empty. Rank p's begins at p times as many.
 */
KERNEL_SHARED uint64_t kernel_part_bytes(uint64_t bytes, int nranks)
{
    return (bytes / (uint64_t)nranks + (bytes % (uint64_t)nranks != 0) + 255) & ~(uint64_t)255;
}

/* Bytes of the scratch of the bulk kernels in each rank's device memory: two families, every source but the own. */
KERNEL_SHARED uint64_t kernel_bulk_plain(int nranks)
{
    return 2 * (uint64_t)(nranks > 1 ? nranks - 1 : 0) * KERNEL_BULK_DEPTH * KERNEL_BULK_BYTES;
}

/* With that of reductions in lines behind it: the same of each, and a tile of 2 KiB for each warp. */
KERNEL_SHARED uint64_t kernel_bulk_lines(int nranks)
{
    const uint64_t lines = (uint64_t)KERNEL_LINES_WORKERS * KERNEL_LINES_DEPTH << 11;
    return kernel_bulk_plain(nranks) + 2 * (uint64_t)(nranks > 1 ? nranks - 1 : 0) * lines;
}

/* And behind these what comes from the rank before, of three or more. */
KERNEL_SHARED uint64_t kernel_bulk_bytes(int nranks)
{
    const uint64_t lines = (uint64_t)KERNEL_LINES_WORKERS * KERNEL_RING_LINES_DEPTH << 11;
    return kernel_bulk_lines(nranks) + (nranks > 2 ? KERNEL_RING_BYTES + lines : 0);
}

/* Bytes of a slot for a chunk of plain data: long chunks take fewer fences; with many peers each link needs less in
 * flight. */
KERNEL_SHARED uint64_t kernel_plain_slot(int nranks)
{
    return (uint64_t)(nranks <= 2 ? 64 : 16) << 10;
}

/* Of a window: what kernels count of exchanges whose sizes only they know. */
struct kernel_dynamic_words {
    uint32_t number;             /* of the last launch */
    uint64_t sent[KERNEL_RANKS]; /* bytes, to each rank */
    uint32_t unused[46];
};

/* And behind these from every source what its splits are, twice. */
KERNEL_SHARED uint64_t kernel_dynamic_bytes(int nranks)
{
    return sizeof(struct kernel_dynamic_words) +
           (uint64_t)(nranks > 1 ? nranks - 1 : 0) * 2 * (2 + KERNEL_DYNAMIC_SPLITS / 2) * 16;
}

/* Where these begin: behind a window's words, and for every source room for short messages, for lines and for plain
 * data. */
KERNEL_SHARED uint64_t kernel_dynamic_begin(int nranks)
{
    const uint64_t words = 2 * 2 * (uint64_t)KERNEL_STRIPES * KERNEL_LL_BYTES;
    const uint64_t lines = (uint64_t)KERNEL_LINES_MOST * KERNEL_LINES_DEPTH * KERNEL_LINES_SLOT;
    const uint64_t plain = (uint64_t)KERNEL_EXCHANGE_MOST * KERNEL_PLAIN_DEPTH * kernel_plain_slot(nranks);
    return KERNEL_CONTROL_BYTES + (uint64_t)(nranks > 1 ? nranks - 1 : 0) * (words + lines + plain);
}

KERNEL_SHARED uint64_t kernel_window_bytes(int nranks)
{
    return (kernel_dynamic_begin(nranks) + kernel_dynamic_bytes(nranks) + 255) & ~(uint64_t)255;
}

/* Both ends of a message compute these from its size: its way, whether its receiver invites, and over how many stripes
 * it is spread. */
KERNEL_SHARED enum kernel_form kernel_exchange_form(const struct kernel_exchange *what, uint64_t bytes)
{
    if (bytes >= what->lines_from && bytes < what->lines_to)
        return KERNEL_LINES;
    if (what->lines_to && bytes >= what->lines_to)
        return KERNEL_PLAIN;
    return bytes < (what->plain_from ? what->plain_from : KERNEL_PLAIN_FROM) ? KERNEL_PACKETS : KERNEL_PLAIN;
}

KERNEL_SHARED bool kernel_exchange_invites(const struct kernel_exchange *what, uint64_t bytes)
{
    return what->invite_from && bytes >= what->invite_from && kernel_exchange_form(what, bytes) == KERNEL_PLAIN;
}

/*
 * An invitation. With the uppermost bit: an address that the sender's GPU reaches as it is. With the next bit: an offer
 * of the receiver's (9 bits), the low bits of its number, and how far behind its base the message begins (39 bits). An
 * offer's place may be another's by the time: its number tells. What a reduction invites to is a multiple of 16: the
 * lowest bit says then that no token is to be looked for.
 */
#define KERNEL_INVITE_SURE    ((uint64_t)1)
#define KERNEL_INVITE_ADDRESS ((uint64_t)1 << 63)
#define KERNEL_INVITE_OFFER   ((uint64_t)1 << 62)
#define KERNEL_INVITE_BYTES   ((uint64_t)1 << 39)
#define KERNEL_INVITE_NUMBERS ((uint64_t)1 << 14)

KERNEL_SHARED uint64_t kernel_invite(uint32_t offer, uint32_t number, uint64_t offset)
{
    if (offer >= KERNEL_OFFERS || offset >= KERNEL_INVITE_BYTES)
        return 0;
    return KERNEL_INVITE_OFFER | (uint64_t)offer << 53 | (number & (KERNEL_INVITE_NUMBERS - 1)) << 39 | offset;
}

/* Of a buffer whose base is a multiple of 256; else 0. */
KERNEL_SHARED uint64_t kernel_mapping(uint64_t address, uint32_t number)
{
    return address % 256 ? 0 : (address >> 8) << 15 | KERNEL_INVITE_NUMBERS | (number & (KERNEL_INVITE_NUMBERS - 1));
}

KERNEL_SHARED uint32_t kernel_invite_place(uint64_t invitation)
{
    return (uint32_t)(invitation >> 53) % KERNEL_OFFERS;
}

/* Where the message is to go, by what is mapped in its place; 0: another buffer, or none. */
KERNEL_SHARED uint64_t kernel_invite_address(uint64_t invitation, uint64_t mapping)
{
    const uint64_t number = (invitation >> 39) % KERNEL_INVITE_NUMBERS | KERNEL_INVITE_NUMBERS;
    return mapping % (2 * KERNEL_INVITE_NUMBERS) == number ? (mapping >> 15 << 8) + invitation % KERNEL_INVITE_BYTES
                                                           : 0;
}

/* Stripes of a pair that messages of a form have; a power of two. */
KERNEL_SHARED uint32_t kernel_form_stripes(enum kernel_form form)
{
    return form == KERNEL_LINES ? KERNEL_LINES_MOST : KERNEL_EXCHANGE_MOST;
}

KERNEL_SHARED uint32_t kernel_exchange_stripes(const struct kernel_exchange *what, uint64_t bytes)
{
    const enum kernel_form form = kernel_exchange_form(what, bytes);
    const uint64_t each = form == KERNEL_PACKETS ? KERNEL_EXCHANGE_BYTES
                          : form == KERNEL_LINES ? KERNEL_LINES_EACH
                                                 : KERNEL_PLAIN_EACH;
    const uint64_t stripes = bytes / each + (bytes % each != 0);
    const uint32_t most = kernel_form_stripes(form);
    return (uint32_t)(stripes < most ? stripes : most);
}

/* The first block that has none of the messages to and from others, of which the last are with the last-th rank around.
 */
KERNEL_SHARED uint32_t kernel_exchange_own(const struct kernel_exchange *what, uint32_t last)
{
    return what->out_end[last] > what->in_end[last] ? what->out_end[last] : what->in_end[last];
}

/* Bytes of the chunks of a message of plain data, the same for all its stripes. */
KERNEL_SHARED uint64_t kernel_plain_chunk(uint64_t bytes, int nranks)
{
    const uint64_t wanted = kernel_whole_lines(bytes / ((uint64_t)KERNEL_EXCHANGE_MOST * KERNEL_PLAIN_CHUNKS));
    const uint64_t chunk = wanted < KERNEL_PLAIN_LEAST ? KERNEL_PLAIN_LEAST : wanted, slot = kernel_plain_slot(nranks);
    return chunk < slot ? chunk : slot;
}

/* The ranks that this one sends any of `stripes` stripes to. */
KERNEL_SHARED uint32_t kernel_chain_receivers(const struct kernel_chain *what, uint32_t stripes)
{
    uint32_t ranks = 0;
    for (uint32_t stripe = 0; stripe < stripes; stripe++)
        ranks |= what->next[stripe % (uint32_t)what->parts];
    return ranks;
}

#endif
