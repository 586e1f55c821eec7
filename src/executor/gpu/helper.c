/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the process that sleeps until there is news for one of its executors: a peer's process was lost, the team
 * has failed, a descriptor is to go to a peer. Kernels and streams that wait for a peer know nothing of its death: the
 * helper tells them. The helper never calls the driver, which could hold it up behind a call that waits for those very
 * kernels.
 */
#include "executor/gpu/helper.h"

#include "base/clock.h"
#include "engine/news.h"
#include "executor/gpu/crossed.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/mixing.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/patience.h"
#include "executor/gpu/settle.h"
#include "executor/gpu/undone.h"
#include "executor/gpu/wrong.h"

#define AGAIN_US 20000 /* between words of a failed team that are put right again */
#define LOOK_US  1000  /* between attempts to send descriptors; more and more */
#define IDLE_US  (60u * 1000 * 1000)
#define COPIES_MS                                                                                                      \
    5000 /* a copy that nothing holds up takes no longer; its copier is held up or lost, and nobody knows */

static const char helper_name[] = "tutti-helper"; /* the thread: one a process */

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
    atomic_fetch_or(&gpu->ranks[gpu->rank].abort, KERNEL_GIVE_UP);
    undone_let_go(gpu, clock_passed(*deadline));
}

/* 0: not at all. */
static uint64_t sooner(uint64_t x, uint64_t y)
{
    return x && (!y || x < y) ? x : y;
}

/* The microseconds until the next look, as far as a team that has not failed needs one. */
static uint64_t look_for_trouble(struct gpu *gpu)
{
    struct gpu_helper *helper = &gpu->helper;
    uint64_t then = atomic_load(&gpu->base.team->failed) ? 0 : mixing_look(gpu, &helper->mixing);
    uint64_t later = atomic_load(&gpu->base.team->failed) ? 0 : patience_look(gpu, &helper->patience);
    if (!atomic_load(&gpu->base.team->failed))
        then = sooner(then, crossed_look(gpu));
    then = sooner(then, wrong_watch(gpu));
    return sooner(then, later);
}

static uint64_t helper_look(void *context)
{
    struct gpu *gpu = context;
    struct gpu_helper *helper = &gpu->helper;
    patience_answer(gpu);
    gpu_hear_failure(gpu);
    uint64_t soon = depart_look(gpu, &helper->departs), then = look_for_trouble(gpu);
    bool failed = atomic_load(&gpu->base.team->failed);
    if (failed)
        helper_give_up(gpu, &helper->deadline);
    bool left = !failed && offer_deliver(gpu);
    helper->pause = !left ? LOOK_US : helper->pause < 50 * LOOK_US ? helper->pause * 2 : helper->pause;
    uint64_t nap = failed ? AGAIN_US : left ? helper->pause : IDLE_US;
    nap = then && then < nap ? then : nap;
    return soon && soon < nap ? soon : nap;
}

/* Called by any thread that learns of the news, under any lock. */
static void ring(void *argument)
{
    struct gpu *gpu = argument;
    mailbox_ring(&gpu->ranks[gpu->rank]);
}

tutti_result_t helper_start(struct gpu *gpu)
{
    gpu->helper.pause = LOOK_US;
    gpu->helper.attended = (struct attended){.bell = &gpu->ranks[gpu->rank].bell, .look = helper_look, .context = gpu};
    tutti_result_t result = attend_begin(&gpu->helper.attended, helper_name, 0);
    if (result == TUTTI_SUCCESS)
        team_on_news(gpu->base.team, ring, depart_excuses, gpu);
    return result;
}

void helper_stop(struct gpu *gpu)
{
    if (!attend_is_on(&gpu->helper.attended))
        return;
    team_on_news(gpu->base.team, NULL, NULL, NULL);
    attend_end(&gpu->helper.attended);
}
