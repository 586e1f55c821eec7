/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for words that other GPUs write, without being deaf to the host, which may want the kernel to end. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_WAIT_CUH
#define TUTTI_DEVICE_CUDA_KERNELS_WAIT_CUH

#include "device/cuda/kernels/kernels.h"

#include <ptx.cuh>

struct waiting {
    const uint32_t *abort;
    uint32_t turns;
};

DEVICE bool has(uint32_t ranks, int p)
{
    return ranks >> p & 1;
}

/* After a look in vain: is it time to hear what the host wants? */
DEVICE bool wait_pause(struct waiting *w)
{
    pause_spin(w->turns);
    return ++w->turns % TURNS_TO_LOOK == 0 && w->abort;
}

/* Tells a host that asks that `ranks` are waited for. False: it is time to give up. */
DEVICE bool wait_hear(const struct waiting *w, uint32_t ranks)
{
    const uint32_t wanted = load_relaxed(w->abort);
    ROLLED for (int p = 0; (wanted & KERNEL_ASKED) && p < KERNEL_RANKS; p++) if (has(ranks, p))
        store_ack((uint32_t *)w->abort + KERNEL_WAITS + p, 1);
    return !(wanted & KERNEL_GIVE_UP);
}

/* Both of these, for rank p: without a loop, for which registers would be short. */
DEVICE bool wait_on(struct waiting *w, int p)
{
    if (!wait_pause(w))
        return true;
    const uint32_t wanted = load_relaxed(w->abort);
    if (wanted & KERNEL_ASKED)
        store_ack((uint32_t *)w->abort + KERNEL_WAITS + p, 1);
    return !(wanted & KERNEL_GIVE_UP);
}

/* Numbers wrap: is x at or behind y? */
DEVICE bool reached(uint32_t x, uint32_t y)
{
    return (int32_t)(x - y) >= 0;
}

/* Rank p stores there. False: given up. */
DEVICE bool wait_ack(const uint32_t *at, uint32_t number, const uint32_t *abort, int p)
{
    struct waiting w = {abort, 0};
    while (!reached(load_ack(at), number))
        if (!wait_on(&w, p))
            return false;
    return true;
}

DEVICE bool wait_flag(const uint32_t *at, uint32_t number, const uint32_t *abort, int p)
{
    struct waiting w = {abort, 0};
    while (!reached(load_acquire(at), number))
        if (!wait_on(&w, p))
            return false;
    return true;
}

#endif
