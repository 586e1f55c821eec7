/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template: the arithmetic on vectors of LANES bytes, in the compiler's vector extension. Included once for each width,
 * after vectors.h and a definition of V(pick).
 *
 * Types narrower than fp32 are widened without moving lanes: a 32-bit word holds two or four elements, and part k of a
 * word is element k shifted into place. Minimum and maximum work on keys, integers that order as the floats do.
 */
/* x op y on lanes of one type. */
#define LANE_OP(name, type, op)                                                                                        \
    INLINE V(raw) V(name)(V(raw) x, V(raw) y)                                                                          \
    {                                                                                                                  \
        return (V(raw))((V(type))x op(V(type)) y);                                                                     \
    }
LANE_OP(add_u8, u8, +)
LANE_OP(add_u32, u32, +)
LANE_OP(add_u64, u64, +)
LANE_OP(add_f32, f32, +)
LANE_OP(add_f64, f64, +)
LANE_OP(mul_u8, u8, *)
LANE_OP(mul_u32, u32, *)
LANE_OP(mul_u64, u64, *)
LANE_OP(mul_f32, f32, *)
LANE_OP(mul_f64, f64, *)
LANE_OP(div_f32, f32, /)
LANE_OP(div_f64, f64, /)
#undef LANE_OP

/* The larger, the smaller lane of two. */
#define LANE_PICK(name, type, op)                                                                                      \
    INLINE V(raw) V(name)(V(raw) x, V(raw) y)                                                                          \
    {                                                                                                                  \
        return V(pick)((V(raw))((V(type))x op(V(type)) y), x, y);                                                      \
    }
LANE_PICK(max_i8, i8, >)
LANE_PICK(max_u8, u8, >)
LANE_PICK(max_i16, i16, >)
LANE_PICK(max_i32, i32, >)
LANE_PICK(max_u32, u32, >)
LANE_PICK(max_i64, i64, >)
LANE_PICK(max_u64, u64, >)
LANE_PICK(min_i8, i8, <)
LANE_PICK(min_u8, u8, <)
LANE_PICK(min_i16, i16, <)
LANE_PICK(min_i32, i32, <)
LANE_PICK(min_u32, u32, <)
LANE_PICK(min_i64, i64, <)
LANE_PICK(min_u64, u64, <)
#undef LANE_PICK

/* Formats: `widen` gives the lanes to compute on, `narrow` the stored form of the result. This one does nothing. */
INLINE void V(widen_same)(V(raw) * parts, V(raw) x)
{
    parts[0] = x;
}

INLINE V(raw) V(narrow_same)(const V(raw) * parts)
{
    return parts[0];
}

/* Every NaN leaves as the same one, so that neither the operands' order nor the processor shows. */
INLINE V(raw) V(canon_f32)(V(raw) x)
{
    return V(pick)((V(raw))((V(f32))x == (V(f32))x), x, 0x7fc00000 - (V(raw)){0});
}

INLINE V(raw) V(narrow_f32)(const V(raw) * parts)
{
    return V(canon_f32)(parts[0]);
}

INLINE V(raw) V(narrow_f64)(const V(raw) * parts)
{
    return V(pick)((V(raw))((V(f64))parts[0] == (V(f64))parts[0]), parts[0], V(repeat)(0x7ff8000000000000));
}

/* bf16 is the upper half of fp32; rounds to nearest even. */
INLINE void V(widen_bf16)(V(raw) * parts, V(raw) x)
{
    parts[0] = x << 16;
    parts[1] = x & 0xffff0000;
}

INLINE V(raw) V(round_bf16)(V(raw) x)
{
    V(raw) y = V(canon_f32)(x);
    return y + 0x7fff + ((y >> 16) & 1);
}

INLINE V(raw) V(narrow_bf16)(const V(raw) * parts)
{
    return (V(round_bf16)(parts[0]) >> 16) | (V(round_bf16)(parts[1]) & 0xffff0000);
}

/* One small float in the low bits of each 32-bit lane, to fp32. The subtraction normalises subnormals. */
INLINE V(raw) V(widen_small)(V(raw) x, const struct small_float f)
{
    const int mantissa = 23 - f.mantissa;
    const uint32_t magic = (uint32_t)(127 - f.bias + 1) << 23;
    V(raw) magnitude = x & f.magnitude;
    V(raw) sign = (x & (f.magnitude + 1)) << f.sign_shift;
    V(raw) bits = magnitude << mantissa;
    V(raw) normal = bits + ((uint32_t)(127 - f.bias) << 23);
    V(raw) tiny = (V(raw))((V(f32))(bits + magic) - (V(f32))(magic + (V(raw)){0}));
    V(raw) y = V(pick)((V(raw))((V(i32))bits < 1 << 23), tiny, normal);
    V(raw) special = V(pick)((V(raw))(magnitude == f.infinity), 0x7f800000 + (V(raw)){0}, 0x7fc00000 + (V(raw)){0});
    return sign | V(pick)((V(raw))((V(i32))magnitude > (int32_t)f.largest), special, y);
}

