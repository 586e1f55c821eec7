/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that take part no more: closed, aborted, lost. What a departed rank has finished stays good: peers' operations
 * that need nothing more of it end with right data. A rank with an operation that cannot end parts from the others in
 * turn, behind all that came before. So a rank without a failure hears of none, and nobody waits for a rank that does
 * not come.
 */
#include "executor/gpu/depart.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/step.h"
#include "executor/gpu/undone.h"
#include "executor/stream/ticket.h"

#include <stdio.h>
#include <unistd.h>

#define LOOK_US       20000 /* between two looks at what a rank that is gone may hold up */
#define LEAVE_LOOK_US 500   /* at what a rank that leaves waits for */
#define PATIENCE      25    /* looks at what waits for a rank that is gone, whose last words may be on their way */
#define COME_MS       250   /* that a rank which leaves gives its peers to come to what it has issued */
#define END_MS        5000  /* and, when they have come, to bring it to its end */

/* Has a team failed of nothing else than that a rank takes part no more? That a process is gone may be heard from a
 * peer before it is seen here. */
static bool is_departure(struct gpu *gpu, const struct wire_abort *news, struct departure *who)
{
    bool is = news->cause != WIRE_CAUSE_ERROR && news->culprit != gpu->rank;
    if (news->culprit < 0 || news->culprit >= gpu->nranks)
        return false;
    if (is)
        gone_note(gpu, news->culprit);
    gone_is(gpu, news->culprit, who);
    for (int rank = 0; rank < gpu->nranks && !is; rank++) {
        const struct mailbox_rank *theirs = &gpu->ranks[rank];
        is = atomic_load_explicit(&theirs->left, memory_order_acquire) && theirs->culprit == news->culprit;
        if (is)
            gone_is(gpu, rank, who);
    }
    return is;
}

bool depart_excuses(void *argument, const struct wire_abort *news)
{
    struct gpu *gpu = argument;
    struct departure who;
    return is_departure(gpu, news, &who);
}

static void depart_describe(const struct gpu *gpu, struct departure who, char *out, size_t size)
{
    int culprit = team_told_rank(gpu->base.team, who.culprit);
    if (who.cause == MAILBOX_LOST)
        snprintf(out, size, "lost rank %d: process %u, which owned a GPU of this communicator, is gone", culprit,
                 team_row(gpu->base.team, who.culprit)->pid);
    else if (who.cause == MAILBOX_ABORTED)
        snprintf(out, size, "the communicator was aborted by rank %d", culprit);
    else
        snprintf(out, size, "rank %d has left the communicator, and this call needs it", culprit);
}

/* ---- Parting ---- */

/* How far this rank has come is told before its kernels and streams are let go: those count as over then. */
static void depart_tell(struct gpu *gpu, struct departure who)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    mine->limit = atomic_load(gpu->base.tickets.over);
    mine->culprit = who.culprit;
    mine->cause = (uint32_t)who.cause;
    atomic_store(&mine->left, 1);
    mailbox_ring_others(gpu->ranks, gpu->nranks, gpu->rank);
}

bool depart_follow(struct gpu *gpu)
{
    struct departure who;
    if (!is_departure(gpu, &gpu->base.team->cause, &who))
        return false;
    if (!atomic_exchange(&gpu->departs.parted, true))
        depart_tell(gpu, who);
    return true;
}

static void part(struct gpu *gpu, struct departure who)
{
    char sentence[160];
    if (atomic_exchange(&gpu->departs.parted, true)) {
        unsigned turn = 0;
        while (!atomic_load(&gpu->base.team->failed)) /* by another thread */
            backoff(&turn);
        return;
    }
    depart_tell(gpu, who);
    depart_describe(gpu, who, sentence, sizeof sentence);
    team_fail(gpu->base.team, TUTTI_REMOTE_ERROR, who.culprit, sentence);
}

tutti_result_t depart_refuse(struct gpu *gpu, struct departure who)
{
    char sentence[160];
    if (!atomic_load_explicit(&gpu->departs.refused_call, memory_order_relaxed)) {
        gpu->departs.refusal = who;
        atomic_store_explicit(&gpu->departs.refused_call, true, memory_order_release);
        mailbox_ring(&gpu->ranks[gpu->rank]);
    }
    if (gpu->base.team
            ->whole) { /* the call is half of one, and ranks that have not met the lost one wait for the rest */
        part(gpu, gpu->departs.refusal);
        return team_failure(gpu->base.team);
    }
    depart_describe(gpu, gpu->departs.refusal, sentence, sizeof sentence);
    return error_set(TUTTI_REMOTE_ERROR, "rank %d: %s", team_told_rank(gpu->base.team, gpu->rank), sentence);
}

void depart_settle(struct gpu *gpu)
{
    if (atomic_load_explicit(&gpu->departs.refused_call, memory_order_acquire))
        part(gpu, gpu->departs.refusal);
}

/* ---- What waits in vain ---- */

/* Not every rank has a link to every other: a rank that has one tells those that have not. */
static void spread_losses(struct gpu *gpu)
{
    for (int rank = 0; rank < gpu->nranks; rank++)
        if (atomic_load_explicit(&gpu->base.team->gone[rank], memory_order_acquire))
            gone_note(gpu, rank);
}

/* A rank that is gone, and that has not finished what the step needs of it; -1: no rank. */
static int find_missing(const struct gpu *gpu, const struct mailbox_step *step, struct departure *who)
{
    for (int rank = 0; rank < gpu->nranks; rank++)
        if ((step->involves >> rank & 1) && gone_is(gpu, rank, who) && !step_is_served(gpu, step, rank))
            return rank;
    return -1;
}

