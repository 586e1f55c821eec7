/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer may be late while it lives. A peer whose process is stopped is given up, as on host memory. Half of the
 * patience goes by before the peer is asked, by a word of the mailbox that its helper answers; the other half is for
 * the answer. Kernels and streams need no host to go on, so a peer's silence alone means nothing: something of this
 * rank has to wait for that peer all the time.
 */
#include "executor/gpu/patience.h"

#include "base/clock.h"
#include "engine/watch.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/step.h"

#define LOOKS      16                /* in the time of the patience */
#define LOOK_EVERY (50 * NS_PER_MS)  /* while an answer is waited for */
#define LATE       (100 * NS_PER_MS) /* a look that comes later than that after its time: this process stood still */

void patience_answer(struct gpu *gpu)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    atomic_store(&mine->answered, atomic_load(&mine->asked));
}

void patience_begin(struct gpu *gpu, int rank)
{
    atomic_fetch_or(&gpu->departs.awaited, 1u << rank);
    mailbox_ring(&gpu->ranks[gpu->rank]);
}

void patience_end(struct gpu *gpu, int rank)
{
    atomic_fetch_and(&gpu->departs.awaited, ~(1u << rank));
}

static uint32_t patience_ask(const struct gpu *gpu, int rank)
{
    uint32_t number = atomic_fetch_add(&gpu->ranks[rank].asked, 1) + 1;
    mailbox_ring(&gpu->ranks[rank]);
    return number ? number : patience_ask(gpu, rank);
}

static bool has_answered(const struct gpu *gpu, int rank, uint32_t number)
{
    return (int32_t)(atomic_load(&gpu->ranks[rank].answered) - number) >= 0;
}

/* Has the GPU come to the step, as far as can be seen? Of what copy engines carry nothing can be seen. */
static bool patience_has_come(const struct gpu *gpu, const struct mailbox_step *step)
{
    const struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint32_t over = atomic_load_explicit(gpu->base.tickets.over, memory_order_acquire);
    bool come = !step->kernel || step->ticket - over > KERNEL_TIMES;
    for (uint32_t ticket = over + 1; !come && (int32_t)(step->ticket - ticket) >= 0; ticket++)
        come = mailbox_has_begun(mine, ticket);
    return come;
}

/* Ranks in other processes without which this one's first step that is not over cannot end, and those for whose hosts a
 * call waits. */
static uint32_t find_awaited(const struct gpu *gpu, struct patience_watch *watch)
{
    const struct mailbox_step *step = step_first(gpu, &watch->from);
    uint32_t ranks = atomic_load(&gpu->departs.awaited), before = watch->ticket;
    watch->ticket = step ? step->ticket : 0;
    if (!step || watch->ticket != before || !patience_has_come(gpu, step))
        return ranks;
    for (int rank = 0; rank < gpu->nranks; rank++)
        if ((step->involves >> rank & 1) && !step_is_served(gpu, step, rank))
            ranks |= 1u << rank;
    return ranks;
}

/* Only kernels of graphs know whether they wait for the rank: they answer until the next look. */
static bool kernels_wait(struct gpu *gpu, struct patience_watch *watch, int rank)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    bool wait = watch->kernels && (mailbox_answer(mine) >> rank & 1);
    if (!wait)
        mailbox_ask(mine);
    watch->kernels = true;
    return wait;
}

static void start_again(struct patience_watch *watch, int rank)
{
    watch->waited[rank] = 0;
    watch->asked[rank] = 0;
}

/* Is the rank's silence too long by now? */
static bool patience_is_silent(const struct gpu *gpu, struct patience_watch *watch, int rank, uint64_t patience)
{
    if (watch->waited[rank] < patience / 2)
        return false;
    if (!watch->asked[rank]) {
        watch->asked[rank] = patience_ask(gpu, rank);
        watch->waited[rank] = patience / 2;
    }
    if (!has_answered(gpu, rank, watch->asked[rank]))
        return watch->waited[rank] >= patience;
    start_again(watch, rank);
    return false;
}

static bool is_elsewhere(const struct gpu *gpu, int rank)
{
    struct departure who;
    return rank != gpu->rank && !gpu->here[rank] && !gone_is(gpu, rank, &who);
}

static uint64_t elapsed(struct patience_watch *watch)
{
    uint64_t now = clock_ns(), since = watch->looked ? now - watch->looked : 0;
    watch->looked = now;
    return since < watch->nap + LATE ? since : watch->nap + LATE;
}

uint64_t patience_look(struct gpu *gpu, struct patience_watch *watch)
{
    uint64_t patience = gpu->base.team->timeout_ms * NS_PER_MS, ran = elapsed(watch);
    uint32_t awaited = find_awaited(gpu, watch);
    bool graphs = atomic_load_explicit(&gpu->base.tickets.captured, memory_order_relaxed), asks = false;
    for (int rank = 0; rank < gpu->nranks; rank++) {
        bool sure = awaited >> rank & 1;
        if (!is_elsewhere(gpu, rank) || !(sure || graphs)) {
            start_again(watch, rank);
            continue;
        }
        watch->waited[rank] += ran;
        if (patience_is_silent(gpu, watch, rank, patience) && (sure || kernels_wait(gpu, watch, rank))) {
            team_give_up(gpu->base.team, rank, watch->waited[rank], sure ? "an operation" : "a graph");
            return 0;
        }
        asks = asks || watch->asked[rank];
    }
    watch->nap = patience / LOOKS;
    if (asks && watch->nap > LOOK_EVERY)
        watch->nap = LOOK_EVERY;
    return watch->nap / 1000 + 1;
}
