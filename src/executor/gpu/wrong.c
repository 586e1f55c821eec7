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

#include <inttypes.h>
#include <stdio.h>

#define LOOK_US 200000

void wrong_expect(struct gpu *gpu)
{
    if (!atomic_exchange(&gpu->wrongs, true))
        mailbox_ring(&gpu->ranks[gpu->rank]);
}

static void wrong_describe(const struct gpu *gpu, int rank, const struct kernel_wrong *wrong, char *out, size_t size)
{
    const int who = team_told_rank(gpu->base.team, rank), me = team_told_rank(gpu->base.team, gpu->rank);
    const int64_t value = (int64_t)(wrong->low | (uint64_t)wrong->high << 32);
    int at = snprintf(out, size, "alltoallv_dynamic: ");
    out += at;
    size -= (size_t)at;
    switch ((enum kernel_wrong_kind)wrong->what) {
    case KERNEL_WRONG_SPLIT:
        snprintf(out, size, "split %u of rank %d has %" PRId64 " rows: negative, or more than its send_rows", wrong->at,
                 who, value);
        return;
    case KERNEL_WRONG_SUM:
        snprintf(out, size, "up to split %u a window of rank %d has %" PRId64 " rows, more than its send_rows",
                 wrong->at, who, value);
        return;
    case KERNEL_WRONG_LENGTH:
        snprintf(out, size, "rank %d has %" PRId64 " indices for rank %u: negative, or more than its index_room", who,
                 value, wrong->at);
        return;
    case KERNEL_WRONG_BLOCKS:
        snprintf(out, size, "up to those for rank %u rank %d has %" PRId64 " indices, more than its index_room",
                 wrong->at, who, value);
        return;
    case KERNEL_WRONG_INDEX:
        snprintf(out, size, "index number %u of rank %d is %" PRId64 ": it names no split", wrong->at, who, value);
        return;
    case KERNEL_WRONG_WINDOW:
        snprintf(out, size, "split %u of rank %d ends at row %" PRId64 " of a window of rank %d, beyond its recv_rows",
                 wrong->at, who, value, me);
        return;
    default:
        snprintf(out, size, "rank %d has %u splits, or rows or windows of other lengths, unlike rank %d", who,
                 wrong->at, me);
        return;
    }
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
        wrong_describe(gpu, rank, &wrong, sentence, sizeof sentence);
        team_fail(gpu->base.team, TUTTI_INVALID_USAGE, rank, sentence);
        return;
    }
}

uint64_t wrong_watch(const struct gpu *gpu)
{
    return atomic_load(&gpu->wrongs) && !atomic_load(&gpu->base.team->failed) ? LOOK_US : 0;
}
