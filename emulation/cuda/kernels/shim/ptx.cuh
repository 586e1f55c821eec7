/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the kernels' own ptx.cuh: C++ for the CPU. Other GPUs are other threads, and atomics are what they see.
 * What a block is, one thread or several, block.cuh says.
 */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_PTX_CUH
#define TUTTI_EMULATION_CUDA_KERNELS_PTX_CUH

#include "cuda/kernels/cuda_kernels.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define __device__
#define DEVICE static inline
#define APART  static inline
#define UNROLL
#define ROLLED
#define KERNEL(threads) extern "C" void
#define PARAMETER(type) type
#ifndef BLOCK_OF
#define BLOCK_OF(threads) 1
#endif

#define LINES_WHOLE false

#define blockIdx cuda_block_index
#define gridDim  cuda_grid

#include <block.cuh>
#include <warp.cuh>

DEVICE uint32_t load_relaxed(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEVICE uint32_t load_shared(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEVICE void store_shared(uint32_t *at, uint32_t x)
{
    __atomic_store_n(at, x, __ATOMIC_RELAXED);
}

DEVICE void load_relaxed4(const uint32_t *at, uint32_t *x)
{
    for (int i = 0; i < 4; i++)
        x[i] = __atomic_load_n(at + i, __ATOMIC_ACQUIRE);
}

DEVICE void load_once(const unsigned char *at, uint64_t *x)
{
    x[0] = ((const uint64_t *)at)[0];
    x[1] = ((const uint64_t *)at)[1];
}

DEVICE void load_ahead(const unsigned char *at)
{
    (void)at;
}

DEVICE void not_before(uint32_t *x)
{
    (void)x;
}

DEVICE uint32_t load_acquire(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEVICE uint32_t load_ack(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEVICE void store_flag(uint32_t *at, uint32_t x)
{
    __atomic_store_n(at, x, __ATOMIC_RELEASE);
}

DEVICE void store_word(uint64_t *at, uint64_t x)
{
    __atomic_store_n(at, x, __ATOMIC_RELAXED);
}

DEVICE uint64_t load_word(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEVICE uint64_t clock_of_gpu()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

DEVICE void store_ack(uint32_t *at, uint32_t x)
{
    __atomic_store_n(at, x, __ATOMIC_RELEASE);
}

/* The stores of flags release by themselves. */
DEVICE void fence_all()
{
}

DEVICE void fence_total()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

DEVICE void fence_gpu()
{
}

DEVICE void wait_for_stream()
{
    cuda_kernel_has_waited = true;
}

DEVICE bool is_last_of(uint32_t *at, uint32_t n)
{
    if (__atomic_add_fetch(at, 1, __ATOMIC_ACQ_REL) != n)
        return false;
    __atomic_store_n(at, 0, __ATOMIC_RELAXED);
    return true;
}

DEVICE uint32_t count_bits(uint32_t x)
{
    return (uint32_t)__builtin_popcount(x);
}

DEVICE uint32_t first_bit(uint32_t x)
{
    return (uint32_t)__builtin_ctz(x);
}

DEVICE void add_word(uint64_t *at, uint64_t x)
{
    __atomic_fetch_add(at, x, __ATOMIC_RELAXED);
}

DEVICE void store_halves(uint64_t *at, uint64_t x, uint64_t y)
{
    __atomic_store_n(at, x, __ATOMIC_RELEASE);
    __atomic_store_n(at + 1, y, __ATOMIC_RELEASE);
}

DEVICE void load_halves(const uint64_t *at, uint64_t *x, uint64_t *y)
{
    *x = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    *y = __atomic_load_n(at + 1, __ATOMIC_ACQUIRE);
}

DEVICE void load_halves_acquire(const uint64_t *at, uint64_t *x, uint64_t *y)
{
    load_halves(at, x, y);
}

#define TURNS_TO_LOOK 4 /* no memory is farther than other memory here, and turns last long */

#define YIELDS     16
#define PAUSE_MOST 2000 /* us */

/* Threads that yield without end are not polite: Linux 6.18 let all other programs wait for up to half a minute. And
 * many that wait take the processors from the one that they wait for. After 5 ms a pause is at most an eighth of what
 * came before. */
DEVICE void pause_spin(uint32_t turn)
{
    const uint32_t more = turn < YIELDS ? 0 : turn - YIELDS + 1,
                   us = more < YIELDS * YIELDS ? more * more / 2 : PAUSE_MOST;
    if (!more)
        sched_yield();
    else
        usleep(us < PAUSE_MOST ? us : PAUSE_MOST);
}

struct format_half;
template <class F> DEVICE float widen_small(uint32_t bits);
template <class F> DEVICE uint32_t narrow_small(float value);

template <class F = format_half> DEVICE float float_of_half(uint32_t bits)
{
    return widen_small<F>(bits);
}

template <class F = format_half> DEVICE uint32_t half_of_float(float x)
{
    return narrow_small<F>(x);
}

#endif
