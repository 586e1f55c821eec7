/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on units of 8 bytes, for each element type. An element is computed in its `wide` type: 32 bits for the
 * narrow ones. The bits that come out are those of src/device/reduce.h.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_ELEMENT_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_ELEMENT_CUH

#include "device/cuda/kernels/kernels.h"

#include <ptx.cuh>
#include <small_float.cuh>

/* T in W: sums and products wrap, so W is unsigned, and comparing casts back. */
template <class T, class W> struct integer_element {
    typedef W wide;
    enum { BYTES = sizeof(T), PAIRED = false, REAL = false };
    static __device__ W widen(uint64_t bits)
    {
        return (W)(T)bits;
    }
    static __device__ uint64_t narrow(W x)
    {
        return (uint64_t)x & (~(uint64_t)0 >> (64 - 8 * sizeof(T)));
    }
    static __device__ W sum(W x, W y)
    {
        return x + y;
    }
    static __device__ W product(W x, W y)
    {
        return x * y;
    }
    static __device__ W larger(W x, W y)
    {
        return (T)x < (T)y ? y : x;
    }
    static __device__ W smaller(W x, W y)
    {
        return (T)y < (T)x ? y : x;
    }
    static __device__ W quotient(W x, int n)
    {
        return (W)(T)((T)x / (T)n);
    }
};

/* IEEE 754-2019 maximum and minimum: a NaN wins, and -0 < +0. Floats order as their bits do, magnitude flipped below
 * zero. */
DEVICE int32_t order_key(float x)
{
    const int32_t bits = (int32_t)bits_of_float(x);
    return bits ^ (bits < 0 ? 0x7fffffff : 0);
}

DEVICE uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE double double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DEVICE int64_t order_key(double x)
{
    const int64_t bits = (int64_t)bits_of_double(x);
    return bits ^ (bits < 0 ? 0x7fffffffffffffff : 0);
}

/* Two results at once, the first in the low bits, where processors convert so. */
DEVICE uint32_t pair_of(uint32_t pair, float low, float high, uint32_t nan)
{
    pair = low != low ? (pair & 0xffff0000u) | nan : pair;
    return high != high ? (pair & 0xffffu) | nan << 16 : pair;
}

template <class W> struct real_arithmetic {
    typedef W wide;
    enum { PAIRED = false, REAL = true };
    static __device__ W sum(W x, W y)
    {
        return x + y;
    }
    static __device__ W product(W x, W y)
    {
        return x * y;
    }
    static __device__ W larger(W x, W y)
    {
        return x != x || (y == y && order_key(x) > order_key(y)) ? x : y;
    }
    static __device__ W smaller(W x, W y)
    {
        return x != x || (y == y && order_key(x) < order_key(y)) ? x : y;
    }
    static __device__ W quotient(W x, int n)
    {
        return x / (W)n;
    }
};

template <int TYPE> struct element;
template <> struct element<TUTTI_INT8> : integer_element<int8_t, uint32_t> {
};
template <> struct element<TUTTI_UINT8> : integer_element<uint8_t, uint32_t> {
};
template <> struct element<TUTTI_INT32> : integer_element<int32_t, uint32_t> {
};
template <> struct element<TUTTI_UINT32> : integer_element<uint32_t, uint32_t> {
};
template <> struct element<TUTTI_INT64> : integer_element<int64_t, uint64_t> {
};
template <> struct element<TUTTI_UINT64> : integer_element<uint64_t, uint64_t> {
};

template <> struct element<TUTTI_FLOAT32> : real_arithmetic<float> {
    enum { BYTES = 4 };
    static __device__ float widen(uint64_t bits)
    {
        return float_of_bits((uint32_t)bits);
    }
    static __device__ uint64_t narrow(float x)
    {
        return x != x ? 0x7fc00000u : bits_of_float(x);
    }
};

template <> struct element<TUTTI_FLOAT64> : real_arithmetic<double> {
    enum { BYTES = 8 };
    static __device__ double widen(uint64_t bits)
    {
        return double_of_bits(bits);
    }
    static __device__ uint64_t narrow(double x)
    {
        return x != x ? 0x7ff8000000000000u : bits_of_double(x);
    }
};

