/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths that only GPUs know may be wrong. A kernel that finds this out says so in a word of the mailbox, and moves
 * nothing for that rank. A rank hears from its own kernel, whoever is to blame, so no call ends well that has moved
 * less than it should. A peer's kernel may wait for what is not taken any more: so the helper looks now and then from
 * the first call on.
 */
#include "executor/gpu/wrong.h"

#include "engine/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/stream/lengths.h"

#define LOOK_US 200000

void wrong_expect(struct gpu *gpu)
{
    if (!atomic_exchange(&gpu->wrongs, true))
        mailbox_ring(&gpu->ranks[gpu->rank]);
}

void wrong_notice(struct gpu *gpu)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    char sentence[200];
    if (!atomic_load_explicit(&gpu->wrongs, memory_order_relaxed) || atomic_load(&gpu->base.team->failed))
        return;
    for (int rank = 0; rank < gpu->nranks; rank++) {
        uint32_t what = atomic_load_explicit(&mine->wrong[rank][0], memory_order_acquire);
        if (what == KERNEL_RIGHT)
            continue;
        const struct kernel_wrong wrong = {what, atomic_load(&mine->wrong[rank][1]), atomic_load(&mine->wrong[rank][2]),
                                           atomic_load(&mine->wrong[rank][3])};
        lengths_describe(gpu->base.team, rank, &wrong, sentence, sizeof sentence);
        team_fail(gpu->base.team, TUTTI_INVALID_USAGE, rank, sentence);
        return;
    }
}

uint64_t wrong_watch(const struct gpu *gpu)
{
    return atomic_load(&gpu->wrongs) && !atomic_load(&gpu->base.team->failed) ? LOOK_US : 0;
}
