/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of middle length, in lines (lines.cuh): two shots without a fence. Ranks own parts of the vector, and each
 * part is cut into tiles of a warp. Every warp of the grid works by itself, with the warps of the same index on the
 * other ranks: what it carries in step t are the t-th of its tiles of all parts, under one number on all channels.
 * Numbers go on from launch to launch.
 *
 *   step i:   contribute(i)       tiles of the input, to the owners of their parts
 *             reduce(i - 1)       the own part's: waits for all contributions, reduces by rank, sends the result
 *             take(i - 2)         waits for others' results, delivers; who owns nothing does so first
 *
 * No rank tells that it has read a line: what it sends later says so. KERNEL_LINES_DEPTH is 4, so what is sent as
 * number t replaces number t - 4. K is the last number of the launch before. A rank that hears from another in this
 * launch knows that the other is done with all up to K.
 *
 *  - A contribution t to rank q, which owns a part. If this rank owns one, too, it has reduced t - 2, for which it had
 *    q's contribution t - 2; before q sent that, it had reduced t - 4, or all up to K. If it owns none, it has taken
 *    q's result t - 2, for which q had read this rank's contribution t - 2. The first two of a launch replace K - 3
 *    and K - 2, and at its end a launch knows that q has read up to K - 2: from q's contribution K, or its result K.
 *  - A result t, for rank q. This rank is reducing t, so it has q's contribution t. Before q sent that it had taken
 *    result t - 3, or all up to K.
 *
 * All ranks' warps of a number have equally many steps, however short some parts are, and send lines in each.
 *
 * What is gathered has results alone, which each rank reads from its own input. In step i a rank takes the others'
 * results i - 3 before it sends its own, i - 1. Before q sent i - 3 it had taken i - 5, which i - 1 replaces, or all up
 * to K. The first two replace K - 3 and K - 2, as above.
 *
 * Several vectors in one launch are as many launches, to each warp by itself: a warp does its tiles of one vector after
 * another.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LINES_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LINES_CUH

#include <element.cuh>
#include <lines.cuh>
#include <over.cuh>

#define LINES_TILE_BYTES ((uint64_t)LINES_TILE * LINE_UNITS * 8)
static_assert(WARP < 32 || LINES_TILE_BYTES == KERNEL_LINES_TILE, "the header says how many bytes a tile has");

enum lines_family { LINES_CONTRIBUTIONS, LINES_RESULTS };

/* What all warps know of the vector; in shared memory, as registers are few. Each warp of a list has its own. */
struct lines_shape {
    uint64_t bytes, part; /* of the vector, or of a block of what is scattered or gathered; of an owner's part */
    uint32_t workers;     /* warps that share the vector out */
    uint32_t owners;      /* other ranks that own a part */
    int first;            /* the first rank to get contributions; -1: none does */
    uint32_t team_worker; /* of a list: this warp, among all that the team has */
    const unsigned char *in;
    unsigned char *out;
};

/* What a warp knows. worker: which of those that share the vector out. number: of the last step before this vector.
 * tile: without its slot. */
template <class E> struct lines_run {
    const struct kernel_reduce &what;
    const struct lines_shape &s;
    const arithmetic<E> &a;
    uint32_t worker, steps, number;
    struct lines_tile tile;
};

/* ---- whom and what ---- */

/* The k-th other rank: not everybody to the same one first. */
DEVICE int lines_peer(const struct kernel_team &team, uint32_t k)
{
    const int p = team.rank + 1 + (int)k;
    return p < team.nranks ? p : p - team.nranks;
}

/* Elements of several vectors in one launch. Code for one vector alone does without what these need: half a
 * microsecond. */
template <class E> struct listed : E {
};
template <class E> struct is_listed {
    enum { YES = false };
};
template <class E> struct is_listed<listed<E>> {
    enum { YES = true };
};

/* The kernel of floats gathers, too: others have no registers left for that. */
template <class E> DEVICE bool lines_gather(const struct kernel_reduce &what)
{
    return is_listed<E>::YES && E::REAL && E::BYTES == 4 && what.mode == KERNEL_ALLGATHER;
}

/* Has each rank a block of its own, of the vector's length? */
template <class E> DEVICE bool lines_blocks(const struct kernel_reduce &what)
{
    return what.mode == KERNEL_REDUCE_SCATTER || lines_gather<E>(what);
}

template <class E> DEVICE const unsigned char *lines_in(const lines_run<E> &r)
{
    return is_listed<E>::YES ? r.s.in : (const unsigned char *)r.what.in;
}

