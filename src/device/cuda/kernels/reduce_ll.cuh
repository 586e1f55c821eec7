/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small reductions. One-shot: contributions go to every rank that wants the result, which reduces them. Two-shot: each stripe
 * is cut into a part for each rank; its owner reduces it and sends the result on. Both reduce in the order of ranks.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LL_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_LL_CUH

#include <element.cuh>
#include <ll.cuh>

typedef uint64_t gathered[KERNEL_RANKS][KERNEL_LL_THREADS];

template <class E> struct ll_run {
    const struct kernel_team &team;
    const unsigned char *in;
    unsigned char *out;
    const arithmetic<E> &a;
    uint32_t stripe, gives, takes; /* ranks that results go to, and come from */
    bool wants;                    /* does this rank get a result? */
    struct ll *ll;
    uint64_t (*unit)[KERNEL_LL_THREADS];
};

#define EACH_UNIT(i, bytes) for (uint32_t i = threadIdx.x; 8 * i < (bytes); i += blockDim.x)

/* This rank's contribution. */
template <class E> DEVICE uint64_t contribution(const ll_run<E> &r, const unsigned char *at, uint64_t left)
{
    uint64_t x = load_unit(at, left);
    prepare<E, 1>(r.a, &x);
    return x;
}

/* Reduces what all ranks contributed to one unit. */
template <class E> DEVICE uint64_t fold_units(const ll_run<E> &r)
{
    uint64_t x = r.unit[0][threadIdx.x];
    parts<E, 1> sum;
    if (r.team.nranks == 1)
        return x;
    parts_widen(sum, &x);
    ROLLED for (int p = 1; p < r.team.nranks; p++)
        parts_absorb(sum, &r.unit[p][threadIdx.x], r.a.op);
    parts_narrow(&x, sum);
    finish<E, 1>(r.a, &x);
    return x;
}

/* Sends the units at `from` (its `bytes` bytes) to rank p. `first` is this thread's first one. */
template <class E> DEVICE void send_units(const ll_run<E> &r, int p, const unsigned char *from, uint32_t bytes)
{
    EACH_UNIT (i, bytes)
        ll_store(r.ll, r.team, r.stripe, p, i, contribution(r, from + 8 * i, bytes - 8 * i));
}

/* Reduces a message of each rank and the own units at `from`; keeps the results in `result` or stores them at `to`. */
template <class E> DEVICE bool reduce_units(const ll_run<E> &r, const unsigned char *from, unsigned char *to, uint64_t *result,
                                            uint32_t ranks, uint32_t bytes)
{
    EACH_UNIT (i, bytes) {
        r.unit[r.team.rank][threadIdx.x] = contribution(r, from + 8 * i, bytes - 8 * i);
        if (!ll_collect(r.ll, r.team, r.stripe, ranks, i, r.unit))
            return false;
        const uint64_t x = fold_units(r);
        if (result)
            result[i] = x;
        if (r.wants)
            store_unit(to + 8 * i, x, bytes - 8 * i);
    }
    return true;
}

/* The same range of every rank's vector, or of the block for each rank, at byte `at` of it. False: given up. */
template <class E> DEVICE bool one_chunk(const ll_run<E> &r, uint64_t at, uint32_t bytes, uint64_t block)
{
    const unsigned char *in = r.in + at;
    const unsigned char *own = in + block * r.team.rank;
    const uint64_t first = 8 * threadIdx.x < bytes ? contribution(r, own + 8 * threadIdx.x, bytes - 8 * threadIdx.x) : 0;
    if (barrier_or(!ll_begin(r.ll, r.team, r.stripe, r.gives, r.takes)))
        return false;
    if (block)
        ROLLED for (int p = 0; p < r.team.nranks; p++) {
            if (has(r.gives, p))
                send_units(r, p, in + block * p, bytes);
        }
    else
        EACH_UNIT (i, bytes) {
            const uint64_t x = i == threadIdx.x ? first : contribution(r, own + 8 * i, bytes - 8 * i);
            ROLLED for (int p = 0; p < r.team.nranks; p++)
                if (has(r.gives, p))
                    ll_store(r.ll, r.team, r.stripe, p, i, x);
        }
    const bool good = !r.wants || reduce_units(r, own, r.out + at, (uint64_t *)0, r.takes, bytes);
    if (barrier_or(!good))
        return false;
    ll_end(r.ll, r.team, r.stripe, r.takes);
    return true;
}

template <class E> DEVICE void reduce_one(const struct kernel_reduce &what)
{
    __shared__ struct ll ll;
    __shared__ gathered unit;
    const uint64_t bytes = what.count * E::BYTES, block = what.mode == KERNEL_REDUCE_SCATTER ? bytes : 0;
    const struct span mine = span_part(bytes, blockIdx.x, gridDim.x);
    const int n = what.team.nranks, me = what.team.rank;
    const arithmetic<E> a = arithmetic_of<E>(what);
    const uint32_t others = all_ranks_but(n, me);
    const bool wants = what.mode != KERNEL_REDUCE || what.root == me;
    const uint32_t gives = what.mode == KERNEL_REDUCE ? others & 1u << what.root : others;
    const ll_run<E> r = {what.team, (const unsigned char *)what.in, (unsigned char *)what.out, a, blockIdx.x, gives,
                         wants ? others : 0, wants, &ll, unit};
    if (mine.begin == mine.end)
        return;
    ll_open(&ll, what.team, r.stripe, others);
    for (uint64_t at = mine.begin; at < mine.end; at += KERNEL_LL_BYTES)
        if (!one_chunk(r, at, (uint32_t)least(mine.end - at, KERNEL_LL_BYTES), block))
            return;
    ll_close(&ll, what.team, r.stripe, others);
}

