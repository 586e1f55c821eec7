/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template: the loops over lanes of one width. Included after lanes.h, with the same LANES and V(name). The function
 * arguments are constants at every call, so all of it is inlined into one straight loop per kernel.
 */
typedef void V(widen_fn)(V(raw) * parts, V(raw) x);
typedef V(raw) V(combine_fn)(V(raw) x, V(raw) y);
typedef V(raw) V(narrow_fn)(const V(raw) * parts);

struct V(kernel) {
    int parts; /* vectors of the computing type in one stored vector: 1, 2 or 4 */
    V(widen_fn) * widen;
    V(combine_fn) * combine;
    V(narrow_fn) * narrow;
};

/* Reduces `vectors` (parts * vectors <= 4) adjacent vectors at byte `at` of all sources into out[]. */
INLINE void V(fold_at)(const struct V(kernel) k, V(raw) * out, const char *const *src, int nsrc, size_t at, int vectors)
{
    V(raw) sum[4], next[4];
    UNROLL for (int v = 0; v < vectors; v++) k.widen(sum + v * k.parts, V(load)(src[0] + at + v * LANES));
    NO_UNROLL for (int s = 1; s < nsrc; s++)
    {
        UNROLL for (int v = 0; v < vectors; v++) k.widen(next + v * k.parts, V(load)(src[s] + at + v * LANES));
        UNROLL for (int p = 0; p < vectors * k.parts; p++) sum[p] = k.combine(sum[p], next[p]);
    }
    UNROLL for (int v = 0; v < vectors; v++) out[v] = k.narrow(sum + v * k.parts);
}

/* Reduces whole blocks (four vectors of the computing type) from byte `at` on; returns how far it came. */
INLINE size_t V(fold_blocks)(const struct V(kernel) k, char *dst, const char *const *src, int nsrc, size_t at,
                             size_t bytes, void (*put)(char *p, V(raw) x))
{
    const int vectors = 4 / k.parts;
    V(raw) out[4];
    for (; at + vectors * LANES <= bytes; at += vectors * LANES) {
        V(fold_at)(k, out, src, nsrc, at, vectors);
        UNROLL for (int v = 0; v < vectors; v++) put(dst + at + v * LANES, out[v]);
    }
    return at;
}

/* Reduces whole vectors from byte `at` on; returns how far it came. */
INLINE size_t V(fold_vectors)(const struct V(kernel) k, char *dst, const char *const *src, int nsrc, size_t at,
                              size_t bytes)
{
    V(raw) out;
    for (; at + LANES <= bytes; at += LANES) {
        V(fold_at)(k, &out, src, nsrc, at, 1);
        V(store)(dst + at, out);
    }
    return at;
}

/* dst[i] = narrow(widen(src[i]) op operand), whole vectors only; returns how far it came. */
INLINE size_t V(map_from)(const struct V(kernel) k, char *dst, const char *src, size_t at, size_t bytes, V(raw) operand)
{
    for (; at + LANES <= bytes; at += LANES) {
        V(raw) parts[4];
        k.widen(parts, V(load)(src + at));
        UNROLL for (int p = 0; p < k.parts; p++) parts[p] = k.combine(parts[p], operand);
        V(store)(dst + at, k.narrow(parts));
    }
    return at;
}
