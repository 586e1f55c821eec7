/* SPDX-License-Identifier: Apache-2.0 */
/* A warp is one thread, whatever a block is. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_WARP_CUH
#define TUTTI_EMULATION_CUDA_KERNELS_WARP_CUH

DEVICE void warp_sync()
{
}

DEVICE bool warp_any(bool yes)
{
    return yes;
}

DEVICE uint32_t warp_votes(bool yes)
{
    return yes;
}

DEVICE uint64_t warp_up(uint64_t x, uint32_t by)
{
    (void)by;
    return x;
}

DEVICE uint64_t warp_of(uint64_t x, uint32_t of)
{
    (void)of;
    return x;
}

#endif