/* The ranks among `ranks` whose part of a round of `bytes` bytes is longer than `more` bytes. */
DEVICE uint32_t ranks_with_part(uint32_t ranks, uint64_t bytes, uint64_t more, int n)
{
    uint32_t with = 0;
    ROLLED for (int p = 0; p < n; p++) {
        const struct span part = span_part(bytes, (uint32_t)p, (uint32_t)n);
        if (has(ranks, p) && part.end - part.begin > more)
            with |= 1u << p;
    }
    return with;
}

/* First shot: everybody's contributions to their owners, who reduce them. False: given up. */
template <class E> DEVICE bool two_contribute(const ll_run<E> &r, uint64_t at, uint64_t bytes, uint64_t *result)
{
    const int n = r.team.nranks, me = r.team.rank;
    const struct span own = span_part(bytes, (uint32_t)me, (uint32_t)n);
    const uint32_t others = all_ranks_but(n, me), length = (uint32_t)(own.end - own.begin);
    const uint32_t sends = ranks_with_part(others, bytes, 0, n), receives = length ? others : 0;
    if (barrier_or(!ll_begin(r.ll, r.team, r.stripe, sends, receives)))
        return false;
    ROLLED for (int p = 0; p < n; p++)
        if (has(sends, p)) {
            const struct span part = span_part(bytes, (uint32_t)p, (uint32_t)n);
            send_units(r, p, r.in + at + part.begin, (uint32_t)(part.end - part.begin));
        }
    if (barrier_or(!reduce_units(r, r.in + at + own.begin, r.out + at + own.begin, result, receives, length)))
        return false;
    ll_end(r.ll, r.team, r.stripe, receives);
    return true;
}

/* Second shot: the owners' results to who wants them. False: given up. */
template <class E> DEVICE bool two_results(const ll_run<E> &r, uint64_t at, uint64_t bytes, const uint64_t *result)
{
    const int n = r.team.nranks, me = r.team.rank;
    const struct span own = span_part(bytes, (uint32_t)me, (uint32_t)n), longest = span_part(bytes, 0, (uint32_t)n);
    const uint32_t length = (uint32_t)(own.end - own.begin), takes = ranks_with_part(r.takes, bytes, 0, n);
    bool good = true;
    if (barrier_or(!ll_begin(r.ll, r.team, r.stripe, length ? r.gives : 0, takes)))
        return false;
    EACH_UNIT (i, length)
        ROLLED for (int p = 0; p < n; p++)
            if (has(r.gives, p))
                ll_store(r.ll, r.team, r.stripe, p, i, result[i]);
    EACH_UNIT (i, takes ? longest.end : 0) {
        const uint32_t ranks = ranks_with_part(takes, bytes, 8 * i, n);
        good = good && ll_collect(r.ll, r.team, r.stripe, ranks, i, r.unit);
        ROLLED for (int p = 0; good && p < n; p++) {
            const struct span part = span_part(bytes, (uint32_t)p, (uint32_t)n);
            if (has(ranks, p))
                store_unit(r.out + at + part.begin + 8 * i, r.unit[p][threadIdx.x], part.end - part.begin - 8 * i);
        }
    }
    if (barrier_or(!good))
        return false;
    ll_end(r.ll, r.team, r.stripe, takes);
    return true;
}

template <class E> DEVICE void reduce_two(const struct kernel_reduce &what)
{
    __shared__ struct ll ll;
    __shared__ gathered unit;
    __shared__ uint64_t result[LL_PACKETS];
    const struct span mine = span_part(what.count * E::BYTES, blockIdx.x, gridDim.x);
    const int n = what.team.nranks, me = what.team.rank;
    const uint64_t round = (uint64_t)n * KERNEL_LL_BYTES;
    const arithmetic<E> a = arithmetic_of<E>(what);
    const uint32_t others = all_ranks_but(n, me);
    const bool wants = what.mode != KERNEL_REDUCE || what.root == me;
    const uint32_t gives = what.mode == KERNEL_REDUCE ? others & 1u << what.root : others;
    const ll_run<E> r = {what.team, (const unsigned char *)what.in, (unsigned char *)what.out, a, blockIdx.x, gives,
                         wants ? others : 0, wants, &ll, unit};
    if (mine.begin == mine.end)
        return;
    ll_open(&ll, what.team, r.stripe, others);
    for (uint64_t at = mine.begin; at < mine.end; at += round) {
        const uint64_t bytes = least(mine.end - at, round);
        if (!two_contribute(r, at, bytes, result) || !two_results(r, at, bytes, result))
            return;
    }
    ll_close(&ll, what.team, r.stripe, others);
}

#endif
