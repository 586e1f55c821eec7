/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is several threads, and a warp is one of them; shared memory is the process's, which so runs one block at a
 * time. For tests of what warps of a block do beside one another.
 */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_BLOCK_CUH
#define TUTTI_EMULATION_CUDA_KERNELS_BLOCK_CUH

#include "cuda/kernels/threads/threads.h"

#define __shared__ static
#define WARP       1u
#define ALONE      (blockDim.x == 1)
#define threadIdx  cuda_thread_index
#define blockDim   cuda_block_size

DEVICE void named_sync(uint32_t id, uint32_t threads)
{
    threads_meet(id, threads, true);
}

DEVICE void named_arrive(uint32_t id, uint32_t threads)
{
    threads_meet(id, threads, false);
}

DEVICE void barrier()
{
    threads_meet(0, blockDim.x, true);
}

DEVICE bool barrier_or(bool yes)
{
    return threads_any(0, blockDim.x, yes);
}

DEVICE bool half_barrier_or(uint32_t half, bool yes)
{
    return threads_any(half + 14, blockDim.x / 2, yes);
}

#endif
