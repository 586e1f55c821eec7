/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor has failed of, as calls and threads ask for it, and as peers are told. */
#include "executor/gpu/failure.h"

#include "base/error.h"
#include "engine/failure.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/wrong.h"

#include <stdio.h>
#include <unistd.h>

#define PATIENCE_MS 500 /* until a peer that may have been lost is known as lost */

tutti_result_t gpu_hear_failure(struct gpu *gpu)
{
    const struct mailbox_failure *failure = gpu->failure;
    depart_notice(gpu);
    wrong_notice(gpu);
    if (!atomic_load_explicit(&failure->state, memory_order_acquire))
        return team_failure(gpu->base.team);
    for (int i = 0; i < PATIENCE_MS && atomic_load_explicit(&failure->state, memory_order_acquire) != 2; i++)
        usleep(1000); /* it is being written; or its writer was lost */
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != 2)
        return team_failure(gpu->base.team);
    return team_hear(gpu->base.team, &failure->news);
}

void gpu_tell_failure(struct gpu *gpu)
{
    uint32_t none = 0;
    if (atomic_load(&gpu->departs.parted) || !atomic_load(&gpu->base.team->failed) || depart_follow(gpu) ||
        !atomic_compare_exchange_strong(&gpu->failure->state, &none, 1))
        return;
    gpu->failure->news = team_news(gpu->base.team);
    atomic_store_explicit(&gpu->failure->state, 2, memory_order_release);
    mailbox_ring_others(gpu->ranks, gpu->nranks, gpu->rank);
}

tutti_result_t gpu_failure(struct gpu *gpu)
{
    struct departure who;
    tutti_result_t result = gpu_hear_failure(gpu);
    if (result != TUTTI_SUCCESS)
        return result;
    if (atomic_load(&gpu->departs.leaving))
        return error_set(TUTTI_REMOTE_ERROR, "rank %d: the communicator was aborted by rank %d",
                         team_told_rank(gpu->base.team, gpu->rank), team_told_rank(gpu->base.team, gpu->rank));
    if (atomic_load(&gpu->departs.refused_call))
        return depart_refuse(gpu, gpu->departs.refusal);
    for (int rank = 0; rank < gpu->nranks; rank++)
        if (gone_is(gpu, rank, &who) && who.cause == MAILBOX_LOST)
            return depart_refuse(gpu, who);
    return TUTTI_SUCCESS;
}

tutti_result_t gpu_explain(struct gpu *gpu, int peer, tutti_result_t result)
{
    tutti_result_t failure = TUTTI_SUCCESS;
    char sentence[sizeof gpu->base.team->cause.text];
    if (result == TUTTI_SUCCESS)
        return result;
    snprintf(sentence, sizeof sentence, "%s", error_last());
    for (int i = 0; i < PATIENCE_MS && failure == TUTTI_SUCCESS; i++) {
        failure = gpu_failure(gpu);
        if (failure == TUTTI_SUCCESS)
            failure = gpu_needs(gpu, 1u << peer);
        usleep(1000);
    }
    return failure == TUTTI_SUCCESS ? error_set(result, "%s", sentence) : failure;
}

tutti_result_t gpu_needs(struct gpu *gpu, uint32_t ranks)
{
    struct departure who;
    for (int rank = 0; rank < gpu->nranks; rank++)
        if ((ranks >> rank & 1) && gone_is(gpu, rank, &who))
            return depart_refuse(gpu, who);
    return TUTTI_SUCCESS;
}
