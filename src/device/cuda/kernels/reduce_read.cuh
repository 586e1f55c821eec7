/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large reductions whose contributions are not pushed: each owner reads them where users have them, if all ranks have
 * mapped what all others show. A few blocks fill the links so, where pushing takes slots, fences, and four times as
 * many processors of the GPU.
 *
 * Block 0 shows each rank where `in` is, and says, when it has heard of all, whether it reaches all of it. All blocks
 * look at these words, and at where block 0 has found what was shown, and come to the same answer: to read; or to push,
 * as one rank or more has not mapped everything. Places take turns: the writer of a place has begun the launch
 * after the one that read the place last.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_READ_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_READ_CUH

#include <invitation.cuh>
#include <reduce_peer.cuh>

#define READ_RANKS   4 /* whose vectors a thread has in flight at a time, */
#define READ_VECTORS 4 /* vectors of each */

/* What rank `from` tells rank `to`. */
DEVICE struct packet *read_place(const struct kernel_reduce &what, int to, int from)
{
    return window_of(what.team, to)->read_words[what.reads % LL_SLOTS][from];
}

/* Rank p's `in`, and its scalar; NULL: it is not mapped. Block 0 looks for all, as it may be withdrawn meanwhile: what
 * was found stays mapped until the launch is over. False: given up. */
DEVICE bool read_find_of(const struct kernel_reduce &what, int p, uint64_t *found, uint64_t *scalar)
{
    struct packet *place = read_place(what, what.team.rank, p);
    uint64_t shown;
    if (!ll_get(place + READ_SCALAR, what.reads, what.team.abort, p, scalar))
        return false;
    if (blockIdx.x)
        return ll_get(place + READ_FOUND, what.reads, what.team.abort, p, found);
    if (!ll_get(place + READ_PLACE, what.reads, what.team.abort, p, &shown))
        return false;
    *found = (uint64_t)(uintptr_t)invite_reach(shown, what.mappings, p);
    ll_put(place + READ_FOUND, what.reads, *found);
    return true;
}

/* Of all ranks. False: given up. */
DEVICE bool read_find(const struct kernel_reduce &what, uint64_t scalar, struct peer_places *at)
{
    const struct kernel_team &team = what.team;
    const int me = team.rank;
    bool good = true;
    EACH_RANK(p, team.nranks)
    {
        if (p == me || blockIdx.x)
            continue;
        ll_put(read_place(what, p, me) + READ_PLACE, what.reads, what.invite[p]);
        ll_put(read_place(what, p, me) + READ_SCALAR, what.reads, scalar);
    }
    EACH_RANK(p, team.nranks)
    {
        uint64_t found = (uint64_t)(uintptr_t)what.in, theirs = scalar;
        good = good && (p == me || read_find_of(what, p, &found, &theirs));
        at->in[p] = (const unsigned char *)(uintptr_t)found;
        at->out[p] = (unsigned char *)what.out; /* one's own alone is looked at */
        at->scalar[p] = theirs;
    }
    return !barrier_or(!good);
}

/* Does this rank, and does each other one, reach all? False also if given up: *good is false then. */
DEVICE bool read_agree(const struct kernel_reduce &what, const struct peer_places &at, bool *good)
{
    const struct kernel_team &team = what.team;
    const int me = team.rank;
    bool reaches = true, agree = true, heard = true;
    EACH_RANK(p, team.nranks) reaches = reaches && at.in[p];
    reaches = !barrier_or(!reaches);
    EACH_RANK(p, team.nranks) if (blockIdx.x == 0) ll_put(read_place(what, p, me) + READ_REACHES, what.reads, reaches);
    EACH_RANK(p, team.nranks)
    {
        uint64_t theirs = 0;
        heard = heard && ll_get(read_place(what, me, p) + READ_REACHES, what.reads, team.abort, p, &theirs);
        agree = agree && theirs;
        fence_all(); /* what they had stored before is seen behind the barrier */
    }
    *good = !barrier_or(!heard);
    return !barrier_or(!agree) && *good;
}

/* Averages of as many ranks as a power of two: their inverse gives the same bits as a division. */
template <class E> DEVICE bool read_halves(const arithmetic<E> &a)
{
    return E::REAL && (a.nranks & (a.nranks - 1)) == 0;
}

