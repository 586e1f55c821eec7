/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps until there is news: a peer's process was lost, the team has failed, a descriptor is to go to a
 * peer. Kernels and streams that wait for a peer know nothing of its death: they are told here. It never calls the
 * driver, in which it could be held up behind a call that waits for those very kernels.
 */
#include "executor/gpu/helper.h"

#include "base/clock.h"
#include "base/futex.h"
#include "engine/news.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/mixing.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/patience.h"
#include "executor/gpu/settle.h"
#include "executor/gpu/undone.h"

#define AGAIN_US 20000 /* between words of a failed team that are put right again */
#define LOOK_US  1000  /* between attempts to send descriptors; more and more */
#define IDLE_US  (60u * 1000 * 1000)
#define COPIES_MS                                                                                                      \
    5000 /* a copy that nothing holds up takes no longer; its copier is held up or lost, and nobody knows */

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
    undone_let_go(gpu, clock_passed(*deadline));
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
                 then = atomic_load(&gpu->base.team->failed) ? 0 : mixing_look(gpu, &mixing),
                 later = atomic_load(&gpu->base.team->failed) ? 0 : patience_look(gpu, &patience);
        bool failed = atomic_load(&gpu->base.team->failed);
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
    team_on_news(gpu->base.team, ring, depart_excuses, gpu);
    return TUTTI_SUCCESS;
}

void helper_stop(struct gpu *gpu)
{
    if (!gpu->helper.runs)
        return;
    team_on_news(gpu->base.team, NULL, NULL, NULL);
    atomic_store(&gpu->stop, true);
    mailbox_ring(gpu->mailbox, gpu->rank);
    thread_end(&gpu->helper);
}
