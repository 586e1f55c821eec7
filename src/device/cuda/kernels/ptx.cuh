/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that is not plain C++: loads and stores that other GPUs see, barriers, conversions. The CPU build has a
 * file of the same name in its place. The orders are those of the PTX memory model, at system scope.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_PTX_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_PTX_CUH

#include <stdint.h>

#define DEVICE            static __device__ __forceinline__
#define APART             static __device__ __noinline__ /* seldom needed: not in the way of what is */
#define ALONE             false /* a block is one thread, which does all that several would do beside one another */
#define UNROLL            _Pragma("unroll")
#define ROLLED            _Pragma("unroll 1")
#define WARP              32u /* threads that go in step */
#define KERNEL(threads)   extern "C" __global__ void __launch_bounds__(threads, 1)
#define PARAMETER(type)   const __grid_constant__ type
#define BLOCK_OF(threads) (threads) /* threads that a kernel has which is launched with these */
#define LINES_WHOLE       true      /* 128 bytes that a warp stores at once are seen all or none */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define WAIT_FOR_STREAM "griddepcontrol.wait;"
#else
#define WAIT_FOR_STREAM ""
#endif

DEVICE uint32_t load_relaxed(const uint32_t *at)
{
    uint32_t x;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
    return x;
}

DEVICE void load_relaxed4(const uint32_t *at, uint32_t *x)
{
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "l"(at)
                 : "memory");
}

/* Two words that nobody here will want again. */
DEVICE void load_once(const unsigned char *at, uint64_t *x)
{
    asm volatile("ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];" : "=l"(x[0]), "=l"(x[1]) : "l"(at) : "memory");
}

/* Begins to load what will be loaded again, from the nearest cache then. */
DEVICE void load_ahead(const unsigned char *at)
{
    asm volatile("prefetch.global.L1 [%0];" : : "l"(at) : "memory");
}

/* Nothing is computed from x before this, where the compiler would otherwise wait for the load that brings it. */
DEVICE void not_before(uint32_t *x)
{
    asm volatile("" : "+r"(*x) : : "memory");
}

DEVICE uint32_t load_acquire(const uint32_t *at)
{
    uint32_t x;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
    return x;
}

/* A flag behind data: fence_all() has come before. */
DEVICE void store_flag(uint32_t *at, uint32_t x)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(at), "r"(x) : "memory");
}

/* Gives back room that has been read: what was read is in registers, so there is nothing to wait for. */
DEVICE void store_ack(uint32_t *at, uint32_t x)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(at), "r"(x) : "memory");
}

DEVICE uint32_t load_ack(const uint32_t *at)
{
    return load_relaxed(at);
}

/* Words that others see at some time, and that order nothing. */
DEVICE void store_word(uint64_t *at, uint64_t x)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(at), "l"(x) : "memory");
}

DEVICE uint64_t load_word(const uint64_t *at)
{
    uint64_t x;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(at) : "memory");
    return x;
}

/* The GPU's clock, in ns: the same for all its processors. */
DEVICE uint64_t clock_of_gpu()
{
    uint64_t x;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(x));
    return x;
}

DEVICE void fence_all()
{
    asm volatile("fence.acq_rel.sys;" : : : "memory");
}

/* Also loads behind it come behind stores in front of it. */
DEVICE void fence_total()
{
    asm volatile("fence.sc.sys;" : : : "memory");
}

/* A fence for threads of this GPU. */
DEVICE void fence_gpu()
{
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

/* Counts the threads of this GPU that come, from 0 and again from 0 after n. The last one hears so, and sees what the
 * others had done. */
DEVICE bool is_last_of(uint32_t *at, uint32_t n)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(n - 1) : "memory");
    return before == n - 1;
}

/* A launch may come to its GPU before the work in front of it in its stream is over. Here it waits for that work, and
 * sees what was stored. */
DEVICE void wait_for_stream()
{
    asm volatile(WAIT_FOR_STREAM : : : "memory");
}

/* Both halves of a packet are single accesses of 8 bytes: a word and its flag arrive together. */
DEVICE void store_halves(uint64_t *at, uint64_t x, uint64_t y)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" : : "l"(at), "l"(x), "l"(y) : "memory");
}

DEVICE void load_halves(const uint64_t *at, uint64_t *x, uint64_t *y)
{
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*x), "=l"(*y) : "l"(at) : "memory");
}

