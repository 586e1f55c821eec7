/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of kernels in large reductions whose bytes copy engines carry: they add up what has come, and put results where they belong.
 * Links are left to the engines, which are faster than stores, so a few blocks are enough. All blocks of one kind share each chunk;
 * the last one to be done with it tells the streams that wait for it.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_REDUCE_RELAY_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_REDUCE_RELAY_CUH

#include <reduce_direct.cuh>

struct relay_run {
    const struct kernel_relay &what;
    uint64_t bytes; /* of the vector */
    int n, me, mode;
};

DEVICE bool relay_has_come(const relay_run &r, int phase, int source, uint32_t step)
{
    return wait_word(r.what.words + kernel_relay_arrived(phase, source), r.what.first[phase][source] + step, r.what.reduce.team.abort);
}

DEVICE unsigned char *relay_slot(const relay_run &r, int phase, int source, uint32_t step)
{
    return r.what.scratch + kernel_relay_at(r.n, r.what.slot, phase, r.me, source, r.what.first[phase][source] + step);
}

/* One thread of a block that is done with a chunk, behind a barrier. Is it the last of `blocks`? */
DEVICE bool relay_last(uint32_t *done, uint32_t blocks)
{
    fence_all();
    if (!is_last_of(done, blocks))
        return false;
    fence_all();
    return true;
}

DEVICE void relay_free(const relay_run &r, int phase, int source, uint32_t step)
{
    store_word(r.what.words + kernel_relay_freed(phase, source), r.what.first[phase][source] + step);
}

/* ---- reducing this rank's part ---- */

/* Thread p waits for rank p's contribution. False: given up. */
DEVICE bool relay_gather(const relay_run &r, uint32_t step, struct direct_places *at)
{
    const struct kernel_reduce &reduce = r.what.reduce;
    const uint64_t from = step * r.what.chunk, begin = kernel_relay_begin(r.mode, r.bytes, r.n, r.me);
    bool good = true;
    EACH_RANK (p, r.n) {
        at->in[p] = p == r.me ? (const unsigned char *)reduce.in + begin + from : relay_slot(r, KERNEL_RELAY_IN, p, step);
        if (p == r.me)
            at->out[p] = (unsigned char *)reduce.out + (r.mode == KERNEL_REDUCE_SCATTER ? 0 : begin) + from;
        else
            good = good && relay_has_come(r, KERNEL_RELAY_IN, p, step);
    }
    return !barrier_or(!good);
}

DEVICE void relay_tell_reduced(const relay_run &r, uint32_t step)
{
    if (r.mode != KERNEL_REDUCE_SCATTER)
        store_word(r.what.words + kernel_relay_reduced(), r.what.first_reduced + step);
    ROLLED for (int p = 0; p < r.n; p++)
        if (p != r.me)
            relay_free(r, KERNEL_RELAY_IN, p, step);
}

template <class E> DEVICE void relay_reduce(const relay_run &r, struct direct_places *at)
{
    const arithmetic<E> a = arithmetic_of<E>(r.what.reduce);
    const direct_run<E> run = {r.what.reduce.team, *at, a, 1u << r.me};
    const uint64_t length = kernel_relay_length(r.mode, r.bytes, r.n, r.me), chunk = r.what.chunk;
    struct window *window = window_of(r.what.reduce.team, r.me);
    ROLLED for (uint32_t step = 0; step * chunk < length; step++) {
        if (!relay_gather(r, step, at))
            return;
        direct_span(run, span_part(least(chunk, length - step * chunk), blockIdx.x, r.what.reducers));
        barrier();
        if (threadIdx.x == 0 && relay_last(&window->relay_reduced[step % KERNEL_RELAY_DEPTH], r.what.reducers))
            relay_tell_reduced(r, step);
    }
}

/* ---- collecting the others' ---- */

/* False: given up. */
DEVICE bool relay_collect_from(const relay_run &r, int p, uint32_t step)
{
    const uint32_t block = blockIdx.x - r.what.reducers, blocks = gridDim.x - r.what.reducers;
    const uint64_t length = kernel_relay_length(r.mode, r.bytes, r.n, p), from = step * r.what.chunk;
    if (from >= length)
        return true;
    if (barrier_or(threadIdx.x == 0 && !relay_has_come(r, KERNEL_RELAY_OUT, p, step)))
        return false;
    const struct span s = span_part(least(r.what.chunk, length - from), block, blocks);
    unsigned char *to = (unsigned char *)r.what.reduce.out + kernel_relay_begin(r.mode, r.bytes, r.n, p) + from;
    copy_block(to + s.begin, relay_slot(r, KERNEL_RELAY_OUT, p, step) + s.begin, s.end - s.begin);
    barrier();
    if (threadIdx.x == 0 && relay_last(&window_of(r.what.reduce.team, r.me)->relay_collected[p][step % KERNEL_RELAY_DEPTH], blocks))
        relay_free(r, KERNEL_RELAY_OUT, p, step);
    return true;
}

/* Rank 0's part is the longest. */
DEVICE void relay_collect(const relay_run &r)
{
    const uint64_t longest = kernel_relay_length(r.mode, r.bytes, r.n, 0);
    ROLLED for (uint32_t step = 0; step * r.what.chunk < longest; step++)
        ROLLED for (int k = 1; k < r.n; k++)
            if (!relay_collect_from(r, (r.me + r.n - k) % r.n, step))
                return;
}

template <class E> DEVICE void reduce_relay(const struct kernel_relay &what)
{
    __shared__ struct direct_places at;
    const relay_run r = {what, what.reduce.count * E::BYTES, what.reduce.team.nranks, what.reduce.team.rank, what.reduce.mode};
    if (blockIdx.x < what.reducers)
        relay_reduce<E>(r, &at);
    else
        relay_collect(r);
}

#define RELAY_KERNELS(type, name)                                                                                             \
    KERNEL(KERNEL_DIRECT_THREADS) tutti_reduce_relay_##name(PARAMETER(struct kernel_relay) what)                              \
    {                                                                                                                         \
        reduce_relay<element<type>>(what);                                                                                    \
    }

#endif
