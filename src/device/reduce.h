/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and copies in host memory. A reduction is resolved once, at the call of a collective, into a few function
 * pointers; applying it then costs an indirect call. What the results are, bit by bit, is in docs/device.md: they do
 * not depend on the vector instructions that were used.
 */
#ifndef TUTTI_DEVICE_REDUCE_H
#define TUTTI_DEVICE_REDUCE_H

#include "device/type.h"

#include <stdint.h>
#include <string.h>

typedef void reduction_fold_fn(void *dst, const void *const *src, int nsrc, size_t bytes);
typedef void reduction_map_fn(void *dst, const void *src, size_t bytes, uint64_t operand);

/* What one reduction does. Read-only after reduction_init; any thread may use it. */
struct reduction {
    tutti_type_t type;
    tutti_op_t op;
    int nranks;
    unsigned size;    /* bytes of one element */
    uint64_t operand; /* the scalar of a pre-multiplied sum, or the divisor of an average: repeated to 64 bits */
    reduction_fold_fn *fold;
    reduction_fold_fn *fold_stream;
    reduction_map_fn *prepare; /* NULL: nothing to do */
    reduction_map_fn *finish;  /* NULL: nothing to do */
};

/*
 * Resolves type and op for nranks ranks. `scalar` (one element of `type`, or NULL) makes a sum of contributions that
 * are each multiplied by it; then op must be TUTTI_SUM. TUTTI_INVALID_ARGUMENT for a bad type, op, nranks or scalar, or
 * if TUTTI_SIMD names instructions that this processor or build lacks; *out is then untouched.
 */
tutti_result_t reduction_init(struct reduction *out, tutti_type_t type, tutti_op_t op, int nranks, const void *scalar);

/*
 * dst[i] = src[0][i] op src[1][i] op ... op src[nsrc-1][i], left to right, nsrc >= 1. dst may be one of the sources
 * exactly, but must not partly overlap one. No alignment is needed. fp16, bf16 and fp8 are accumulated in fp32 and
 * rounded once.
 */
static inline void reduction_apply(const struct reduction *r, void *dst, const void *const *src, int nsrc, size_t count)
{
    r->fold(dst, src, nsrc, count * r->size);
}

/* The same bits, written around the cache: for outputs much larger than it that nobody reads soon. */
static inline void reduction_apply_stream(const struct reduction *r, void *dst, const void *const *src, int nsrc,
                                          size_t count)
{
    r->fold_stream(dst, src, nsrc, count * r->size);
}

/* Does a contribution have to be prepared (multiplied by the scalar) before it is reduced, a result finished (divided)?
 */
static inline bool reduction_needs_prepare(const struct reduction *r)
{
    return r->prepare != NULL;
}

static inline bool reduction_needs_finish(const struct reduction *r)
{
    return r->finish != NULL;
}

/* Prepare a contribution, finish a result; a plain copy where nothing is needed. dst may be src exactly. */
void reduction_prepare(const struct reduction *r, void *dst, const void *src, size_t count);
void reduction_finish(const struct reduction *r, void *dst, const void *src, size_t count);

/* The vector instructions in force: "plain", "avx2", "avx512" or "neon". */
const char *reduction_simd(void);

/* Copies; source and destination must be the same or must not overlap. The second writes around the cache. */
static inline void memory_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

void memory_copy_stream(void *dst, const void *src, size_t bytes);

#endif
