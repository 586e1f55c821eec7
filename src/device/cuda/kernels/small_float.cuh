/* SPDX-License-Identifier: Apache-2.0 */
/* Floats narrower than fp32, by their bits: exact widening, one rounding to nearest even. The rules are in
 * docs/device.md. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_SMALL_FLOAT_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_SMALL_FLOAT_CUH

#include <ptx.cuh>
#include <string.h>

DEVICE uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The three formats. infinity 0: there is none. too large: what a finite value beyond the largest becomes; kept: what
 * an infinity becomes. */
struct format_half {
    enum : uint32_t {
        BIAS = 15,
        MANTISSA = 10,
        SIGN = 0x8000,
        LARGEST = 0x7bff,
        INFINITE = 0x7c00,
        TOO_LARGE = 0x7c00,
        KEPT = 0x7c00,
        NAN_BITS = 0x7e00
    };
};
struct format_e4m3 {
    enum : uint32_t {
        BIAS = 7,
        MANTISSA = 3,
        SIGN = 0x80,
        LARGEST = 0x7e,
        INFINITE = 0,
        TOO_LARGE = 0x7e,
        KEPT = 0x7e,
        NAN_BITS = 0x7f
    };
};
struct format_e5m2 {
    enum : uint32_t {
        BIAS = 15,
        MANTISSA = 2,
        SIGN = 0x80,
        LARGEST = 0x7b,
        INFINITE = 0x7c,
        TOO_LARGE = 0x7b,
        KEPT = 0x7c,
        NAN_BITS = 0x7e
    };
};

/* A subnormal is made a normal fp32 by adding, then subtracting, the least normal number. */
template <class F> DEVICE float widen_small(uint32_t bits)
{
    const uint32_t magnitude = bits & (F::SIGN - 1), sign = bits & F::SIGN ? 0x80000000u : 0u;
    const uint32_t shifted = magnitude << (23 - F::MANTISSA), least_normal = (127u - F::BIAS + 1) << 23;
    uint32_t x;
    if (magnitude > F::LARGEST)
        x = magnitude == F::INFINITE ? 0x7f800000u : 0x7fc00000u;
    else if (shifted < 1u << 23)
        x = bits_of_float(float_of_bits(shifted + least_normal) - float_of_bits(least_normal));
    else
        x = shifted + ((127u - F::BIAS) << 23);
    return float_of_bits(sign | x);
}

/* Below the least normal number the addition of a power of two does the rounding. */
template <class F> DEVICE uint32_t narrow_small(float value)
{
    const uint32_t shift = 23 - F::MANTISSA, least_normal = (127u - F::BIAS + 1) << 23;
    const uint32_t magic = (127u - F::BIAS + shift + 1) << 23;
    const uint32_t x = bits_of_float(value), a = x & 0x7fffffffu, sign = x >> 31 ? (uint32_t)F::SIGN : 0u;
    uint32_t y;
    if (a >= 0x7f800000u)
        return a == 0x7f800000u ? sign | F::KEPT : (uint32_t)F::NAN_BITS;
    if (a < least_normal)
        y = bits_of_float(float_of_bits(a) + float_of_bits(magic)) - magic;
    else
        y = (a - ((127u - F::BIAS) << 23) + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1)) >> shift;
    return sign | (y > F::LARGEST ? (uint32_t)F::TOO_LARGE : y);
}

/* bfloat16 is the upper half of fp32. */
DEVICE uint32_t narrow_bfloat(float value)
{
    const uint32_t x = bits_of_float(value);
    return value != value ? 0x7fc0u : (x + 0x7fffu + ((x >> 16) & 1)) >> 16;
}

#ifndef PAIRS_CONVERT
DEVICE uint32_t half_pair(float low, float high)
{
    return half_of_float(low) | half_of_float(high) << 16;
}

DEVICE uint32_t bfloat_pair(float low, float high)
{
    return narrow_bfloat(low) | narrow_bfloat(high) << 16;
}
#endif

#ifndef PAIRS_ADD
DEVICE uint32_t half_pair_sum(uint32_t x, uint32_t y)
{
    return half_pair(float_of_half(x & 0xffff) + float_of_half(y & 0xffff),
                     float_of_half(x >> 16) + float_of_half(y >> 16));
}

DEVICE uint32_t bfloat_pair_sum(uint32_t x, uint32_t y)
{
    return bfloat_pair(float_of_bits(x << 16) + float_of_bits(y << 16),
                       float_of_bits(x & 0xffff0000u) + float_of_bits(y & 0xffff0000u));
}
#endif

#endif
