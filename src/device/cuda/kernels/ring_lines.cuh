/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rooted reductions and broadcasts of middle length, of three ranks or more, that go from rank to rank in lines:
 * towards the root, each rank adding its own, or away from it. Every warp works by itself, with the warps of the same
 * index on the ranks before and behind; warps take tiles of the vector in turn. There are slots for RING_LINES_DEPTH
 * tiles of each; half of them are acknowledged at a time.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_RING_LINES_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_RING_LINES_CUH

#include <reduce_lines.cuh>

#define RING_LINES_DEPTH KERNEL_RING_LINES_DEPTH

struct ring_lines {
    bool gets, puts;
    uint32_t sent, received; /* numbers of the last tiles before this launch, and */
    uint32_t read;           /* the last one that the next rank is known to have read */
    struct lines_tile from, to;
};

template <class E> DEVICE struct lines_tile ring_lines_tile(const lines_run<E> &r, int rank)
{
    const struct kernel_team &team = r.what.team;
    const uint32_t beside = LINES_PACKETS / (LINES_TILE * LINE_VECTORS);
    ring_lines_inbox &inbox =
        *(ring_lines_inbox *)(team.bulk[rank] + kernel_bulk_lines(team.nranks) + KERNEL_RING_BYTES);
    struct lines_tile tile = r.tile;
    tile.slot = inbox[r.worker / beside][0] + r.worker % beside * (LINES_TILE * LINE_VECTORS) + tile.lane;
    return tile;
}

template <class E> DEVICE struct ring_lines ring_lines_of(const lines_run<E> &r)
{
    const struct kernel_reduce &what = r.what;
    const struct window *mine = window_of(what.team, what.team.rank);
    struct ring_lines s;
    s.gets = what.before >= 0;
    s.puts = what.next >= 0;
    s.sent = load_relaxed(&mine->ring_lines_sent[r.worker]);
    s.received = load_relaxed(&mine->ring_lines_received[r.worker]);
    s.read = load_ack(&mine->ring_lines_acked[r.worker]);
    s.from = ring_lines_tile(r, what.team.rank);
    s.to = ring_lines_tile(r, s.puts ? what.next : what.team.rank);
    return s;
}

/* False, in all threads of a warp: given up. */
template <class E> DEVICE bool ring_lines_room(const lines_run<E> &r, struct ring_lines *s, uint32_t number)
{
    const struct kernel_team &team = r.what.team;
    const uint32_t *acked = &window_of(team, team.rank)->ring_lines_acked[r.worker];
    struct waiting w = {team.abort, 0};
    bool good = true;
    while (good && !reached(s->read, number - RING_LINES_DEPTH)) {
        s->read = load_ack(acked);
        good = reached(s->read, number - RING_LINES_DEPTH) || wait_on(&w, r.what.next);
    }
    return !warp_any(!good);
}

template <class E> DEVICE void ring_lines_add(const lines_run<E> &r, struct packet *x, const struct packet *own)
{
    UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) units_absorb<E, 2>(x[k].half, own[k].half, r.a.op);
}

template <class E> DEVICE void ring_lines_load(const lines_run<E> &r, struct packet *x, uint32_t t)
{
    const struct span s = lines_piece(r, r.what.team.rank, t);
    tile_fetch<true>(x, r.tile, (const unsigned char *)r.what.in + s.begin, s.end - s.begin);
}

template <class E> DEVICE void ring_lines_store(const lines_run<E> &r, const struct packet *x, uint32_t t)
{
    const struct span s = lines_piece(r, r.what.team.rank, t);
    tile_deliver<true>(x, r.tile, (unsigned char *)r.what.out + s.begin, s.end - s.begin);
}

/* By one lane. All lanes have made use of what they have read, so it is in their registers. */
template <class E> DEVICE void ring_lines_ack(const lines_run<E> &r, uint32_t number)
{
    warp_sync();
    if (r.tile.lane == 0)
        store_ack(&window_of(r.what.team, r.what.before)->ring_lines_acked[r.worker], number);
}

template <class E> DEVICE void ring_lines_close(const lines_run<E> &r, const struct ring_lines &s)
{
    struct window *mine = window_of(r.what.team, r.what.team.rank);
    if (s.gets)
        ring_lines_ack(r, s.received + r.steps);
    warp_sync(); /* all lanes have the old numbers */
    if (r.tile.lane == 0 && s.gets)
        mine->ring_lines_received[r.worker] = s.received + r.steps;
    if (r.tile.lane == 0 && s.puts)
        mine->ring_lines_sent[r.worker] = s.sent + r.steps;
}

/* The rank that begins has tiles of its own; in a reduction all ranks have. The next one is on its way while this one
 * waits. */
template <class E> DEVICE void ring_lines_steps(const lines_run<E> &r)
{
    const bool reduces = r.what.mode == KERNEL_REDUCE;
    struct ring_lines s = ring_lines_of(r);
    const bool loads = reduces || !s.gets, stores = reduces ? !s.puts : s.gets || r.what.in != r.what.out;
    struct packet own[LINES_VECTORS], x[LINES_VECTORS];
    if (loads)
        ring_lines_load(r, own, 0);
    ROLLED for (uint32_t t = 0; t < r.steps; t++)
    {
        if (s.gets && !tile_wait<RING_LINES_DEPTH>(x, s.from, s.received + t + 1, r.what.team.abort, r.what.before))
            return;
        if (loads && reduces)
            lines_prepare(r, own);
        if (loads && s.gets)
            ring_lines_add(r, x, own);
        else if (loads)
            UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) x[k] = own[k];
        if (loads && t + 1 < r.steps)
            ring_lines_load(r, own, t + 1);
        if (reduces && !s.puts)
            UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) finish<E, 2>(r.a, x[k].half);
        if (s.puts && !ring_lines_room(r, &s, s.sent + t + 1))
            return;
        if (s.puts)
            tile_send<RING_LINES_DEPTH>(x, s.to, s.sent + t + 1);
        if (stores)
            ring_lines_store(r, x, t);
        if (s.gets && (s.received + t + 1) % (RING_LINES_DEPTH / 2) == 0)
            ring_lines_ack(r, s.received + t + 1);
    }
    ring_lines_close(r, s);
}

#endif
