/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of operations: a number is handed out to each, and a word of host memory tells which are over. */
#include "executor/stream/ticket.h"

#include "device/cuda/kernels/kernels.h"
#include "executor/stream/base.h"

bool ticket_is_over(const struct stream_base *base, uint32_t ticket)
{
    return (int32_t)(atomic_load_explicit(base->tickets.over, memory_order_acquire) - ticket) >= 0;
}

bool ticket_idle(const struct stream_base *base)
{
    return atomic_load(&base->graphs.lost) || atomic_load(&base->tickets.untracked) ||
           ticket_is_over(base, atomic_load(&base->tickets.ticket));
}

/* 0 is none. */
uint32_t ticket_next(struct stream_base *base)
{
    uint32_t ticket = base->tickets.handed_out += base->tickets.handed_out == UINT32_MAX ? 2 : 1;
    if (base->tickets.times) { /* what a launch of long ago has left there */
        struct ticket_times *times = &base->tickets.times[ticket % KERNEL_TIMES];
        atomic_store_explicit(&times->begin, 0, memory_order_relaxed);
        atomic_store_explicit(&times->end, 0, memory_order_relaxed);
    }
    return ticket;
}

void ticket_more(struct stream_base *base)
{
    base->tickets.told = 0;
}
