/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels, compiled once for each set of vector instructions: KERNEL_SET and KERNEL_NAME name the set, LANES_WIDE
 * is its vector width, ISA_HEADER has what needs its own instructions: choice by mask, fp16 conversion, stores around
 * the cache.
 */
#include "device/host/formats.h"
#include "device/host/kernel.h"

#define INLINE    static inline __attribute__((always_inline))
#define UNROLL    _Pragma("GCC unroll 4")
#define NO_UNROLL _Pragma("GCC unroll 1")

#define LANES   16
#define V(name) name##_16
#define pick_16 pick_bits_16
#include "device/host/vectors.h"
#include "device/host/lanes.h"
#include "device/host/loops.h"
#undef LANES
#undef V

#define LANES   LANES_WIDE
#define V(name) name##_wide
#include "device/host/vectors.h"
#include ISA_HEADER
#include "device/host/lanes.h"
#include "device/host/loops.h"
#undef LANES
#undef V

#include "device/host/tail.h"

#define widen_f16_16  widen_half_16
#define narrow_f16_16 narrow_half_16

/* A kernel's tail: what is too short for blocks. It is the whole of a tiny reduction. */
typedef void tail_fn(char *dst, const char *const *src, int nsrc, size_t at, size_t bytes);

INLINE void fold(const struct kernel_wide w, const struct kernel_16 k, tail_fn *tail, char *dst, const char *const *src,
                 int nsrc, size_t bytes)
{
    size_t at = 0;
    if (nsrc == 1) {
        memmove(dst, src[0], bytes);
        return;
    }
    if (k.parts == 1 && bytes == 8) { /* one number: what small calls reduce most */
        fold_word(k, dst, src, nsrc, 8);
        return;
    }
    if (k.parts == 1 && bytes == 4) {
        fold_word(k, dst, src, nsrc, 4);
        return;
    }
    if (bytes >= (size_t)(4 / w.parts) * LANES_WIDE)
        at = nsrc == 2 ? fold_blocks_wide(w, dst, src, 2, 0, bytes, store_wide)
                       : fold_blocks_wide(w, dst, src, nsrc, 0, bytes, store_wide);
    if (at < bytes)
        tail(dst, src, nsrc, at, bytes);
}

static void copy_around(void *dst, const void *src, size_t bytes)
{
    char *to = dst;
    const char *from = src;
    size_t head = -(uintptr_t)to % LANES_WIDE, at = head;
    if (dst == src || bytes < head + 4 * LANES_WIDE) {
        memmove(dst, src, bytes);
        return;
    }
    memcpy(to, from, head);
    for (; at + 4 * LANES_WIDE <= bytes; at += 4 * LANES_WIDE) {
        raw_wide x[4];
        UNROLL for (int v = 0; v < 4; v++) x[v] = load_wide(from + at + v * LANES_WIDE);
        UNROLL for (int v = 0; v < 4; v++) store_around(to + at + v * LANES_WIDE, x[v]);
    }
    memcpy(to + at, from + at, bytes - at);
    store_fence();
}

/* Brings dst to a vector's boundary first; where it cannot get there in whole elements, stores as usual. */
INLINE void fold_around(const struct kernel_wide w, tail_fn *tail, reduction_fold_fn *usual, void *dst,
                        const void *const *src, int nsrc, size_t bytes, size_t size)
{
    size_t head = -(uintptr_t)dst % LANES_WIDE;
    if (nsrc == 1) {
        copy_around(dst, src[0], bytes);
        return;
    }
    if (head % size || bytes < head + 4 * LANES_WIDE) {
        usual(dst, src, nsrc, bytes);
        return;
    }
    tail(dst, (const char *const *)src, nsrc, 0, head);
    size_t at = fold_blocks_wide(w, dst, (const char *const *)src, nsrc, head, bytes, store_around);
    tail(dst, (const char *const *)src, nsrc, at, bytes);
    store_fence();
}

INLINE void map(const struct kernel_wide w, const struct kernel_16 k, void *dst, const void *src, size_t bytes,
                uint64_t operand)
{
    size_t at = map_from_wide(w, dst, src, 0, bytes, repeat_wide(operand));
    map_tail(k, dst, src, at, bytes, repeat_16(operand));
}

#define WIDE(parts, widen, combine, narrow)   ((struct kernel_wide){parts, widen##_wide, combine##_wide, narrow##_wide})
#define NARROW(parts, widen, combine, narrow) ((struct kernel_16){parts, widen##_16, combine##_16, narrow##_16})

