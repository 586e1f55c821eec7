/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of medium size over memory that all ranks address: of one process, or symmetric. Each rank owns a part of
 * the vector, reads it where the others have it and stores the result where they want it: nothing is copied on the way.
 * Blocks b of all ranks meet first, and tell one another where their memory is. At the end each says that it neither
 * reads nor writes the others' any more. A meeting place holds one number at a time: the writer of the next number has
 * heard that the last was read.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_PEER_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_PEER_CUH

#include <element.cuh>
#include <ll.cuh>
#include <over.cuh>

#define PEER_AT_ONCE 4 /* ranks whose memory a thread reads at a time */

/* Where ranks have what is reduced, and want the result; what each multiplies its contribution by. */
struct peer_places {
    const unsigned char *in[KERNEL_RANKS];
    unsigned char *out[KERNEL_RANKS];
    uint64_t scalar[KERNEL_RANKS];
};

template <class E> struct peer_run {
    const struct kernel_team &team;
    const struct peer_places &at;
    const arithmetic<E> &a;
    uint32_t gives; /* ranks that get this rank's results */
};

/* All words are looked at together. The last load is of the first packet: what its writer had written before is seen
 * then. False: given up. */
DEVICE bool peer_hear(const struct packet *at, uint32_t number, const uint32_t *abort, int p, uint64_t *word)
{
    struct waiting w = {abort, 0};
    struct packet x[PEER_WORDS];
    bool there;
    do {
        UNROLL for (int i = 1; i < PEER_WORDS; i++) load_halves(at[i].half, &x[i].half[0], &x[i].half[1]);
        load_halves_acquire(at->half, &x[0].half[0], &x[0].half[1]);
        there = true;
        UNROLL for (int i = 0; i < PEER_WORDS; i++) there = there && ll_is(x[i], number);
    } while (!there && wait_on(&w, p));
    UNROLL for (int i = 0; i < PEER_WORDS; i++) word[i] = ll_unit(x[i]);
    return there;
}

/* Thread p tells rank p, and hears from it. What is to be read lies there from before the launch: no fence is needed.
 * `skip`: bytes of each rank's vector, to what this rank owns. False: given up. */
DEVICE bool peer_meet(const struct kernel_peer &peers, uint64_t scalar, uint64_t skip, uint32_t number,
                      struct peer_places *at)
{
    const struct kernel_reduce &what = peers.reduce;
    const struct kernel_team &team = what.team;
    bool good = true;
    EACH_RANK(p, team.nranks)
    {
        uint64_t word[PEER_WORDS] = {(uint64_t)(uintptr_t)what.in - peers.in_base[team.rank],
                                     (uint64_t)(uintptr_t)what.out - peers.out_base[team.rank], scalar};
        if (p != team.rank) {
            struct packet *theirs = window_of(team, p)->peer_meet[blockIdx.x][team.rank];
            const struct packet *mine = window_of(team, team.rank)->peer_meet[blockIdx.x][p];
            UNROLL for (int i = 0; i < PEER_WORDS; i++) ll_put(theirs + i, number, word[i]);
            good = good && peer_hear(mine, number, team.abort, p, word);
        }
        at->in[p] = (const unsigned char *)(uintptr_t)(peers.in_base[p] + word[0]) + skip;
        at->out[p] = (unsigned char *)(uintptr_t)(peers.out_base[p] + word[1]);
        at->scalar[p] = word[2];
    }
    return !barrier_or(!good);
}

/* Takes back where this rank's memory is. A kernel that begins later finds no number that it waits for, and neither
 * reads nor writes there. */
DEVICE void peer_unsay(const struct kernel_team &team, uint32_t number)
{
    EACH_RANK(p, team.nranks)
    if (p != team.rank)
        ll_put(window_of(team, p)->peer_meet[blockIdx.x][team.rank], number - 1, 0);
    fence_all();
}

/*
 * Behind a barrier. Tells the others that this block is done with their memory, and waits for the same of them. A block
 * that gives up then takes the word back: what others still read is soon no contribution any more. They look at the
 * word behind all that they have read. False: given up.
 */
template <stripe_words window::*DONE> DEVICE bool peer_part(const struct kernel_team &team, uint32_t number)
{
    const int me = team.rank;
    bool good = true;
    EACH_RANK(p, team.nranks)
    {
        if (p == me)
            continue;
        fence_all();
        store_flag(&(window_of(team, p)->*DONE)[blockIdx.x][me], number);
    }
    EACH_RANK(p, team.nranks)
    if (p != me)
        good = good && wait_flag(&(window_of(team, me)->*DONE)[blockIdx.x][p], number, team.abort, p);
    if (!barrier_or(!good))
        return true;
    EACH_RANK(p, team.nranks) if (p != me) store_flag(&(window_of(team, p)->*DONE)[blockIdx.x][me], number - 1);
    fence_all();
    return false;
}

/*
 * U vectors of each thread, i, i + blockDim.x and so on, at byte `from` of all vectors. WHOLE: those before `end` are
 * whole and aligned; otherwise there is one, and `end` is in bytes.
 */
template <class E, bool WHOLE, int U>
DEVICE void peer_load(const peer_run<E> &r, struct vector (*x)[U], int first, uint64_t from, uint64_t i, uint64_t end)
{
    UNROLL for (int k = 0; k < PEER_AT_ONCE; k++)
    {
        if (first + k >= r.team.nranks)
            continue;
        if (WHOLE)
            load_vectors<U>(x[k], r.at.in[first + k] + from, i, end);
        else
            load_vector(x[k], r.at.in[first + k] + from + i * VECTOR_BYTES, end - i * VECTOR_BYTES);
    }
}