template <> struct element<TUTTI_FLOAT16> : real_arithmetic<float> {
    enum { BYTES = 2, PAIRED = true };
    enum : uint32_t { INFINITE = 0x7c00, NOT_A_NUMBER = 0x7e00 };
    static __device__ uint32_t narrow_pair(float low, float high)
    {
        return pair_of(half_pair(low, high), low, high, NOT_A_NUMBER);
    }
    static __device__ uint32_t pair_sum(uint32_t x, uint32_t y)
    {
        return half_pair_sum(x, y);
    }
    static __device__ float widen(uint64_t bits)
    {
        return float_of_half((uint32_t)bits & 0xffff);
    }
    static __device__ uint64_t narrow(float x)
    {
        return x != x ? NOT_A_NUMBER : half_of_float(x);
    }
};

template <> struct element<TUTTI_BFLOAT16> : real_arithmetic<float> {
    enum { BYTES = 2, PAIRED = true };
    enum : uint32_t { INFINITE = 0x7f80, NOT_A_NUMBER = 0x7fc0 };
    static __device__ uint32_t narrow_pair(float low, float high)
    {
        return pair_of(bfloat_pair(low, high), low, high, NOT_A_NUMBER);
    }
    static __device__ uint32_t pair_sum(uint32_t x, uint32_t y)
    {
        return bfloat_pair_sum(x, y);
    }
    static __device__ float widen(uint64_t bits)
    {
        return float_of_bits((uint32_t)bits << 16);
    }
    static __device__ uint64_t narrow(float x)
    {
        return narrow_bfloat(x);
    }
};

template <class F> struct small_element : real_arithmetic<float> {
    enum { BYTES = 1 };
    static __device__ float widen(uint64_t bits)
    {
        return widen_small<F>((uint32_t)bits & 0xff);
    }
    static __device__ uint64_t narrow(float x)
    {
        return narrow_small<F>(x);
    }
};
template <> struct element<TUTTI_FLOAT8_E4M3> : small_element<format_e4m3> {
};
template <> struct element<TUTTI_FLOAT8_E5M2> : small_element<format_e5m2> {
};

/* UNITS units, widened. */
template <class E, int UNITS> struct parts {
    enum { EACH = 8 / E::BYTES, COUNT = UNITS * EACH };
    typename E::wide of[COUNT];
};

#define EACH_PART(statement) UNROLL for (int i = 0; i < parts<E, UNITS>::COUNT; i++) statement

/* Element i of some units, in the low bits. */
template <class E> DEVICE uint64_t part_bits(const uint64_t *unit, int i)
{
    return unit[i / parts<E, 1>::EACH] >> (8 * E::BYTES * (i % parts<E, 1>::EACH));
}

template <class E, int UNITS> DEVICE void parts_widen(parts<E, UNITS> &x, const uint64_t *unit)
{
    EACH_PART(x.of[i] = E::widen(part_bits<E>(unit, i));)
}

template <class E, int UNITS> DEVICE void parts_narrow(uint64_t *unit, const parts<E, UNITS> &x)
{
    UNROLL for (int u = 0; u < UNITS; u++)
    {
        uint64_t bits = 0;
        UNROLL for (int i = 0; i < parts<E, UNITS>::EACH; i++) bits |= E::narrow(x.of[u * parts<E, UNITS>::EACH + i])
                                                                       << (8 * E::BYTES * i);
        unit[u] = bits;
    }
}

/* The same, where instructions are dearer than registers. */
template <class E, int UNITS> DEVICE void parts_narrow_by_pairs(uint64_t *unit, const parts<E, UNITS> &x)
{
    if constexpr (E::PAIRED) {
        UNROLL for (int u = 0; u < UNITS; u++) unit[u] = (uint64_t)E::narrow_pair(x.of[4 * u + 2], x.of[4 * u + 3])
                                                             << 32 |
                                                         E::narrow_pair(x.of[4 * u], x.of[4 * u + 1]);
    } else {
        parts_narrow(unit, x);
    }
}

/* x = x op unit. All threads of all blocks take the same branch. */
#define ABSORB(operation) EACH_PART(x.of[i] = E::operation(x.of[i], E::widen(part_bits<E>(unit, i)));)

template <class E, int UNITS> DEVICE void parts_absorb(parts<E, UNITS> &x, const uint64_t *unit, int op)
{
    if (op == TUTTI_SUM)
        ABSORB(sum)
    else if (op == TUTTI_PROD)
        ABSORB(product)
    else if (op == TUTTI_MAX)
        ABSORB(larger)
    else
        ABSORB(smaller)
}

