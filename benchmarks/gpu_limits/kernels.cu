/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: the kernels. Each one that waits gives up after the patience it was given, and says so in its result. */
#include "kernels.h"

namespace
{

__device__ __forceinline__ uint64_t now()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(uint32_t *at, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/* Until *at has reached value. False: it took too long. */
__device__ __forceinline__ bool wait_for(const uint32_t *at, uint32_t value, uint64_t until)
{
    for (uint32_t polls = 1; (int32_t)(load_acquire(at) - value) < 0; polls++)
        if (!(polls & 1023) && now() > until)
            return false;
    return true;
}

__device__ __forceinline__ uint32_t number(uint64_t i, uint32_t seed)
{
    return (uint32_t)i * 2654435761u + seed;
}

} // namespace

extern "C" __global__ void limits_spin(const uint32_t *word, uint32_t value, uint64_t patience)
{
    wait_for(word, value, now() + patience);
}

extern "C" __global__ void limits_fill(uint32_t *to, uint64_t count, uint32_t seed)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count; i += (uint64_t)gridDim.x * blockDim.x)
        to[i] = number(i, seed);
}

extern "C" __global__ void limits_check(const uint32_t *at, uint64_t count, uint32_t seed, uint32_t *wrong)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count; i += (uint64_t)gridDim.x * blockDim.x)
        if (at[i] != number(i, seed))
            atomicAdd(wrong, 1);
}

/* Every thread has eight words of 16 bytes under way. */
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) limits_move(const __grid_constant__ Moves m)
{
    uint32_t items = (uint32_t)(m.bytes / MOVE_PIECE) * m.peers; /* 32 bits: division takes time */
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
        uint64_t at = (uint64_t)(item / m.peers) * MOVE_PIECE + threadIdx.x * 16;
        const uint4 *from = (const uint4 *)(m.from[item % m.peers] + at);
        uint4 *to = (uint4 *)(m.to[item % m.peers] + at), v[MOVE_DEPTH];
#pragma unroll
        for (uint32_t i = 0; i < MOVE_DEPTH; i++)
            v[i] = from[i * MOVE_THREADS];
#pragma unroll
        for (uint32_t i = 0; i < MOVE_DEPTH; i++)
            to[i * MOVE_THREADS] = v[i];
    }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
namespace
{

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

struct Bulk {
    unsigned char *buffer;
    uint64_t *bars;
};

__device__ __forceinline__ void bulk_load(const Bulk &b, const Moves &m, uint32_t k)
{
    uint32_t item = blockIdx.x + k * gridDim.x;
    uint64_t from = m.from[item % m.peers] + (uint64_t)(item / m.peers) * BULK_PIECE;
    uint32_t stage = k % BULK_STAGES, bar = shared_address(b.bars + stage);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(BULK_PIECE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(b.buffer + stage * BULK_PIECE)),
                 "l"(from), "r"(BULK_PIECE), "r"(bar)
                 : "memory");
}

__device__ __forceinline__ void bulk_store(const Bulk &b, const Moves &m, uint32_t k)
{
    uint32_t item = blockIdx.x + k * gridDim.x;
    uint64_t to = m.to[item % m.peers] + (uint64_t)(item / m.peers) * BULK_PIECE;
    uint32_t stage = k % BULK_STAGES, parity = k / BULK_STAGES & 1, ready = 0;
    while (!ready)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(ready)
                     : "r"(shared_address(b.bars + stage)), "r"(parity)
                     : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(b.buffer + stage * BULK_PIECE)), "r"(BULK_PIECE)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

} // namespace

/* One thread keeps half of the stages loading while the other half is stored. */
extern "C" __global__ void limits_bulk(const __grid_constant__ Moves m)
{
    extern __shared__ __align__(128) unsigned char buffer[];
    __shared__ __align__(8) uint64_t bars[BULK_STAGES];
    constexpr uint32_t AHEAD = BULK_STAGES / 2;
    uint32_t items = (uint32_t)(m.bytes / BULK_PIECE) * m.peers,
             mine = blockIdx.x < items ? (items - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
    Bulk b = {buffer, bars};
    if (threadIdx.x)
        return;
    for (uint32_t i = 0; i < BULK_STAGES; i++)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(bars + i)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (uint32_t k = 0; k < mine && k < AHEAD; k++)
        bulk_load(b, m, k);
    for (uint32_t k = 0; k < mine; k++) {
        if (k + AHEAD <
            mine) { /* into the stage that was stored AHEAD rounds ago: only the last AHEAD - 1 stores may still read */
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(AHEAD - 1) : "memory");
            bulk_load(b, m, k + AHEAD);
        }
        bulk_store(b, m, k);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#else
extern "C" __global__ void limits_bulk(const __grid_constant__ Moves)
{
}
#endif

extern "C" __global__ void limits_flags(const __grid_constant__ Talk t)
{
    uint32_t *mine = (uint32_t *)t.mine, *theirs = (uint32_t *)t.theirs;
    uint64_t began = 0, until = now() + t.patience;
    bool good = true;
    for (uint32_t i = 1; good && i <= WARM + t.rounds; i++) {
        if (i == WARM + 1)
            began = now();
        if (t.first)
            store_release(theirs, i);
        good = wait_for(mine, i, until);
        if (!t.first)
            store_release(theirs, i);
    }
    ((uint64_t *)t.result)[0] = now() - began;
    ((uint64_t *)t.result)[1] = good;
}

namespace
{

/* Data and flag twice in 16 bytes, which arrive as one. */
__device__ __forceinline__ void send_packet(void *to, uint32_t i)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(i * 3), "r"(i), "r"(i * 5)
                 : "memory");
}

__device__ __forceinline__ bool take_packet(const void *at, uint32_t i, uint64_t until)
{
    uint32_t a, b, c, d, polls = 0;
    do {
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "l"(at)
                     : "memory");
        if (!(++polls & 1023) && now() > until)
            return false;
    } while (b != i || d != i);
    return a == i * 3 && c == i * 5;
}

} // namespace

