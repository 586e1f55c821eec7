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
    uint32_t begin;      /* which 8 bytes of the chunk that has */
    uint32_t lane;
};

/* Slots are zero at first. */
DEVICE uint64_t lines_flag(uint32_t number)
{
    return (uint64_t)1 << 32 | number;
}

/* Bytes of a chunk: every warp of so many threads has one tile of it. */
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
    const struct lines_tile t = {slots + first * LINE_VECTORS + lane,
                                 (first + lane / LINE_LANES) * LINE_UNITS + lane % LINE_LANES * 2, lane};
    return t;
}

/* Does this thread's k-th vector end in the flag? How many 8 bytes is it behind the first one? */
DEVICE bool has_flag(const struct lines_tile &t, uint32_t k)
{
    return k % LINE_EACH * LINE_LANES + t.lane % LINE_LANES == LINE_VECTORS - 1;
}

DEVICE uint32_t tile_step(uint32_t k)
{
    return k / LINE_EACH * LINES_BESIDE * LINE_UNITS + k % LINE_EACH * LINE_LANES * 2;
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

DEVICE void tile_fetch(struct packet *x, const struct lines_tile &t, const unsigned char *from, uint64_t bytes)
{
    const uint32_t begin = t.begin, units = (uint32_t)(bytes / 8);
    if (by_units(from, bytes)) {
        const uint64_t *at = (const uint64_t *)from + begin;
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_step(k);
            x[k].half[0] = begin + i < units ? at[i] : 0;
            x[k].half[1] = !has_flag(t, k) && begin + i + 1 < units ? at[i + 1] : 0;
        }
    } else {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint64_t at = 8 * (uint64_t)(begin + tile_step(k));
            x[k].half[0] = fetch_unit(from, at, bytes);
            x[k].half[1] = has_flag(t, k) ? 0 : fetch_unit(from, at + 8, bytes);
        }
    }
}

DEVICE void tile_deliver(const struct packet *x, const struct lines_tile &t, unsigned char *to, uint64_t bytes)
{
    const uint32_t begin = t.begin, units = (uint32_t)(bytes / 8);
    if (by_units(to, bytes)) {
        uint64_t *at = (uint64_t *)to + begin;
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint32_t i = tile_step(k);
            if (begin + i < units)
                at[i] = x[k].half[0];
            if (!has_flag(t, k) && begin + i + 1 < units)
                at[i + 1] = x[k].half[1];
        }
    } else {
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        {
            const uint64_t at = 8 * (uint64_t)(begin + tile_step(k));
            deliver_unit(to, at, bytes, x[k].half[0]);
            if (!has_flag(t, k))
                deliver_unit(to, at + 8, bytes, x[k].half[1]);
        }
    }
}

/* ---- slots ---- */

/* In step a warp stores whole lines, also those behind the chunk's end, so that nobody but who touches user's memory
 * looks where that is. */
DEVICE void tile_send(const struct packet *x, const struct lines_tile &t, uint32_t number)
{
    struct packet *slot = t.slot + number % KERNEL_LINES_DEPTH * LINES_PACKETS;
    warp_sync();
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++)
        store_halves(slot[k * WARP].half, x[k].half[0], has_flag(t, k) ? lines_flag(number) : x[k].half[1]);
}

/* The same answer in all threads of a warp. False: some line is not there yet. */
DEVICE bool tile_look(struct packet *x, const struct lines_tile &t, uint32_t number)
{
    const struct packet *slot = t.slot + number % KERNEL_LINES_DEPTH * LINES_PACKETS;
    bool there = true;
    warp_sync(); /* or a thread might load data before another one loads their flag */
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) load_halves(slot[k * WARP].half, &x[k].half[0], &x[k].half[1]);
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) there =
        there && (!has_flag(t, k) || x[k].half[1] == lines_flag(number));
    return !warp_any(!there);
}

/* The same, too. Rank p sends it. False: given up. */
DEVICE bool tile_wait(struct packet *x, const struct lines_tile &t, uint32_t number, const uint32_t *abort, int p)
{
    struct waiting w = {abort, 0};
    while (!tile_look(x, t, number))
        if (warp_any(!wait_on(&w, p)))
            return false;
    return LINES_WHOLE || tile_look(x, t, number);
}

#endif