/* fp32 to a small float in the low bits, to nearest even. The addition rounds subnormals. */
INLINE V(raw) V(narrow_small)(V(raw) x, const struct small_float f)
{
    const int mantissa = 23 - f.mantissa;
    const uint32_t least = (uint32_t)(127 - f.bias + 1) << 23;
    const uint32_t magic = (uint32_t)(127 - f.bias + mantissa + 1) << 23;
    V(raw) a = x & 0x7fffffff;
    V(raw)
    normal = (a - ((uint32_t)(127 - f.bias) << 23) + ((1u << (mantissa - 1)) - 1) + ((a >> mantissa) & 1)) >> mantissa;
    V(raw) tiny = (V(raw))((V(f32))a + (V(f32))(magic + (V(raw)){0})) - magic;
    V(raw) y = V(pick)((V(raw))((V(i32))a < (int32_t)least), tiny, normal);
    y = V(pick)((V(raw))((V(i32))y > (int32_t)f.largest), f.overflow + (V(raw)){0}, y);
    V(raw) sign = (x >> f.sign_shift) & (f.magnitude + 1);
    V(raw) special = V(pick)((V(raw))(a == 0x7f800000), sign | f.kept_infinity, f.nan + (V(raw)){0});
    return V(pick)((V(raw))((V(i32))a >= 0x7f800000), special, sign | y);
}

INLINE void V(widen_half)(V(raw) * parts, V(raw) x)
{
    parts[0] = V(widen_small)(x & 0xffff, float_f16);
    parts[1] = V(widen_small)(x >> 16, float_f16);
}

INLINE V(raw) V(narrow_half)(const V(raw) * parts)
{
    return V(narrow_small)(parts[0], float_f16) | V(narrow_small)(parts[1], float_f16) << 16;
}

#define FLOAT8(name)                                                                                                   \
    INLINE void V(widen_##name)(V(raw) * parts, V(raw) x)                                                              \
    {                                                                                                                  \
        for (int k = 0; k < 4; k++)                                                                                    \
            parts[k] = V(widen_small)((x >> 8 * k) & 0xff, float_##name);                                              \
    }                                                                                                                  \
    INLINE V(raw) V(narrow_##name)(const V(raw) * parts)                                                               \
    {                                                                                                                  \
        return V(narrow_small)(parts[0], float_##name) | V(narrow_small)(parts[1], float_##name) << 8 |                \
               V(narrow_small)(parts[2], float_##name) << 16 | V(narrow_small)(parts[3], float_##name) << 24;          \
    }
FLOAT8(e4m3)
FLOAT8(e5m2)
#undef FLOAT8

/*
 * Keys. The bits of a float, with the magnitude flipped if it is negative, order as signed integers: -inf < ... < -0 <
 * +0 < ... < inf. A NaN gets the sign that makes it win: + for a maximum, - for a minimum.
 */
#define KEYS(name, type, sign, infinity, nan)                                                                          \
    INLINE V(raw) V(flip_##name)(V(raw) x)                                                                             \
    {                                                                                                                  \
        return x ^ ((V(raw))((V(type))x < 0) & V(repeat)(~(uint64_t)(sign)));                                          \
    }                                                                                                                  \
    INLINE V(raw) V(is_nan_##name)(V(raw) x)                                                                           \
    {                                                                                                                  \
        return (V(raw))((V(type))(x & V(repeat)(~(uint64_t)(sign))) > (V(type))V(repeat)(infinity));                   \
    }                                                                                                                  \
    INLINE void V(max_key_##name)(V(raw) * parts, V(raw) x)                                                            \
    {                                                                                                                  \
        parts[0] = V(flip_##name)(x & ~(V(is_nan_##name)(x) & V(repeat)(sign)));                                       \
    }                                                                                                                  \
    INLINE void V(min_key_##name)(V(raw) * parts, V(raw) x)                                                            \
    {                                                                                                                  \
        parts[0] = V(flip_##name)(x | (V(is_nan_##name)(x) & V(repeat)(sign)));                                        \
    }                                                                                                                  \
    INLINE V(raw) V(unkey_##name)(const V(raw) * parts)                                                                \
    {                                                                                                                  \
        V(raw) x = V(flip_##name)(parts[0]);                                                                           \
        return V(pick)(V(is_nan_##name)(x), V(repeat)(nan), x);                                                        \
    }
KEYS(f64, i64, 0x8000000000000000, 0x7ff0000000000000, 0x7ff8000000000000)
KEYS(f32, i32, 0x8000000080000000, 0x7f8000007f800000, 0x7fc000007fc00000)
KEYS(f16, i16, 0x8000800080008000, 0x7c007c007c007c00, 0x7e007e007e007e00)
KEYS(bf16, i16, 0x8000800080008000, 0x7f807f807f807f80, 0x7fc07fc07fc07fc0)
KEYS(e4m3, i8, 0x8080808080808080, 0x7e7e7e7e7e7e7e7e, 0x7f7f7f7f7f7f7f7f)
KEYS(e5m2, i8, 0x8080808080808080, 0x7c7c7c7c7c7c7c7c, 0x7e7e7e7e7e7e7e7e)
#undef KEYS
