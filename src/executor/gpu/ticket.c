/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of operations: a number is handed out to each, and a word of host memory tells which are over. */
#include "executor/gpu/ticket.h"

#include "executor/gpu/gpu.h"

bool ticket_is_over(const struct gpu *gpu, uint32_t ticket)
{
    return (int32_t)(atomic_load_explicit(gpu->order.over, memory_order_acquire) - ticket) >= 0;
}

bool ticket_idle(const struct gpu *gpu)
{
    return atomic_load(&gpu->graphs.lost) || atomic_load(&gpu->order.untracked) ||
           ticket_is_over(gpu, atomic_load(&gpu->order.ticket));
}

/* 0 is none. */
uint32_t ticket_next(struct gpu *gpu)
{
    uint32_t ticket = gpu->order.tickets += gpu->order.tickets == UINT32_MAX ? 2 : 1;
    if (gpu->kernels.times) { /* what a launch of long ago has left there */
        struct mailbox_times *times = &gpu->mailbox->rank[gpu->rank].times[ticket % KERNEL_TIMES];
        atomic_store_explicit(&times->begin, 0, memory_order_relaxed);
        atomic_store_explicit(&times->end, 0, memory_order_relaxed);
    }
    return ticket;
}

void ticket_more(struct gpu *gpu)
{
    gpu->order.told = 0;
}
