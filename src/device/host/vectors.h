/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template: the types of vectors of LANES bytes. Included once for each width with LANES and V(name) defined. A `raw`
 * is a vector of bits; each function gives it a meaning.
 */
typedef uint32_t V(raw) __attribute__((vector_size(LANES)));
typedef V(raw) V(unaligned) __attribute__((aligned(1), may_alias));
typedef int8_t V(i8) __attribute__((vector_size(LANES)));
typedef uint8_t V(u8) __attribute__((vector_size(LANES)));
typedef int16_t V(i16) __attribute__((vector_size(LANES)));
typedef int32_t V(i32) __attribute__((vector_size(LANES)));
typedef uint32_t V(u32) __attribute__((vector_size(LANES)));
typedef int64_t V(i64) __attribute__((vector_size(LANES)));
typedef uint64_t V(u64) __attribute__((vector_size(LANES)));
typedef float V(f32) __attribute__((vector_size(LANES)));
typedef double V(f64) __attribute__((vector_size(LANES)));

INLINE V(raw) V(load)(const char *p)
{
    return *(const V(unaligned) *)p;
}

INLINE void V(store)(char *p, V(raw) x)
{
    *(V(unaligned) *)p = x;
}

INLINE V(raw) V(repeat)(uint64_t operand)
{
    return (V(raw))(operand - (V(u64)){0});
}

/* The lanes of `yes` where the mask is all ones, of `no` where it is zero. */
INLINE V(raw) V(pick_bits)(V(raw) mask, V(raw) yes, V(raw) no)
{
    return (mask & yes) | (~mask & no);
}