DEVICE void load_halves_acquire(const uint64_t *at, uint64_t *x, uint64_t *y)
{
    asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*x), "=l"(*y) : "l"(at) : "memory");
}

DEVICE void barrier()
{
    __syncthreads();
}

/* The same answer in every thread: did any of them say yes? */
DEVICE bool barrier_or(bool yes)
{
    return __syncthreads_or(yes) != 0;
}

/* Among the threads of one half of a block (0 or 1), wherever the other half is. Its barriers are the last two. */
DEVICE bool half_barrier_or(uint32_t half, bool yes)
{
    const uint32_t threads = blockDim.x / 2;
    uint32_t any;
    if (half)
        asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.or.pred q, 15, %2, p; selp.u32 %0, 1, 0, q;}"
                     : "=r"(any)
                     : "r"((uint32_t)yes), "r"(threads)
                     : "memory");
    else
        asm volatile("{.reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.or.pred q, 14, %2, p; selp.u32 %0, 1, 0, q;}"
                     : "=r"(any)
                     : "r"((uint32_t)yes), "r"(threads)
                     : "memory");
    return any != 0;
}

/* A word that threads of one block read while another may write it. */
DEVICE uint32_t load_shared(const uint32_t *at)
{
    return *(const volatile uint32_t *)at;
}

DEVICE void store_shared(uint32_t *at, uint32_t x)
{
    *(volatile uint32_t *)at = x;
}

/* Barrier `id` (1 to 13) among `threads` threads of a block, whole warps: wait for all of them, or only come to it. */
DEVICE void named_sync(uint32_t id, uint32_t threads)
{
    __syncwarp();
    asm volatile("barrier.sync.aligned %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

DEVICE void named_arrive(uint32_t id, uint32_t threads)
{
    __syncwarp();
    asm volatile("barrier.arrive.aligned %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

/* From here on in step. */
DEVICE void warp_sync()
{
    __syncwarp();
}

DEVICE bool warp_any(bool yes)
{
    return __any_sync(~0u, yes) != 0;
}

/* Bit i: what thread i of the warp says. */
DEVICE uint32_t warp_votes(bool yes)
{
    return __ballot_sync(~0u, yes);
}

/* What the thread `by` places before has; of the first ones, their own. */
DEVICE uint64_t warp_up(uint64_t x, uint32_t by)
{
    return __shfl_up_sync(~0u, (unsigned long long)x, by);
}

/* What thread `of` has. */
DEVICE uint64_t warp_of(uint64_t x, uint32_t of)
{
    return __shfl_sync(~0u, (unsigned long long)x, (int)of);
}

DEVICE uint32_t count_bits(uint32_t x)
{
    return (uint32_t)__popc(x);
}

/* The lowest one; there is one. */
DEVICE uint32_t first_bit(uint32_t x)
{
    return (uint32_t)__ffs((int)x) - 1;
}

/* Threads of this GPU add; nobody else writes there. */
DEVICE void add_word(uint64_t *at, uint64_t x)
{
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" : : "l"(at), "l"(x) : "memory");
}

#define TURNS_TO_LOOK 512 /* how often, until it is time for a look at host memory, which takes about a microsecond */

/* Between two looks at a word that another GPU writes; `turn`: how many were in vain before. */
DEVICE void pause_spin(uint32_t turn)
{
}

DEVICE float float_of_half(uint32_t bits)
{
    float x;
    asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(x) : "r"(bits));
    return x;
}

/* Not for a NaN, whose bits differ among processors. */
DEVICE uint32_t half_of_float(float x)
{
    uint32_t bits;
    asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(bits) : "f"(x));
    return bits;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define PAIRS_CONVERT /* at once; not for a NaN */
DEVICE uint32_t half_pair(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

DEVICE uint32_t bfloat_pair(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

#define PAIRS_ADD /* at once, rounded once; a NaN has any bits */
DEVICE uint32_t half_pair_sum(uint32_t x, uint32_t y)
{
    uint32_t bits;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(x), "r"(y));
    return bits;
}

/* x * 1 + y: sums of their own came with later processors. */
DEVICE uint32_t bfloat_pair_sum(uint32_t x, uint32_t y)
{
    uint32_t bits;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(bits) : "r"(x), "r"(0x3f803f80u), "r"(y));
    return bits;
}
#endif

#endif
