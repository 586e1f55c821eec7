/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel for messages of middle length between GPUs whose links carry what a warp stores to one line of 128 bytes
 * as a whole (NVLink): the last 8 bytes are the flag of the other 120. So data need no fence, and the flags are a
 * sixteenth of the traffic. That lines arrive whole is a property of the machine, which PTX does not promise; NCCL's
 * protocol LL128 lives by it, too.
 *
 * Chunk k of a pair and stripe lies in slot k % KERNEL_LINES_DEPTH, a tile of each warp, and is written when chunk k -
 * KERNEL_LINES_DEPTH has been acknowledged. Nothing but lines is ever stored in these slots: user's data never lies
 * where a flag is looked for.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_LINES_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_LINES_CUH

#include <ll.cuh>

#define LINE_VECTORS  8                           /* of 16 bytes; the last 8 bytes of the last one are the flag */
#define LINE_UNITS    (2 * LINE_VECTORS - 1)      /* of 8 bytes of data */
#define LINE_LANES    (WARP < 8 ? WARP : 8)       /* threads that share a line */
#define LINE_EACH     (LINE_VECTORS / LINE_LANES) /* vectors of a line that one of them has */
#define LINES_BESIDE  (WARP / LINE_LANES)         /* that a warp stores at once */
#define LINES_TURNS   4                           /* how often, until it waits for its loads */
#define LINES_TILE    (LINES_TURNS * LINES_BESIDE)
#define LINES_VECTORS (LINES_TURNS * LINE_EACH) /* of a thread */

/* A warp's part of every chunk, as this thread sees it. */
struct lines_tile {
    struct packet *slot; /* its first vector in slot 0 */
    uint32_t begin;      /* which 8 bytes of the chunk lie there */
    uint32_t lane;
};

/* Two lines hold 15 vectors of user's data: 7 each, and beside its flag each has a half of the one in between. So all
 * but that one are loaded and stored whole. Which 8 bytes of the data does vector `at` of a line begin with? */
DEVICE uint32_t line_unit(uint32_t line, uint32_t at)
{
    const uint32_t odd = line % 2;
    return line / 2 * (2 * LINE_UNITS) +
           (at == LINE_VECTORS - 1 ? LINE_UNITS - 1 + odd : odd * (LINE_UNITS + 1) + 2 * at);
}

/* The first of a thread that has `lane` in a warp whose lines begin with number `first`, which is even. */
DEVICE uint32_t tile_begin(uint32_t first, uint32_t lane)
{
    return first * LINE_UNITS + line_unit(lane / LINE_LANES, lane % LINE_LANES);
}

/* Of its k-th vector. */
DEVICE uint32_t tile_unit(const struct lines_tile &t, uint32_t k)
{
    if (LINES_BESIDE % 2 == 0)
        return t.begin + k * (LINES_BESIDE * LINE_UNITS);
    return t.begin + line_unit(k / LINE_EACH * LINES_BESIDE, k % LINE_EACH * LINE_LANES);
}

/* Slots are zero at first. */
DEVICE uint64_t lines_flag(uint32_t number)
{
    return (uint64_t)1 << 32 | number;
}

/* Bytes of a chunk: every warp of these threads has one tile of it. */
DEVICE uint64_t lines_chunk(uint32_t threads)
{
    return (uint64_t)(threads / WARP) * LINES_TILE * LINE_UNITS * 8;
}

DEVICE struct packet *lines_slots(const struct kernel_team &team, int to, int from, uint32_t stripe)
{
    lines_inbox *inbox =
        (lines_inbox *)(team.window[to] + KERNEL_CONTROL_BYTES + (uint64_t)(team.nranks - 1) * sizeof(ll_inbox));
    return inbox[source_index(to, from)][stripe][0];
}

DEVICE struct lines_tile lines_tile_of(struct packet *slots, const struct thread_group &c)
{
    const uint32_t first = c.thread / WARP * LINES_TILE, lane = c.thread % WARP;
    const struct lines_tile t = {slots + first * LINE_VECTORS + lane, tile_begin(first, lane), lane};
    return t;
}

/* Does this thread's k-th vector end in the flag? */
DEVICE bool has_flag(const struct lines_tile &t, uint32_t k)
{
    return k % LINE_EACH * LINE_LANES + t.lane % LINE_LANES == LINE_VECTORS - 1;
}

/* ---- user's memory ---- */

DEVICE bool by_units(const unsigned char *at, uint64_t bytes)
{
    return aligned(at, 8) && bytes % 8 == 0;
}

APART uint64_t fetch_unit(const unsigned char *from, uint64_t at, uint64_t bytes)
{
    return at < bytes ? load_unit(from + at, bytes - at) : 0;
}