template <class E> DEVICE void peer_prepare(const peer_run<E> &r, int p, uint64_t *unit)
{
    if (!r.a.scaled)
        return;
    arithmetic<E> a = r.a;
    a.scalar = E::widen(r.at.scalar[p]);
    prepare<E, 2>(a, unit);
}

/* Vectors of ranks first + from and on, of the ones at hand. */
template <class E, int U>
DEVICE void peer_fold(const peer_run<E> &r, parts<E, 2> *sum, struct vector (*x)[U], int first, int from)
{
    UNROLL for (int k = from; k < PEER_AT_ONCE; k++)
    {
        if (first + k >= r.team.nranks)
            continue;
        UNROLL for (int u = 0; u < U; u++)
        {
            peer_prepare(r, first + k, x[k][u].unit);
            parts_absorb(sum[u], x[k][u].unit, r.a.op);
        }
    }
}

template <class E, bool WHOLE, int U>
DEVICE void peer_vectors(const peer_run<E> &r, uint64_t from, uint64_t i, uint64_t end)
{
    struct vector x[PEER_AT_ONCE][U];
    parts<E, 2> sum[U];
    const int n = r.team.nranks, me = r.team.rank;
    peer_load<E, WHOLE, U>(r, x, 0, from, i, end);
    UNROLL for (int u = 0; u < U; u++)
    {
        peer_prepare(r, 0, x[0][u].unit);
        parts_widen(sum[u], x[0][u].unit);
    }
    if (n > 1)
        peer_fold<E, U>(r, sum, x, 0, 1);
    ROLLED for (int first = PEER_AT_ONCE; first < n; first += PEER_AT_ONCE)
    {
        peer_load<E, WHOLE, U>(r, x, first, from, i, end);
        peer_fold<E, U>(r, sum, x, first, 0);
    }
    UNROLL for (int u = 0; u < U; u++)
    {
        if (n > 1)
            parts_narrow(x[0][u].unit, sum[u]);
        finish<E, 2>(r.a, x[0][u].unit);
    }
    ROLLED for (int k = 0; k < n; k++)
    { /* not everybody to the same one first */
        const int p = me + k < n ? me + k : me + k - n;
        if (!has(r.gives, p))
            continue;
        if (WHOLE)
            store_vectors<U>(r.at.out[p] + from, x[0], i, end);
        else
            store_vector(r.at.out[p] + from + i * VECTOR_BYTES, x[0][0], end - i * VECTOR_BYTES);
    }
}

DEVICE bool peer_aligned(const struct peer_places &at, uint64_t from, uint32_t gives, int n)
{
    bool good = true;
    ROLLED for (int p = 0; p < n; p++) good =
        good && aligned(at.in[p] + from, VECTOR_BYTES) && (!has(gives, p) || aligned(at.out[p] + from, VECTOR_BYTES));
    return good;
}

template <class E> DEVICE void peer_span(const peer_run<E> &r, const struct span &s)
{
    enum { U = E::BYTES == 1 ? 1 : 2 };
    const uint64_t bytes = s.end - s.begin,
                   whole = whole_vectors(bytes, peer_aligned(r.at, s.begin, r.gives, r.team.nranks));
    ROLLED for (uint64_t i = threadIdx.x; i < whole; i += U * blockDim.x)
        peer_vectors<E, true, U>(r, s.begin, i, whole);
    ROLLED for (uint64_t i = whole + threadIdx.x; i * VECTOR_BYTES < bytes; i += blockDim.x)
        peer_vectors<E, false, 1>(r, s.begin, i, bytes);
}

template <class E> DEVICE void reduce_peer(const struct kernel_peer &peers)
{
    const struct kernel_reduce &what = peers.reduce;
    __shared__ struct peer_places at;
    const int me = what.team.rank;
    const uint64_t bytes = what.count * E::BYTES;
    const arithmetic<E> a = arithmetic_of<E>(what);
    const bool scatter = what.mode == KERNEL_REDUCE_SCATTER;
    const uint32_t gives = what.gives | (uint32_t)what.wants << me;
    const peer_run<E> r = {what.team, at, a, gives};
    struct window *window = window_of(what.team, me);
    const uint32_t last = window->peer_number[blockIdx.x],
                   number = last == UINT32_MAX ? 1 : last + 1; /* 0 is no flag */
    const int owner = what.part[me];
    const struct span whole = {0, bytes}, none = {0, 0};
    const struct span part = scatter     ? whole
                             : owner < 0 ? none
                                         : span_part(bytes, (uint32_t)owner, (uint32_t)what.parts);
    struct span mine = span_part(part.end - part.begin, blockIdx.x, gridDim.x);
    if (!peer_meet(peers, scalar_bits<E>(what), scatter ? bytes * me : 0, number, &at)) {
        peer_unsay(what.team, number);
        return;
    }
    mine.begin += part.begin;
    mine.end += part.begin;
    peer_span(r, mine);
    barrier();
    if (threadIdx.x == 0)
        window->peer_number[blockIdx.x] = number;
    if (!peer_part<&window::peer_done>(what.team, number))
        peer_unsay(what.team, number);
}

#define PEER_KERNELS(type, name)                                                                                       \
    LAUNCHED(KERNEL_PEER_THREADS, tutti_reduce_peer_##name, kernel_peer, what.reduce.team,                             \
             reduce_peer<element<type>>(what))

#endif