/* Bit 15 of each half: it is a NaN. */
template <class E> DEVICE uint32_t pair_nans(uint32_t pair)
{
    return ((pair & 0x7fff7fffu) + (0x7fffu - E::INFINITE) * 0x10001u) & 0x80008000u;
}

template <class E> DEVICE uint32_t pair_canonical(uint32_t pair)
{
    const uint32_t nans = pair_nans<E>(pair);
    pair = nans & 0x8000u ? (pair & 0xffff0000u) | E::NOT_A_NUMBER : pair;
    return nans >> 16 ? (pair & 0xffffu) | E::NOT_A_NUMBER << 16 : pair;
}

/* A sum of two halves that is rounded once has the bits of their sum in 32 bits, rounded again, as that has more than
 * twice as many. */
template <class E, int UNITS> DEVICE void units_sum(uint64_t *x, const uint64_t *unit)
{
    uint32_t sum[2 * UNITS], nans = 0;
    UNROLL for (int i = 0; i < 2 * UNITS; i++)
    {
        sum[i] = E::pair_sum((uint32_t)(x[i / 2] >> (i % 2 * 32)), (uint32_t)(unit[i / 2] >> (i % 2 * 32)));
        nans |= pair_nans<E>(sum[i]);
    }
    if (nans)
        UNROLL for (int i = 0; i < 2 * UNITS; i++) sum[i] = pair_canonical<E>(sum[i]);
    UNROLL for (int u = 0; u < UNITS; u++) x[u] = (uint64_t)sum[2 * u + 1] << 32 | sum[2 * u];
}

/* x = x op unit, where partial results are passed on: rounded to elements each time. */
template <class E, int UNITS> DEVICE void units_absorb(uint64_t *x, const uint64_t *unit, int op)
{
    parts<E, UNITS> sum;
    if constexpr (E::PAIRED)
        if (op == TUTTI_SUM) {
            units_sum<E, UNITS>(x, unit);
            return;
        }
    parts_widen(sum, x);
    parts_absorb(sum, unit, op);
    parts_narrow(x, sum);
}

/* What a reduction does to each element. */
template <class E> struct arithmetic {
    int nranks, op;
    bool average, scaled;
    typename E::wide scalar;
};

template <class E> DEVICE uint64_t scalar_bits(const struct kernel_reduce &what)
{
    uint64_t bits = what.scalar;
    if (what.premul && what.scalar_at) {
        bits = 0;
        UNROLL for (int i = 0; i < E::BYTES; i++) bits |= (uint64_t)((const unsigned char *)what.scalar_at)[i]
                                                          << (8 * i);
    }
    return bits;
}

template <class E> DEVICE arithmetic<E> arithmetic_of(const struct kernel_reduce &what)
{
    arithmetic<E> a;
    a.nranks = what.team.nranks;
    a.average = what.op == TUTTI_AVG && a.nranks > 1;
    a.op = what.op == TUTTI_AVG ? TUTTI_SUM : what.op;
    a.scaled = what.premul != 0;
    a.scalar = E::widen(scalar_bits<E>(what));
    return a;
}

/*
 * Replaces each element x of some units by change(x). Single bytes go one by one: all at once, for operators that are
 * seldom asked for, they would be a third of the code of all kernels.
 */
template <class E, int UNITS, class F> DEVICE void change_each(uint64_t *unit, const F &change)
{
    if constexpr (E::BYTES > 1) {
        parts<E, UNITS> x;
        parts_widen(x, unit);
        EACH_PART(x.of[i] = change(x.of[i]);)
        parts_narrow(unit, x);
    } else {
        UNROLL for (int u = 0; u < UNITS; u++) ROLLED for (int i = 0; i < 8; i++) unit[u] =
            unit[u] >> 8 | E::narrow(change(E::widen(unit[u]))) << 56;
    }
}

/* A contribution before it is reduced, and a sum after. */
template <class E, int UNITS> DEVICE void prepare(const arithmetic<E> &a, uint64_t *unit)
{
    if (a.scaled)
        change_each<E, UNITS>(unit, [&](typename E::wide x) { return E::product(x, a.scalar); });
}

template <class E, int UNITS> DEVICE void finish(const arithmetic<E> &a, uint64_t *unit)
{
    if (a.average)
        change_each<E, UNITS>(unit, [&](typename E::wide x) { return E::quotient(x, a.nranks); });
}

#endif
