/* SPDX-License-Identifier: Apache-2.0 */
/* What is left after the whole vectors: 16-byte vectors, then fewer than 16 bytes, loaded and stored in pieces. */

INLINE uint64_t load_word(const char *p, size_t bytes)
{
    uint64_t x = 0;
    memcpy(&x, p, bytes);
    return x;
}

/* 0 < bytes < 8, as two overlapping pieces or up to three bytes. */
INLINE uint64_t load_piece(const char *p, size_t bytes)
{
    if (bytes >= 4)
        return load_word(p, 4) | load_word(p + bytes - 4, 4) << 8 * (bytes - 4);
    return load_word(p, 1) | load_word(p + bytes / 2, 1) << 8 * (bytes / 2) |
           load_word(p + bytes - 1, 1) << 8 * (bytes - 1);
}

INLINE void store_piece(char *p, uint64_t x, size_t bytes)
{
    uint64_t end = x >> 8 * (bytes & 4 ? bytes - 4 : 0);
    if (bytes >= 4) {
        memcpy(p, &x, 4);
        memcpy(p + bytes - 4, &end, 4);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)(x >> 8 * i);
}

/* 0 < bytes < 16; lanes past the end are zero. */
INLINE raw_16 load_partial(const char *p, size_t bytes)
{
    if (bytes < 8)
        return (raw_16)(u64_16){load_piece(p, bytes), 0};
    if (bytes == 8)
        return (raw_16)(u64_16){load_word(p, 8), 0};
    return (raw_16)(u64_16){load_word(p, 8), load_word(p + bytes - 8, 8) >> 8 * (16 - bytes)};
}

INLINE void store_partial(char *p, raw_16 x, size_t bytes)
{
    u64_16 words = (u64_16)x;
    if (bytes < 8) {
        store_piece(p, words[0], bytes);
        return;
    }
    memcpy(p, &words, 8);
    if (bytes > 8)
        store_piece(p + 8, words[1], bytes - 8);
}

/* 4 or 8 bytes of a type that is computed as it is stored. */
INLINE void fold_word(const struct kernel_16 k, char *dst, const char *const *src, int nsrc, size_t bytes)
{
    raw_16 sum[4], next[4];
    k.widen(sum, (raw_16)(u64_16){load_word(src[0], bytes), 0});
    NO_UNROLL for (int s = 1; s < nsrc; s++)
    {
        k.widen(next, (raw_16)(u64_16){load_word(src[s], bytes), 0});
        sum[0] = k.combine(sum[0], next[0]);
    }
    uint64_t word = ((u64_16)k.narrow(sum))[0];
    memcpy(dst, &word, bytes);
}

INLINE void fold_tail(const struct kernel_wide w, const struct kernel_16 k, char *dst, const char *const *src, int nsrc,
                      size_t at, size_t bytes)
{
    raw_16 sum[4], next[4];
    at = fold_vectors_wide(w, dst, src, nsrc, at, bytes);
    at = fold_vectors_16(k, dst, src, nsrc, at, bytes);
    if (at == bytes)
        return;
    k.widen(sum, load_partial(src[0] + at, bytes - at));
    NO_UNROLL for (int s = 1; s < nsrc; s++)
    {
        k.widen(next, load_partial(src[s] + at, bytes - at));
        UNROLL for (int p = 0; p < k.parts; p++) sum[p] = k.combine(sum[p], next[p]);
    }
    store_partial(dst + at, k.narrow(sum), bytes - at);
}

INLINE void map_tail(const struct kernel_16 k, char *dst, const char *src, size_t at, size_t bytes, raw_16 operand)
{
    raw_16 parts[4];
    at = map_from_16(k, dst, src, at, bytes, operand);
    if (at == bytes)
        return;
    k.widen(parts, load_partial(src + at, bytes - at));
    UNROLL for (int p = 0; p < k.parts; p++) parts[p] = k.combine(parts[p], operand);
    store_partial(dst + at, k.narrow(parts), bytes - at);
}
