/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch is over: its last block tells the host, which then need not ask the driver. A kernel that gives up says so,
 * too. What graphs launch has no ticket and costs nothing here.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_OVER_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_OVER_CUH

#include <window.cuh>

/* Called by all threads of all blocks, last. The fence is for whoever orders other work behind the ticket. */
DEVICE void launch_over(const struct kernel_team &team)
{
    const uint32_t blocks = gridDim.x * gridDim.y;
    if (!team.ticket)
        return;
    barrier();
    if (threadIdx.x != 0 ||
        (blocks > 1 && !is_last_of((uint32_t *)(team.window[team.rank] + KERNEL_BLOCKS_OVER), blocks)))
        return;
    fence_all();
    store_flag((uint32_t *)team.abort + 2, team.ticket);
}

#endif