extern "C" __global__ void limits_packets(const __grid_constant__ Talk t)
{
    uint64_t began = 0, until = now() + t.patience;
    bool good = true;
    for (uint32_t i = 1; good && i <= WARM + t.rounds; i++) {
        if (i == WARM + 1)
            began = now();
        if (t.first)
            send_packet((void *)t.theirs, i);
        good = take_packet((const void *)t.mine, i, until);
        if (!t.first)
            send_packet((void *)t.theirs, i);
    }
    ((uint64_t *)t.result)[0] = now() - began;
    ((uint64_t *)t.result)[1] = good;
}

/* Stores, a fence of every thread, and a barrier of the block in each round. */
extern "C" __global__ void limits_fence(const __grid_constant__ Fence f)
{
    uint4 *to = (uint4 *)f.to;
    uint64_t began = 0;
    for (uint32_t i = 1; i <= WARM + f.rounds; i++) {
        if (i == WARM + 1)
            began = now();
        for (uint32_t k = 0; k < f.stores; k++)
            to[k * blockDim.x + threadIdx.x] = make_uint4(i, k, threadIdx.x, 0);
        __threadfence_system();
        __syncthreads();
    }
    if (!threadIdx.x)
        *(uint64_t *)f.result = now() - began;
}

namespace
{

__device__ __forceinline__ uint32_t *slot(const Team &t, uint32_t of, uint32_t block, uint32_t from)
{
    return (uint32_t *)(t.words[of] + block * MEET_SIZE + from * 16);
}

/* Block `block` of each GPU with its namesakes. */
__device__ __forceinline__ bool meet(const Team &t, uint32_t block, uint32_t round, uint64_t until)
{
    bool good = true;
    __syncthreads();
    if (threadIdx.x < t.count && threadIdx.x != t.me) {
        store_release(slot(t, threadIdx.x, block, t.me), round);
        good = wait_for(slot(t, t.me, block, threadIdx.x), round, until);
    }
    return __syncthreads_and(good);
}

__device__ __forceinline__ void say(const Team &t, uint64_t began, bool good)
{
    if (threadIdx.x)
        return;
    if (!blockIdx.x)
        ((uint64_t *)t.result)[0] = now() - began;
    if (!good)
        atomicAdd((unsigned long long *)t.result + 1, 1ull);
}

} // namespace

extern "C" __global__ void limits_meet(const __grid_constant__ Team t)
{
    uint64_t began = 0, until = now() + t.patience;
    bool good = true;
    for (uint32_t i = 1; i <= WARM + t.rounds; i++) {
        if (i == WARM + 1)
            began = now();
        good = meet(t, blockIdx.x, i, until) && good;
    }
    say(t, began, good);
}

/* All blocks of all GPUs: they count themselves, the first block meets those of the other GPUs and tells the rest. All
 * must run at once. */
extern "C" __global__ void limits_barrier(const __grid_constant__ Team t)
{
    uint32_t *counter = (uint32_t *)(t.words[t.me] + TEAM_COUNTER), *told = (uint32_t *)(t.words[t.me] + TEAM_ROUND);
    uint64_t began = 0, until = now() + t.patience;
    bool good = true;
    for (uint32_t i = 1; i <= WARM + t.rounds; i++) {
        if (i == WARM + 1)
            began = now();
        __syncthreads();
        if (!threadIdx.x)
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        if (blockIdx.x == 0) {
            if (!threadIdx.x)
                good = wait_for(counter, i * gridDim.x, until) && good;
            good = meet(t, 0, i, until) && good;
            if (!threadIdx.x)
                store_release(told, i);
        } else if (!threadIdx.x) {
            good = wait_for(told, i, until) && good;
        }
        __syncthreads();
    }
    say(t, began, good);
}

extern "C" __global__ void limits_nothing(const __grid_constant__ Nothing n)
{
    if (n.values[0] == 0x123456789abcdefull) /* never: but the parameters are needed */
        *(volatile uint64_t *)n.values[1] = n.values[2];
}