template <class E> DEVICE unsigned char *lines_out(const lines_run<E> &r)
{
    return is_listed<E>::YES ? r.s.out : (unsigned char *)r.what.out;
}

/* This warp, among all that the team has. */
template <class E> DEVICE uint32_t lines_worker(const lines_run<E> &r)
{
    return is_listed<E>::YES ? r.s.team_worker : r.worker;
}

/* By one lane. */
template <class E>
DEVICE void lines_cut(struct lines_shape *s, const struct kernel_reduce &what, const struct list_vector &item,
                      uint64_t bytes)
{
    const int n = lines_gather<E>(what) ? 1 : what.team.nranks; /* nobody contributes to what is gathered */
    s->in = (const unsigned char *)item.in;
    s->out = (unsigned char *)item.out;
    s->bytes = bytes;
    s->part = lines_blocks<E>(what) ? bytes : kernel_part_bytes(bytes, what.parts);
    s->workers = item.stripes;
    s->owners = 0;
    s->first = -1;
    ROLLED for (uint32_t k = (uint32_t)n - 1; k-- > 0;)
    {
        const int p = lines_peer(what.team, k);
        if (what.part[p] < 0)
            continue;
        s->owners |= 1u << p;
        s->first = p;
    }
}

/* Where in the vector, or in a block of it, tile t of rank p's part lies. */
template <class E> DEVICE struct span lines_piece(const lines_run<E> &r, int p, uint32_t t)
{
    const uint64_t first = lines_blocks<E>(r.what) ? 0 : least(r.s.part * (uint64_t)r.what.part[p], r.s.bytes),
                   end = least(first + r.s.part, r.s.bytes);
    struct span s;
    s.begin = least(first + ((uint64_t)t * r.s.workers + r.worker) * LINES_TILE_BYTES, end);
    s.end = least(s.begin + LINES_TILE_BYTES, end);
    return s;
}

/* This rank's contribution to it, as it lies there. */
template <class E> DEVICE void lines_load(const lines_run<E> &r, struct packet *x, int p, uint32_t t)
{
    const struct span s = lines_piece(r, p, t);
    const uint64_t block = r.what.mode == KERNEL_REDUCE_SCATTER ? r.s.bytes * (uint64_t)p : 0;
    tile_fetch<false>(x, r.tile, lines_in(r) + block + s.begin, s.end - s.begin);
}

template <class E> DEVICE void lines_store(const lines_run<E> &r, const struct packet *x, int p, uint32_t t)
{
    const struct span s = lines_piece(r, p, t);
    const uint64_t block = lines_gather<E>(r.what) ? r.s.bytes * (uint64_t)p : 0;
    tile_deliver<false>(x, r.tile, lines_out(r) + block + s.begin, s.end - s.begin);
}

/* What is to be told is computed with the flag's half, too, of which nothing comes. */
template <class E> DEVICE void lines_prepare(const lines_run<E> &r, struct packet *x)
{
    if (r.a.scaled)
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) prepare<E, 2>(r.a, x[k].half);
}

/* The channel's slots for this warp. */
template <class E>
DEVICE struct lines_tile lines_channel(const lines_run<E> &r, enum lines_family family, int to, int from)
{
    const struct kernel_team &team = r.what.team;
    const uint32_t beside = LINES_PACKETS / (LINES_TILE * LINE_VECTORS); /* warps that share a slot */
    const uint32_t place = (uint32_t)family * (uint32_t)(team.nranks - 1) + source_index(to, from);
    reduce_lines_inbox *inbox = (reduce_lines_inbox *)(team.bulk[to] + kernel_bulk_plain(team.nranks));
    struct lines_tile tile = r.tile;
    tile.slot =
        inbox[place][lines_worker(r) / beside][0] + lines_worker(r) % beside * (LINES_TILE * LINE_VECTORS) + tile.lane;
    return tile;
}

/* ---- the three parts of a step; false, in all lanes: given up ---- */

/* `ahead`: the tile for the first peer, which is sent, and then the next step's. */
template <class E> DEVICE void lines_contribute(const lines_run<E> &r, struct packet *ahead, uint32_t t)
{
    const struct kernel_team &team = r.what.team;
    const uint32_t number = r.number + 1 + t;
    ROLLED for (uint32_t k = 0; k + 1 < (uint32_t)team.nranks; k++)
    {
        const int p = lines_peer(team, k);
        if (!has(r.s.owners, p))
            continue;
        if (p != r.s.first)
            lines_load(r, ahead, p, t);
        lines_prepare(r, ahead);
        tile_send(ahead, lines_channel(r, LINES_CONTRIBUTIONS, p, team.rank), number);
    }
    if (r.s.first >= 0 && t + 1 < r.steps)
        lines_load(r, ahead, r.s.first, t + 1);
}

