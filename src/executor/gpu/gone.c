/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks take part no more, as the mailbox and the team say. */
#include "executor/gpu/gone.h"

#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"

bool gone_is_lost(const struct gpu *gpu, int rank)
{
    return atomic_load(&gpu->ranks[rank].gone) ||
           atomic_load_explicit(&gpu->base.team->gone[rank], memory_order_acquire);
}

bool gone_is(const struct gpu *gpu, int rank, struct departure *out)
{
    const struct mailbox_rank *theirs = &gpu->ranks[rank];
    bool left = atomic_load_explicit(&theirs->left, memory_order_acquire), closed = atomic_load(&theirs->closed) == 1;
    bool gone = gone_is_lost(gpu, rank);
    *out = left ? (struct departure){theirs->culprit, (enum mailbox_cause)theirs->cause}
                : (struct departure){rank, closed ? MAILBOX_CLOSED : MAILBOX_LOST};
    return rank != gpu->rank && (left || closed || gone);
}

bool gone_any(const struct gpu *gpu)
{
    struct departure who;
    bool any = false;
    for (int rank = 0; rank < gpu->nranks; rank++)
        any = any || gone_is(gpu, rank, &who);
    return any;
}

void gone_note(struct gpu *gpu, int rank)
{
    if (!atomic_exchange(&gpu->ranks[rank].gone, 1))
        mailbox_ring_others(gpu->ranks, gpu->nranks, -1); /* but nobody */
}