APART void deliver_unit(unsigned char *to, uint64_t at, uint64_t bytes, uint64_t x)
{
    if (at < bytes)
        store_unit(to + at, x, bytes - at);
}

DEVICE bool by_vectors(const unsigned char *at, uint64_t bytes)
{
    return aligned(at, VECTOR_BYTES) && bytes % VECTOR_BYTES == 0;
}

/* WHOLE: 16 bytes at a time where they are aligned. Messages are up to 9 % faster so; reductions of bfloat16, which
 * have few registers left, up to 9 % slower. */
template <bool WHOLE>
DEVICE void tile_fetch(struct packet *x, const struct lines_tile &t, const unsigned char *from, uint64_t bytes)
{
    const uint32_t units = (uint32_t)(bytes / 8);
    const uint64_t *at = (const uint64_t *)from;
    if (WHOLE && by_vectors(from, bytes)) {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_unit(t, k);
            struct vector v = {{0, 0}};
            if (i < units && has_flag(t, k))
                v.unit[0] = at[i];
            else if (i < units)
                v = *(const struct vector *)(at + i);
            x[k].half[0] = v.unit[0];
            x[k].half[1] = v.unit[1];
        }
    } else if (by_units(from, bytes)) {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_unit(t, k);
            x[k].half[0] = i < units ? at[i] : 0;
            x[k].half[1] = !has_flag(t, k) && i + 1 < units ? at[i + 1] : 0;
        }
    } else {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint64_t i = 8 * (uint64_t)tile_unit(t, k);
            x[k].half[0] = fetch_unit(from, i, bytes);
            x[k].half[1] = has_flag(t, k) ? 0 : fetch_unit(from, i + 8, bytes);
        }
    }
}

template <bool WHOLE>
DEVICE void tile_deliver(const struct packet *x, const struct lines_tile &t, unsigned char *to, uint64_t bytes)
{
    const uint32_t units = (uint32_t)(bytes / 8);
    uint64_t *at = (uint64_t *)to;
    if (WHOLE && by_vectors(to, bytes)) {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_unit(t, k);
            const struct vector v = {{x[k].half[0], x[k].half[1]}};
            if (i < units && has_flag(t, k))
                at[i] = v.unit[0];
            else if (i < units)
                *(struct vector *)(at + i) = v;
        }
    } else if (by_units(to, bytes)) {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_unit(t, k);
            if (i < units)
                at[i] = x[k].half[0];
            if (!has_flag(t, k) && i + 1 < units)
                at[i + 1] = x[k].half[1];
        }
    } else {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint64_t i = 8 * (uint64_t)tile_unit(t, k);
            deliver_unit(to, i, bytes, x[k].half[0]);
            if (!has_flag(t, k))
                deliver_unit(to, i + 8, bytes, x[k].half[1]);
        }
    }
}

/* ---- slots ---- */

/* In step a warp stores whole lines, also those behind the chunk's end. So only the code that touches user's memory
 * looks where the end is. */
template <uint32_t DEPTH = KERNEL_LINES_DEPTH>
DEVICE void tile_send(const struct packet *x, const struct lines_tile &t, uint32_t number)
{
    struct packet *slot = t.slot + number % DEPTH * LINES_PACKETS;
    warp_sync();
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        store_halves(slot[k * WARP].half, x[k].half[0], has_flag(t, k) ? lines_flag(number) : x[k].half[1]);
}

/* The same answer in all threads of a warp. False: some line is not there yet. */
template <uint32_t DEPTH = KERNEL_LINES_DEPTH>
DEVICE bool tile_look(struct packet *x, const struct lines_tile &t, uint32_t number)
{
    const struct packet *slot = t.slot + number % DEPTH * LINES_PACKETS;
    bool there = true;
    warp_sync(); /* or a thread might load data before another one loads their flag */
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) load_halves(slot[k * WARP].half, &x[k].half[0], &x[k].half[1]);
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) there =
        there && (!has_flag(t, k) || x[k].half[1] == lines_flag(number));
    return !warp_any(!there);
}

/* The same answer, too, for a tile that rank p sends. False: given up. */
template <uint32_t DEPTH = KERNEL_LINES_DEPTH>
DEVICE bool tile_wait(struct packet *x, const struct lines_tile &t, uint32_t number, const uint32_t *abort, int p)
{
    struct waiting w = {abort, 0};
    while (!tile_look<DEPTH>(x, t, number))
        if (warp_any(!wait_on(&w, p)))
            return false;
    return LINES_WHOLE || tile_look<DEPTH>(x, t, number);
}

#endif
