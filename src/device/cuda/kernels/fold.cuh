/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies what the host orders, and reduces what came from other hosts to pinned memory. Each element is read once where
 * it lies, this rank's own in the GPU's memory, and stored where it is wanted.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_FOLD_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_FOLD_CUH

#include <courier.cuh>
#include <element.cuh>

#define FOLD_AT_ONCE 4 /* ranks whose memory a thread reads at a time */

template <class E> struct folding {
    unsigned char *to;
    const unsigned char *from, *own;
    uint64_t bytes;
    int nranks, rank;
    arithmetic<E> a;
};

template <class E> DEVICE const unsigned char *fold_source(const folding<E> &f, int p)
{
    return p == f.rank ? f.own : f.from + (uint64_t)p * f.bytes;
}

template <class E> DEVICE bool fold_aligned(const folding<E> &f)
{
    return aligned(f.to, VECTOR_BYTES) && aligned(f.own, VECTOR_BYTES) &&
           (f.nranks == 1 || (aligned(f.from, VECTOR_BYTES) && f.bytes % VECTOR_BYTES == 0));
}

/* U vectors of each thread, i, i + blockDim.x and so on. WHOLE: those before `end` are whole and aligned; otherwise
 * there is one, and `end` is in bytes. */
template <class E, bool WHOLE, int U>
DEVICE void fold_load(const folding<E> &f, struct vector (*x)[U], int first, uint64_t i, uint64_t end)
{
    UNROLL for (int k = 0; k < FOLD_AT_ONCE; k++)
    {
        if (first + k >= f.nranks)
            continue;
        if (WHOLE)
            load_vectors<U>(x[k], fold_source(f, first + k), i, end);
        else
            load_vector(x[k], fold_source(f, first + k) + i * VECTOR_BYTES, end - i * VECTOR_BYTES);
    }
}

/* Vectors of ranks first + from and on, of the ones at hand. */
template <class E, int U>
DEVICE void fold_absorb(const folding<E> &f, parts<E, 2> *sum, struct vector (*x)[U], int first, int from)
{
    UNROLL for (int k = from; k < FOLD_AT_ONCE; k++)
    {
        if (first + k >= f.nranks)
            continue;
        UNROLL for (int u = 0; u < U; u++) parts_absorb(sum[u], x[k][u].unit, f.a.op);
    }
}

template <class E, bool WHOLE, int U> DEVICE void fold_vectors(const folding<E> &f, uint64_t i, uint64_t end)
{
    struct vector x[FOLD_AT_ONCE][U];
    parts<E, 2> sum[U];
    fold_load<E, WHOLE, U>(f, x, 0, i, end);
    UNROLL for (int u = 0; u < U; u++)
    {
        prepare<E, 2>(f.a, x[0][u].unit);
        parts_widen(sum[u], x[0][u].unit);
    }
    fold_absorb<E, U>(f, sum, x, 0, 1);
    ROLLED for (int first = FOLD_AT_ONCE; first < f.nranks; first += FOLD_AT_ONCE)
    {
        fold_load<E, WHOLE, U>(f, x, first, i, end);
        fold_absorb<E, U>(f, sum, x, first, 0);
    }
    UNROLL for (int u = 0; u < U; u++)
    {
        if (f.nranks > 1) /* one block keeps its bits */
            parts_narrow(x[0][u].unit, sum[u]);
        finish<E, 2>(f.a, x[0][u].unit);
    }
    if (WHOLE)
        store_vectors<U>(f.to, x[0], i, end);
    else
        store_vector(f.to + i * VECTOR_BYTES, x[0][0], end - i * VECTOR_BYTES);
}

template <class E> DEVICE void fold_carry_out(const struct courier_turn &turn, int op, int divisor)
{
    enum { U = E::BYTES == 1 ? 1 : 2 };
    folding<E> f;
    f.to = (unsigned char *)(uintptr_t)turn.to;
    f.from = (const unsigned char *)(uintptr_t)turn.from;
    f.own = (const unsigned char *)(uintptr_t)turn.own;
    f.bytes = turn.bytes;
    f.nranks = turn.fold & 0xffff;
    f.rank = turn.fold >> 16 & 0x7fff;
    f.a.nranks = divisor ? divisor : f.nranks;
    f.a.average = op == TUTTI_AVG && f.nranks > 1;
    f.a.op = op == TUTTI_AVG ? TUTTI_SUM : op;
    f.a.scaled = (turn.fold & KERNEL_FOLD_SCALES) != 0;
    f.a.scalar = E::widen(turn.from);
    const uint64_t whole = whole_vectors(f.bytes, fold_aligned(f));
    ROLLED for (uint64_t i = threadIdx.x; i < whole; i += U * blockDim.x) fold_vectors<E, true, U>(f, i, whole);
    ROLLED for (uint64_t i = whole + threadIdx.x; i * VECTOR_BYTES < f.bytes; i += blockDim.x)
        fold_vectors<E, false, 1>(f, i, f.bytes);
}

#define FOLD_KERNELS(type, name)                                                                                       \
    KERNEL(KERNEL_COURIER_THREADS) tutti_reduce_folded_##name(PARAMETER(struct kernel_courier) what)                   \
    {                                                                                                                  \
        courier_work(what, [&](const struct courier_turn &turn) {                                                      \
            fold_carry_out<element<type>>(turn, what.op, what.divisor);                                                \
        });                                                                                                            \
    }

#endif