/* A step that is over, but of which a message is undone: a rank that departed let this rank's stream go, too, as both
 * wait for one word. */
static bool is_hollow(const struct gpu *gpu, const struct mailbox_step *step, struct departure *who)
{
    bool hollow = false;
    for (int rank = 0; rank < gpu->nranks && !step->kernel && !hollow; rank++)
        hollow = (step->involves >> rank & 1) && gone_is(gpu, rank, who) && undone_with(gpu, rank) &&
                 !step_is_served(gpu, step, rank);
    return hollow;
}

void depart_notice(struct gpu *gpu)
{
    const struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    struct departure who;
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_acquire);
    if (atomic_load(&gpu->base.team->failed) || atomic_load(&gpu->departs.leaving) || !gone_any(gpu))
        return;
    for (uint64_t at = issued > MAILBOX_STEPS ? issued - MAILBOX_STEPS : 0; at < issued; at++) {
        const struct mailbox_step *step = &mine->step[at % MAILBOX_STEPS];
        if (!ticket_is_over(&gpu->base, step->ticket))
            return;
        if (is_hollow(gpu, step, &who)) {
            part(gpu, who);
            return;
        }
    }
}

/* The ranks that a kernel waits for, of a step or of a graph; asked anew. gone: one of these ranks is gone, which is
 * known without a step. */
static bool kernel_waits(struct gpu *gpu, bool *gone, struct departure *who)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint32_t waits = mailbox_answer(mine);
    *gone = false;
    for (int rank = 0; rank < gpu->nranks && !*gone; rank++)
        *gone = (waits >> rank & 1) && gone_is(gpu, rank, who);
    mailbox_ask(mine);
    return waits != 0;
}

/* step: the first step that is not over; NULL: only graphs may be under way. A kernel may not have begun: only looks
 * that find it waiting count. Nobody can ask copy engines. */
static void depart_look_at_waiting(struct gpu *gpu, struct depart_watch *watch, const struct mailbox_step *step)
{
    struct departure missing, awaited;
    uint32_t ticket = step ? step->ticket : 0;
    int rank = step ? find_missing(gpu, step, &missing) : -1;
    bool counts = !atomic_load(gpu->captured); /* else some may have replayed what this rank has called */
    bool never =
        rank >= 0 && (!step->whole || (counts && (step->expects >> rank & 1) && !step_is_met(gpu, step, rank)));
    bool gone, waits = kernel_waits(gpu, &gone, &awaited);
    if (watch->ticket != ticket)
        watch->looks = 0;
    else if (clock_passed(watch->due) && (gone || (rank >= 0 && (waits || !step->kernel)))) {
        watch->looks++;
        watch->due = clock_deadline_ms(LOOK_US / 1000); /* every call wakes the helper while a rank is gone */
    }
    watch->ticket = ticket;
    if (never || watch->looks >= PATIENCE)
        part(gpu, rank >= 0 ? missing : awaited);
}

/* ---- Leaving ---- */

static bool can_end(const struct gpu *gpu, const struct mailbox_step *step)
{
    struct departure who;
    bool can = step->whole && find_missing(gpu, step, &who) < 0;
    for (int rank = 0; rank < gpu->nranks && can; rank++)
        can = !(step->involves >> rank & 1) || step_is_met(gpu, step, rank);
    return can;
}

/* Is what this rank has issued over, or is it time to give up the rest? Peers that have come to it need this rank's
 * kernels and copies. */
bool depart_is_through(const struct gpu *gpu, struct depart_watch *watch)
{
    const struct mailbox_step *step = step_first(gpu, &watch->from);
    if (!step)
        return true;
    if (watch->ticket != step->ticket || !watch->deadline) {
        watch->ticket = step->ticket;
        watch->deadline = clock_deadline_ms(COME_MS);
    }
    if (!watch->latest)
        watch->latest = clock_deadline_ms(END_MS);
    return clock_passed(watch->latest) || (clock_passed(watch->deadline) && !can_end(gpu, step));
}

static uint64_t look_at_leaving(struct gpu *gpu, struct depart_watch *watch)
{
    if (!depart_is_through(gpu, watch))
        return LEAVE_LOOK_US;
    bool refused = atomic_load_explicit(&gpu->departs.refused_call, memory_order_acquire); /* which came first */
    part(gpu, refused ? gpu->departs.refusal : (struct departure){gpu->rank, MAILBOX_ABORTED});
    return 0;
}

uint64_t depart_look(struct gpu *gpu, struct depart_watch *watch)
{
    spread_losses(gpu);
    if (atomic_load(&gpu->base.team->failed))
        return 0;
    if (atomic_load(&gpu->departs.leaving))
        return look_at_leaving(gpu, watch);
    bool refused = atomic_load_explicit(&gpu->departs.refused_call, memory_order_acquire);
    const struct mailbox_step *step = refused || gone_any(gpu) ? step_first(gpu, &watch->from) : NULL;
    if (refused && (!step || !step->whole)) {
        depart_settle(gpu);
        return 0;
    }
    if (!step && !(atomic_load(&gpu->base.tickets.captured) && gone_any(gpu)))
        return 0;
    depart_look_at_waiting(gpu, watch, step);
    return LOOK_US;
}

bool gpu_leave(struct gpu *gpu)
{
    if (!attend_is_on(&gpu->helper.attended) || atomic_load(&gpu->base.team->failed))
        return false;
    atomic_store(&gpu->departs.leaving, true);
    mailbox_ring(&gpu->ranks[gpu->rank]);
    return true;
}

void gpu_wait_left(struct gpu *gpu)
{
    while (!atomic_load(&gpu->base.team->failed))
        usleep(LEAVE_LOOK_US / 5);
}