template <class E> DEVICE void read_halve(uint64_t *unit, int nranks)
{
    const typename E::wide inverse = (typename E::wide)1 / (typename E::wide)nranks;
    parts<E, 2> x;
    parts_widen(x, unit);
    UNROLL for (int i = 0; i < parts<E, 2>::COUNT; i++) x.of[i] = E::product(x.of[i], inverse);
    parts_narrow_by_pairs(unit, x);
}

/* Sums of all ranks' vectors, of which there are READ_RANKS or fewer, a block's width apart. */
template <class E> DEVICE void read_sums(const peer_run<E> &r, uint64_t at)
{
    struct vector x[READ_RANKS][READ_VECTORS];
    const uint64_t step = (uint64_t)blockDim.x * VECTOR_BYTES;
    UNROLL for (int p = 0; p < READ_RANKS; p++)
    {
        if (p >= r.team.nranks)
            continue;
        UNROLL for (int u = 0; u < READ_VECTORS; u++) load_once(r.at.in[p] + at + u * step, x[p][u].unit);
    }
    UNROLL for (int u = 0; u < READ_VECTORS; u++)
    {
        parts<E, 2> sum;
        parts_widen(sum, x[0][u].unit);
        UNROLL for (int p = 1; p < READ_RANKS; p++) if (p < r.team.nranks) parts_absorb(sum, x[p][u].unit, TUTTI_SUM);
        parts_narrow_by_pairs(x[0][u].unit, sum);
        if (r.a.average)
            read_halve<E>(x[0][u].unit, r.a.nranks);
        *(struct vector *)(r.at.out[r.team.rank] + at + u * step) = x[0][u];
    }
}

/* Whole tiles of the reductions that nearly everybody wants; the rest as where memory is symmetric. */
template <class E> DEVICE void read_all(const peer_run<E> &r, struct span s)
{
    const uint64_t tile = (uint64_t)blockDim.x * VECTOR_BYTES * READ_VECTORS;
    const bool plain = r.a.op == TUTTI_SUM && !r.a.scaled && (!r.a.average || read_halves(r.a));
    if (plain && r.team.nranks <= READ_RANKS && peer_aligned(r.at, s.begin, r.gives, r.team.nranks))
        ROLLED for (; s.begin + tile <= s.end; s.begin += tile)
            read_sums<E>(r, s.begin + threadIdx.x * (uint64_t)VECTOR_BYTES);
    peer_span(r, s);
}

/* The bytes of the own part that this block reduces, from the beginning of `out`. */
DEVICE struct span read_span(const struct kernel_reduce &what, uint64_t bytes)
{
    const bool scatter = what.mode == KERNEL_REDUCE_SCATTER;
    const uint64_t part = scatter ? bytes : kernel_part_bytes(bytes, what.parts);
    const int owner = what.part[what.team.rank];
    const uint64_t begin = scatter ? 0 : owner < 0 ? bytes : least(part * (uint64_t)owner, bytes);
    struct span s = span_part(least(begin + part, bytes) - begin, blockIdx.x, gridDim.x);
    s.begin += begin;
    s.end += begin;
    return s;
}

/* False: contributions are to be pushed. */
template <class E> APART bool reduce_read(const struct kernel_reduce &what)
{
    __shared__ struct peer_places at;
    const int me = what.team.rank;
    const uint64_t bytes = what.count * E::BYTES;
    const arithmetic<E> a = arithmetic_of<E>(what);
    const peer_run<E> r = {what.team, at, a, 1u << me};
    bool good = read_find(what, scalar_bits<E>(what), &at);
    if (!good)
        return true;
    const bool agree = read_agree(what, at, &good);
    if (good && what.mappings && blockIdx.x == 0 && threadIdx.x == 0)
        ++what.mappings->read[agree];
    if (!agree)
        return !good;
    if (what.mode == KERNEL_REDUCE_SCATTER)
        EACH_RANK(p, what.team.nranks) at.in[p] += bytes * me;
    barrier();
    read_all(r, read_span(what, bytes));
    barrier();
    peer_part<&window::read_done>(what.team, what.reads);
    return true;
}

#endif
