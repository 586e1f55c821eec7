/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of a launch. Its first block tells when it begins. Its last block tells that it is over, and when, so that the
 * host need not ask the driver. A kernel that gives up says so, too. What graphs launch has no ticket and costs nothing
 * here.
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_OVER_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_OVER_CUH

#include <window.cuh>

DEVICE void tell_time(const struct kernel_team &team, uint32_t which)
{
    if (team.times)
        store_word(team.times + 2 * (team.ticket % KERNEL_TIMES) + which, clock_of_gpu());
}

/* Called by all threads of all blocks, first: nothing may be loaded or stored before. */
DEVICE void launch_begins(const struct kernel_team &team)
{
    wait_for_stream();
    if (team.ticket && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0)
        tell_time(team, 0);
}

/* By all threads of all blocks: true in one of them, behind all that the launch has done. */
DEVICE bool launch_is_last(const struct kernel_team &team)
{
    const uint32_t blocks = gridDim.x * gridDim.y;
    barrier();
    if (threadIdx.x != 0)
        return false;
    if (blocks > 1)
        return is_last_of((uint32_t *)(team.window[team.rank] + KERNEL_BLOCKS_OVER), blocks);
    fence_gpu();
    return true;
}

DEVICE void launch_tell(const struct kernel_team &team)
{
    tell_time(team, 1);
    store_flag((uint32_t *)team.abort + KERNEL_OVER, team.ticket);
}

/*
 * Called by all threads of all blocks, last. Work behind the ticket is ordered by a stream of the same GPU, for which
 * the counting is enough, or by a wide fence of its own: a fence for the whole system costs each launch 1.4 us on an
 * H100.
 */
DEVICE void launch_over(const struct kernel_team &team)
{
    if (team.ticket && launch_is_last(team))
        launch_tell(team);
}

/* A kernel that is given `struct parameters what`, with this team, and does this with it. */
#define LAUNCHED(threads, symbol, parameters, team, ...)                                                               \
    KERNEL(threads) symbol(PARAMETER(struct parameters) what)                                                          \
    {                                                                                                                  \
        launch_begins(team);                                                                                           \
        __VA_ARGS__;                                                                                                   \
        launch_over(team);                                                                                             \
    }

#endif
