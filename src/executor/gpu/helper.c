/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps until there is news: a peer's process was lost, the team has failed, a descriptor is to go to a
 * peer. Kernels and streams that wait for a peer know nothing of its death: they are told here. It never calls the
 * driver, in which it could be held up behind a call that waits for those very kernels.
 */
#include "executor/gpu/patience.h"

#include "base/error.h"
#include "base/futex.h"
#include "engine/failure.h"
#include "engine/news.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_US 20000 /* between words of a failed team that are put right again */
#define LOOK_US  1000  /* between attempts to send descriptors; more and more */
#define IDLE_US  (60u * 1000 * 1000)
#define COPIES_MS                                                                                                      \
    5000 /* a copy that nothing holds up takes no longer; its copier is held up or lost, and nobody knows */
#define PATIENCE_MS 500 /* for a peer that may have been lost to be known as such */

tutti_result_t gpu_hear_failure(struct gpu *gpu)
{
    if (gpu->mailbox)
        depart_notice(gpu);
    const struct mailbox_failure *failure = gpu->mailbox ? &gpu->mailbox->failure : NULL;
    if (!failure || !atomic_load_explicit(&failure->state, memory_order_acquire))
        return team_failure(gpu->team);
    for (int i = 0; i < PATIENCE_MS && atomic_load_explicit(&failure->state, memory_order_acquire) != 2; i++)
        usleep(1000); /* it is being written; or its writer was lost */
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != 2)
        return team_failure(gpu->team);
    return team_hear(gpu->team, &failure->news);
}

void gpu_tell_failure(struct gpu *gpu)
{
    struct mailbox *mailbox = gpu->mailbox;
    uint32_t none = 0;
    if (!mailbox || atomic_load(&gpu->departs.parted) || !atomic_load(&gpu->team->failed) || depart_follow(gpu) ||
        !atomic_compare_exchange_strong(&mailbox->failure.state, &none, 1))
        return;
    mailbox->failure.news = team_news(gpu->team);
    atomic_store_explicit(&mailbox->failure.state, 2, memory_order_release);
    mailbox_ring_others(mailbox, gpu->nranks, gpu->rank);
}

/* Where all is staged through the host the team knows whose messages are still to come, and fails by itself. */
tutti_result_t gpu_failure(struct gpu *gpu)
{
    struct departure who;
    tutti_result_t result = gpu_hear_failure(gpu);
    if (result != TUTTI_SUCCESS && gpu->staged)
        staged_end_calls(gpu->staged);
    if (result != TUTTI_SUCCESS || !gpu->mailbox)
        return result;
    if (atomic_load(&gpu->departs.leaving))
        return error_set(TUTTI_REMOTE_ERROR, "rank %d: the communicator was aborted by rank %d", gpu->rank, gpu->rank);
    if (atomic_load(&gpu->departs.refused_call))
        return depart_refuse(gpu, gpu->departs.refusal);
    for (int rank = 0; rank < gpu->nranks; rank++)
        if (depart_has(gpu, rank, &who) && who.cause == MAILBOX_LOST)
            return depart_refuse(gpu, who);
    return TUTTI_SUCCESS;
}

tutti_result_t gpu_refuses(struct gpu *gpu, bool collective)
{
    return collective && gpu->staged && staged_takes(gpu->staged) ? TUTTI_SUCCESS : gpu_failure(gpu);
}

tutti_result_t gpu_explain(struct gpu *gpu, tutti_result_t result)
{
    tutti_result_t failure = TUTTI_SUCCESS;
    char sentence[sizeof gpu->team->cause.text];
    if (result == TUTTI_SUCCESS)
        return result;
    snprintf(sentence, sizeof sentence, "%s", error_last());
    for (int i = 0; i < PATIENCE_MS && failure == TUTTI_SUCCESS; i++) {
        failure = gpu_failure(gpu);
        usleep(1000);
    }
    return failure == TUTTI_SUCCESS ? error_set(result, "%s", sentence) : failure;
}

tutti_result_t gpu_needs(struct gpu *gpu, uint32_t ranks)
{
    struct departure who;
    for (int rank = 0; rank < gpu->nranks; rank++)
        if ((ranks >> rank & 1) && depart_has(gpu, rank, &who))
            return depart_refuse(gpu, who);
    return TUTTI_SUCCESS;
}

/*
 * Whatever waits for a peer, or is waited for by one, goes on with undefined data: the team's failure says so.
 * `deadline`: of copies that are under way; 0: there is none yet.
 */
static void helper_give_up(struct gpu *gpu, uint64_t *deadline)
{
    if (!*deadline)
        *deadline = clock_deadline_ms(COPIES_MS);
    gpu_tell_failure(gpu);
    settle_reached(gpu);
    atomic_fetch_or(&gpu->mailbox->rank[gpu->rank].abort, KERNEL_GIVE_UP);
    transfer_give_up(gpu, clock_passed(*deadline));
}

static void *helper(void *argument)
{
    struct gpu *gpu = argument;
    _Atomic uint32_t *bell = &gpu->mailbox->rank[gpu->rank].bell;
    struct depart_watch watch = {0};
    struct mixing_watch mixing = {0};
    struct patience_watch patience = {0};
    uint64_t pause = LOOK_US, deadline = 0;
    for (;;) {
        uint32_t news = atomic_load(bell);
        if (atomic_load(&gpu->stop)) /* looked at behind the bell, so that no sleep misses it */
            return NULL;
        patience_answer(gpu);
        gpu_hear_failure(gpu);
        uint64_t soon = depart_look(gpu, &watch),
                 then = atomic_load(&gpu->team->failed) ? 0 : mixing_look(gpu, &mixing),
                 later = atomic_load(&gpu->team->failed) ? 0 : patience_look(gpu, &patience);
        bool failed = atomic_load(&gpu->team->failed);
        if (failed)
            helper_give_up(gpu, &deadline);
        bool left = !failed && offer_deliver(gpu);
        pause = !left ? LOOK_US : pause < 50 * LOOK_US ? pause * 2 : pause;
        uint64_t nap = failed ? AGAIN_US : left ? pause : IDLE_US;
        nap = then && then < nap ? then : nap;
        nap = later && later < nap ? later : nap;
        futex_wait(bell, news, soon && soon < nap ? soon : nap);
    }
}

void helper_look_again(struct gpu *gpu)
{
    if (gpu->mailbox && (atomic_load(&gpu->team->failed) || depart_any(gpu)))
        mailbox_ring(gpu->mailbox, gpu->rank);
}

/* Called by whoever learns of it, under any lock. */
static void ring(void *argument)
{
    struct gpu *gpu = argument;
    mailbox_ring(gpu->mailbox, gpu->rank);
}

tutti_result_t helper_start(struct gpu *gpu)
{
    tutti_result_t result = thread_start(&gpu->helper, "tutti-helper", helper, gpu);
    if (result != TUTTI_SUCCESS)
        return result;
    team_on_news(gpu->team, ring, depart_excuses, gpu);
    depart_at_exit();
    return TUTTI_SUCCESS;
}

void helper_stop(struct gpu *gpu)
{
    if (!gpu->helper.runs)
        return;
    team_on_news(gpu->team, NULL, NULL, NULL);
    atomic_store(&gpu->stop, true);
    mailbox_ring(gpu->mailbox, gpu->rank);
    thread_end(&gpu->helper);
}
