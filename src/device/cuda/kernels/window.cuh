/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies inside a window. Words that peers write and words that only the owner touches are in different arrays; the
 * eight words of a stripe share a 32-byte sector. Numbers of messages count from 1 and wrap.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_WINDOW_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_WINDOW_CUH

#include "device/cuda/kernels/kernels.h"

#include <ptx.cuh>

#define LL_PACKETS    (KERNEL_LL_BYTES / 8)
#define LL_SLOTS      2
#define LINES_PACKETS (KERNEL_LINES_SLOT / 16)
#define PEER_WORDS    3 /* where in and out are, the scalar */
#define READ_WORDS    4 /* below */
#define BULK_FAMILIES 2 /* contributions to their owners; results to those who want them */
#define BULK_CHANNELS 3 /* these, and what goes round */

/* 8 bytes of payload; the upper half of each word is the flag. Loaded and stored at once. */
struct alignas(16) packet {
    uint64_t half[2];
};

/* What ranks tell one another that read contributions: where `in` is, the scalar, whether they reach all. And what
 * block 0 tells the others of a rank: where it has found that `in`. */
enum read_word { READ_PLACE, READ_SCALAR, READ_REACHES, READ_FOUND };

typedef uint32_t stripe_words[KERNEL_STRIPES][KERNEL_RANKS];

struct alignas(256) window {
    /* the owner's own */
    stripe_words ll_sent, ll_received, ll_implied;
    stripe_words bulk_sent[BULK_CHANNELS], bulk_received[BULK_CHANNELS];
    stripe_words lines_sent, lines_received;
    stripe_words plain_sent, plain_received;
    stripe_words chain_received;
    uint32_t reduce_lines_number[KERNEL_LINES_WORKERS];
    uint32_t ring_lines_sent[KERNEL_LINES_WORKERS], ring_lines_received[KERNEL_LINES_WORKERS];
    /* written by the peer that the last index names */
    stripe_words ll_acked;
    stripe_words bulk_acked[BULK_CHANNELS], bulk_arrived[BULK_CHANNELS];
    stripe_words lines_acked;
    uint32_t ring_lines_acked[KERNEL_LINES_WORKERS]; /* by the next rank */
    stripe_words plain_acked, plain_arrived;
    stripe_words chain_acked, chain_arrived;
    /* of reduce_peer.cuh: the owner's number, and what peers write */
    uint32_t peer_number[KERNEL_STRIPES];
    struct packet peer_meet[KERNEL_STRIPES][KERNEL_RANKS][PEER_WORDS];
    stripe_words peer_done;
    /* of reduce_read.cuh */
    struct packet read_words[LL_SLOTS][KERNEL_RANKS][READ_WORDS];
    stripe_words read_done;
    /* of invite.cuh: what receivers write, and what senders have made of it */
    struct packet plain_invited[KERNEL_EXCHANGE_MOST][KERNEL_RANKS][LL_SLOTS];
    uint32_t plain_straight[KERNEL_EXCHANGE_MOST][KERNEL_RANKS];
    /* of reduce_bulk.cuh: the same of results */
    struct packet bulk_invited[KERNEL_STRIPES][KERNEL_RANKS][LL_SLOTS];
    stripe_words bulk_straight;
};

/* Behind the words: for every source its small messages, then for every source its lines, then for every source its
 * plain data. */
typedef struct packet ll_inbox[KERNEL_STRIPES][LL_SLOTS][LL_PACKETS];
typedef struct packet lines_inbox[KERNEL_LINES_MOST][KERNEL_LINES_DEPTH][LINES_PACKETS];

/* Behind the bulk kernels' scratch: for every family and source its lines. As many warps share a slot as have room in
 * it. */
typedef struct packet reduce_lines_inbox[KERNEL_LINES_WORKERS * 2048 / KERNEL_LINES_SLOT][KERNEL_LINES_DEPTH]
                                        [LINES_PACKETS];

/* And behind the slots of reductions that go round, what comes in lines from the rank before. */
typedef struct packet ring_lines_inbox[KERNEL_LINES_WORKERS * 2048 / KERNEL_LINES_SLOT][KERNEL_RING_LINES_DEPTH]
                                      [LINES_PACKETS];

static_assert(sizeof(struct window) <= KERNEL_BLOCKS_OVER, "the words are more than their header says");
static_assert(sizeof(ll_inbox) == 4 * KERNEL_STRIPES * KERNEL_LL_BYTES, "an inbox is not as large as its header says");

/* The place of a source among all sources but the owner. */
DEVICE uint32_t source_index(int owner, int source)
{
    return (uint32_t)(source - (source > owner));
}

DEVICE struct window *window_of(const struct kernel_team &team, int rank)
{
    return (struct window *)team.window[rank];
}

/* The team's stripe that is this launch's `index`-th. */
DEVICE uint32_t list_stripe(const struct kernel_list &list, uint32_t index)
{
    const uint32_t stripe = list.first + index;
    return list.width && stripe >= list.width ? stripe - list.width : stripe;
}

/* An item, or the only vector of a launch without items. */
struct list_vector {
    const void *in;
    void *out;
    uint64_t count;
    uint32_t stripes, turn;
};

/* Which stripe of the vector that is; none if the vector has fewer stripes. */
DEVICE uint32_t item_stripe(const struct kernel_list &list, const struct list_vector &item, uint32_t stripe)
{
    return stripe >= item.turn ? stripe - item.turn : stripe + list.width - item.turn;
}

/* Without items: what the rest says, over the stripes of the grid. */
DEVICE uint32_t list_items(const struct kernel_list &list)
{
    return list.items ? list.items : 1;
}

DEVICE struct list_vector list_item(const struct kernel_list &list, uint32_t i)
{
    const struct kernel_reduce &what = list.reduce;
    const uint32_t stripes = what.stripes > gridDim.x ? what.stripes : gridDim.x;
    const struct list_vector only = {what.in, what.out, what.count, stripes, 0};
    if (!list.items)
        return only;
    const struct kernel_item &item = list.item[i];
    const struct list_vector one = {item.in, item.out, item.count, item.stripes, item.turn};
    return one;
}

#define SPAN_LINES 16 /* lines of a part at least, where it begins with one */

/* A part of a vector, in bytes. */
struct span {
    uint64_t begin, end;
};

DEVICE uint64_t round_up_16(uint64_t bytes)
{
    return (bytes + 15) & ~(uint64_t)15;
}

DEVICE uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

/* Part `index` of `parts` of the first `bytes` bytes; the last parts may be empty. Boundaries are multiples of 16 and,
 * of parts that are long, of a line: what is stored across two goes over a link as two. */
DEVICE struct span span_part(uint64_t bytes, uint32_t index, uint32_t parts)
{
    const uint64_t even = (bytes + parts - 1) / parts,
                   each = even < SPAN_LINES * KERNEL_LINE ? round_up_16(even) : kernel_whole_lines(even);
    struct span s;
    s.begin = least(each * index, bytes);
    s.end = least(s.begin + each, bytes);
    return s;
}

#endif