#define FOLD(name, size, ...)                                                                                          \
    static __attribute__((noinline)) void tail_##name(char *dst, const char *const *src, int nsrc, size_t at,          \
                                                      size_t bytes)                                                    \
    {                                                                                                                  \
        fold_tail(WIDE(__VA_ARGS__), NARROW(__VA_ARGS__), dst, src, nsrc, at, bytes);                                  \
    }                                                                                                                  \
    static void fold_##name(void *dst, const void *const *src, int nsrc, size_t bytes)                                 \
    {                                                                                                                  \
        fold(WIDE(__VA_ARGS__), NARROW(__VA_ARGS__), tail_##name, dst, (const char *const *)src, nsrc, bytes);         \
    }                                                                                                                  \
    static void stream_##name(void *dst, const void *const *src, int nsrc, size_t bytes)                               \
    {                                                                                                                  \
        fold_around(WIDE(__VA_ARGS__), tail_##name, fold_##name, dst, src, nsrc, bytes, size);                         \
    }
#define MAP(name, ...)                                                                                                 \
    static void map_##name(void *dst, const void *src, size_t bytes, uint64_t operand)                                 \
    {                                                                                                                  \
        map(WIDE(__VA_ARGS__), NARROW(__VA_ARGS__), dst, src, bytes, operand);                                         \
    }

/* Integers: sums and products wrap, so they are the unsigned ones. */
#define INTEGER(bits, size)                                                                                            \
    FOLD(sum_u##bits, size, 1, widen_same, add_u##bits, narrow_same)                                                   \
    FOLD(prod_u##bits, size, 1, widen_same, mul_u##bits, narrow_same)                                                  \
    FOLD(max_u##bits, size, 1, widen_same, max_u##bits, narrow_same)                                                   \
    FOLD(min_u##bits, size, 1, widen_same, min_u##bits, narrow_same)                                                   \
    FOLD(max_i##bits, size, 1, widen_same, max_i##bits, narrow_same)                                                   \
    FOLD(min_i##bits, size, 1, widen_same, min_i##bits, narrow_same)                                                   \
    MAP(mul_u##bits, 1, widen_same, mul_u##bits, narrow_same)
INTEGER(8, 1)
INTEGER(32, 4)
INTEGER(64, 8)

/* Floats: `real` is the type computed in, `key` the integer that they are compared as. */
#define FLOAT(name, size, real, parts, widen, narrow, key)                                                             \
    FOLD(sum_##name, size, parts, widen, add_##real, narrow)                                                           \
    FOLD(prod_##name, size, parts, widen, mul_##real, narrow)                                                          \
    FOLD(max_##name, size, 1, max_key_##name, max_##key, unkey_##name)                                                 \
    FOLD(min_##name, size, 1, min_key_##name, min_##key, unkey_##name)                                                 \
    MAP(mul_##name, parts, widen, mul_##real, narrow)                                                                  \
    MAP(div_##name, parts, widen, div_##real, narrow)
FLOAT(f64, 8, f64, 1, widen_same, narrow_f64, i64)
FLOAT(f32, 4, f32, 1, widen_same, narrow_f32, i32)
FLOAT(f16, 2, f32, 2, widen_f16, narrow_f16, i16)
FLOAT(bf16, 2, f32, 2, widen_bf16, narrow_bf16, i16)
FLOAT(e4m3, 1, f32, 4, widen_e4m3, narrow_e4m3, i8)
FLOAT(e5m2, 1, f32, 4, widen_e5m2, narrow_e5m2, i8)

static float decode(tutti_type_t type, uint32_t bits)
{
    raw_16 parts[4], x = {bits};
    if (type == TUTTI_FLOAT16)
        widen_half_16(parts, x);
    else if (type == TUTTI_BFLOAT16)
        widen_bf16_16(parts, x);
    else if (type == TUTTI_FLOAT8_E4M3)
        widen_e4m3_16(parts, x);
    else
        widen_e5m2_16(parts, x);
    return ((f32_16)parts[0])[0];
}

#define SIGNED_ROW(form, bits)                                                                                         \
    {                                                                                                                  \
        form##_sum_u##bits, form##_prod_u##bits, form##_max_i##bits, form##_min_i##bits                                \
    }
#define ROW(form, name)                                                                                                \
    {                                                                                                                  \
        form##_sum_##name, form##_prod_##name, form##_max_##name, form##_min_##name                                    \
    }
#define TABLE(form)                                                                                                    \
    {                                                                                                                  \
        [TUTTI_INT8] = SIGNED_ROW(form, 8), [TUTTI_UINT8] = ROW(form, u8), [TUTTI_INT32] = SIGNED_ROW(form, 32),       \
        [TUTTI_UINT32] = ROW(form, u32), [TUTTI_INT64] = SIGNED_ROW(form, 64), [TUTTI_UINT64] = ROW(form, u64),        \
        [TUTTI_FLOAT16] = ROW(form, f16), [TUTTI_FLOAT32] = ROW(form, f32), [TUTTI_FLOAT64] = ROW(form, f64),          \
        [TUTTI_BFLOAT16] = ROW(form, bf16), [TUTTI_FLOAT8_E4M3] = ROW(form, e4m3),                                     \
        [TUTTI_FLOAT8_E5M2] = ROW(form, e5m2),                                                                         \
    }

extern const struct kernel_set KERNEL_SET;
const struct kernel_set KERNEL_SET = {
    .name = KERNEL_NAME,
    .fold = TABLE(fold),
    .fold_stream = TABLE(stream),
    .scale = {map_mul_u8, map_mul_u8, map_mul_u32, map_mul_u32, map_mul_u64, map_mul_u64, map_mul_f16, map_mul_f32,
              map_mul_f64, map_mul_bf16, map_mul_e4m3, map_mul_e5m2},
    .divide = {NULL, NULL, NULL, NULL, NULL, NULL, map_div_f16, map_div_f32, map_div_f64, map_div_bf16, map_div_e4m3,
               map_div_e5m2},
    .decode = decode,
    .copy_stream = copy_around,
};