/* All contributions to tile t of the own part, reduced. */
template <class E> DEVICE bool lines_fold(const lines_run<E> &r, struct packet *x, uint32_t t)
{
    const struct kernel_team &team = r.what.team;
    enum { EARLY = E::BYTES >= 4 }; /* the others have sums that are wider, and registers are few */
    struct packet own[LINES_VECTORS];
    parts<E, 2> sum[LINES_VECTORS] = {};
    if (EARLY)
        lines_load(r, own, team.rank, t);
    ROLLED for (int p = 0; p < team.nranks; p++)
    {
        if (p != team.rank &&
            !tile_wait(x, lines_channel(r, LINES_CONTRIBUTIONS, team.rank, p), r.number + 1 + t, team.abort, p))
            return false;
        if (p == team.rank && !EARLY)
            lines_load(r, x, p, t);
        UNROLL for (uint32_t k = 0; EARLY && p == team.rank && k < LINES_VECTORS; k++) x[k] = own[k];
        if (p == team.rank)
            lines_prepare(r, x);
        UNROLL for (uint32_t k = 0; k < LINES_VECTORS; k++) if (p == 0) parts_widen(sum[k], x[k].half);
        else parts_absorb(sum[k], x[k].half, r.a.op);
    }
    UNROLL for (uint32_t k = 0; team.nranks > 1 && k < LINES_VECTORS; k++)
    { /* alone: bits stay as they are */
        parts_narrow(x[k].half, sum[k]);
        finish<E, 2>(r.a, x[k].half);
    }
    return true;
}

template <class E> DEVICE bool lines_reduce(const lines_run<E> &r, uint32_t t)
{
    const struct kernel_team &team = r.what.team;
    struct packet x[LINES_VECTORS];
    if (lines_gather<E>(r.what))
        lines_load(r, x, team.rank, t);
    else if (!lines_fold(r, x, t))
        return false;
    ROLLED for (uint32_t k = 0; k + 1 < (uint32_t)team.nranks; k++) if (has(r.what.gives, lines_peer(team, k)))
        tile_send(x, lines_channel(r, LINES_RESULTS, lines_peer(team, k), team.rank), r.number + 1 + t);
    if (r.what.wants)
        lines_store(r, x, team.rank, t);
    return true;
}

template <class E> DEVICE bool lines_take(const lines_run<E> &r, uint32_t t)
{
    const struct kernel_team &team = r.what.team;
    struct packet x[LINES_VECTORS];
    ROLLED for (uint32_t k = 0; k + 1 < (uint32_t)team.nranks; k++)
    {
        const int p = lines_peer(team, k);
        if (!has(r.what.takes, p))
            continue;
        if (!tile_wait(x, lines_channel(r, LINES_RESULTS, team.rank, p), r.number + 1 + t, team.abort, p))
            return false;
        lines_store(r, x, p, t);
    }
    return true;
}

/* ---- */

template <class E> DEVICE void lines_close(const lines_run<E> &r)
{
    const struct kernel_team &team = r.what.team;
    warp_sync(); /* all lanes have the old number */
    if (r.tile.lane == 0)
        window_of(team, team.rank)->reduce_lines_number[lines_worker(r)] = r.number + r.steps;
}

template <class E> DEVICE void lines_steps(const lines_run<E> &r)
{
    const struct kernel_team &team = r.what.team;
    const bool owns = r.what.part[team.rank] >= 0;
    const uint32_t late = owns ? 3 : 2; /* an owner takes at the end of a step: before the next one begins */
    struct packet ahead[LINES_VECTORS];
    if (r.s.first >= 0)
        lines_load(r, ahead, r.s.first, 0);
    ROLLED for (uint32_t i = 0; i < r.steps + late; i++)
    {
        if (r.what.takes && i - late < r.steps && !lines_take(r, i - late))
            return;
        if (i < r.steps)
            lines_contribute(r, ahead, i);
        if (owns && i - 1 < r.steps && !lines_reduce(r, i - 1))
            return;
    }
    lines_close(r);
}

#endif
