/* SPDX-License-Identifier: Apache-2.0 */
/* Users' memory, of any alignment and length, in units of 8 bytes and vectors of 16. What lies behind the end is not
 * touched. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_MEMORY_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_MEMORY_CUH

#include <ptx.cuh>

#define VECTOR_BYTES 16

struct alignas(VECTOR_BYTES) vector {
    uint64_t unit[2];
};

DEVICE bool aligned(const void *at, uint32_t to)
{
    return ((uintptr_t)at & (to - 1)) == 0;
}

/* The first `left` bytes, or 8, at `at`; zeros where there are fewer. */
DEVICE uint64_t load_unit(const unsigned char *at, uint64_t left)
{
    uint64_t x = 0;
    if (left >= 8 && aligned(at, 8))
        return *(const uint64_t *)at;
    if (left >= 8 && aligned(at, 4))
        return *(const uint32_t *)at | (uint64_t) * (const uint32_t *)(at + 4) << 32;
    UNROLL for (int i = 0; i < 8; i++) if ((uint64_t)i < left) x |= (uint64_t)at[i] << (8 * i);
    return x;
}

DEVICE void store_unit(unsigned char *at, uint64_t x, uint64_t left)
{
    if (left >= 8 && aligned(at, 8)) {
        *(uint64_t *)at = x;
        return;
    }
    if (left >= 8 && aligned(at, 4)) {
        *(uint32_t *)at = (uint32_t)x;
        *(uint32_t *)(at + 4) = (uint32_t)(x >> 32);
        return;
    }
    UNROLL for (int i = 0; i < 8; i++) if ((uint64_t)i < left) at[i] = (unsigned char)(x >> (8 * i));
}

DEVICE void load_vector(struct vector *x, const unsigned char *at, uint64_t left)
{
    if (left >= VECTOR_BYTES && aligned(at, VECTOR_BYTES)) {
        *x = *(const struct vector *)at;
        return;
    }
    x->unit[0] = load_unit(at, left);
    x->unit[1] = left > 8 ? load_unit(at + 8, left - 8) : 0;
}

DEVICE void store_vector(unsigned char *at, const struct vector &x, uint64_t left)
{
    if (left >= VECTOR_BYTES && aligned(at, VECTOR_BYTES)) {
        *(struct vector *)at = x;
        return;
    }
    store_unit(at, x.unit[0], left);
    if (left > 8)
        store_unit(at + 8, x.unit[1], left - 8);
}

/* Vectors of `bytes` bytes that may be taken without a look at each. */
DEVICE uint64_t whole_vectors(uint64_t bytes, bool all_aligned)
{
    return all_aligned ? bytes / VECTOR_BYTES : 0;
}

/* Threads that work together: a block, or half of one. */
struct thread_group {
    uint32_t thread, threads;
};

DEVICE struct thread_group whole_block()
{
    const struct thread_group c = {threadIdx.x, blockDim.x};
    return c;
}

/* Vectors i, i + stride and so on of an aligned array; zeros instead of those behind `end`. */
template <int U>
DEVICE void load_vectors(struct vector *x, const unsigned char *at, uint64_t i, uint64_t end, uint32_t stride)
{
    const struct vector nothing = {{0, 0}};
    UNROLL for (int u = 0; u < U; u++) x[u] =
        i + u * stride < end ? ((const struct vector *)at)[i + u * stride] : nothing;
}

template <int U>
DEVICE void store_vectors(unsigned char *at, const struct vector *x, uint64_t i, uint64_t end, uint32_t stride)
{
    UNROLL for (int u = 0; u < U; u++) if (i + u * stride < end)((struct vector *)at)[i + u * stride] = x[u];
}

template <int U> DEVICE void load_vectors(struct vector *x, const unsigned char *at, uint64_t i, uint64_t end)
{
    load_vectors<U>(x, at, i, end, blockDim.x);
}

template <int U> DEVICE void store_vectors(unsigned char *at, const struct vector *x, uint64_t i, uint64_t end)
{
    store_vectors<U>(at, x, i, end, blockDim.x);
}

/* U vectors of each thread of a warp, which stand side by side: one address is enough. */
template <int U> DEVICE void load_tile(struct vector *x, const unsigned char *at)
{
    UNROLL for (int u = 0; u < U; u++) x[u] = ((const struct vector *)at)[u * WARP];
}

template <int U> DEVICE void store_tile(unsigned char *at, const struct vector *x)
{
    UNROLL for (int u = 0; u < U; u++)((struct vector *)at)[u * WARP] = x[u];
}

/* Copies vectors `first` and on one by one: those that are not whole or not aligned. */
DEVICE void copy_singly(unsigned char *to, const unsigned char *from, uint64_t first, uint64_t bytes,
                        const struct thread_group &c)
{
    ROLLED for (uint64_t i = first + c.thread; i * VECTOR_BYTES < bytes; i += c.threads)
    {
        struct vector x;
        load_vector(&x, from + i * VECTOR_BYTES, bytes - i * VECTOR_BYTES);
        store_vector(to + i * VECTOR_BYTES, x, bytes - i * VECTOR_BYTES);
    }
}

/* Copies: U vectors of a thread at a time while they are whole and aligned, then one by one. */
template <int U>
DEVICE void copy_by(unsigned char *to, const unsigned char *from, uint64_t bytes, const struct thread_group &c)
{
    const uint64_t whole = whole_vectors(bytes, aligned(to, VECTOR_BYTES) && aligned(from, VECTOR_BYTES));
    ROLLED for (uint64_t i = c.thread; i < whole; i += U * c.threads)
    {
        struct vector x[U];
        load_vectors<U>(x, from, i, whole, c.threads);
        store_vectors<U>(to, x, i, whole, c.threads);
    }
    copy_singly(to, from, whole, bytes, c);
}

#endif
