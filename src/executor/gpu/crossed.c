/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks whose streams wait for one another in a circle: rank 0 for a signal of rank 1, and rank 1 for one of rank 0.
 * Each signal would come behind the wait in its sender's stream. The operations of a rank follow one another, and the
 * mailbox shows at which step each rank is, and what a rank had called up to that step. A wait is hopeless if the
 * other rank is at a step, has raised all signals up to there, and waits for this one in the same sense. No rank of a
 * circle can leave its step: what is seen once is so for ever.
 */
#include "executor/gpu/crossed.h"

#include "engine/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/signals.h"

#include <stdio.h>

#define LOOK_US 200000
#define NEEDS   40 /* characters of what a rank needs */

/* Where all ranks are. */
struct standing {
    const struct mailbox_step *step[KERNEL_RANKS]; /* the first that is not over; NULL: it is not known, or none is */
    uint32_t over[KERNEL_RANKS];                   /* when that was looked up */
};

void crossed_expect(struct gpu *gpu)
{
    if (!atomic_exchange(&gpu->windows.waits, true))
        mailbox_ring(&gpu->ranks[gpu->rank]);
}

static const struct mailbox_step *step_at(const struct mailbox_rank *rank, uint32_t over)
{
    const struct mailbox_step *first = NULL;
    uint64_t issued = atomic_load_explicit(&rank->issued, memory_order_acquire), back = 1;
    for (; back <= issued && back < MAILBOX_STEPS; back++) {
        const struct mailbox_step *step = &rank->step[(issued - back) % MAILBOX_STEPS];
        if ((int32_t)(over - step->ticket) >= 0)
            return first;
        first = step;
    }
    return back > issued ? first : NULL; /* the first one is not on the mailbox any more */
}

static void crossed_find(const struct gpu *gpu, struct standing *out)
{
    struct departure who;
    for (int rank = 0; rank < gpu->nranks; rank++) {
        const struct mailbox_rank *theirs = &gpu->ranks[rank];
        out->over[rank] = mailbox_over(theirs);
        out->step[rank] = gone_is(gpu, rank, &who) ? NULL : step_at(theirs, out->over[rank]);
        if (out->step[rank] && !out->step[rank]->whole)
            out->step[rank] = NULL;
    }
}

/* Of messages and collectives a replay may be a part, which has no step. */
static bool lacks_call(const struct gpu *gpu, const struct mailbox_step *mine, const struct mailbox_step *theirs,
                       int rank, int other)
{
    if (atomic_load(gpu->captured) || !(mine->expects >> other & 1))
        return false;
    return mine->collective ? (int32_t)(theirs->collectives - mine->collectives) < 0
                            : (int32_t)(theirs->sent[rank] - mine->received[other]) < 0;
}

/* Does the rank's step need what the other one can do only behind its own? */
static bool is_held_by(const struct gpu *gpu, const struct standing *at, int rank, int other)
{
    const struct mailbox_step *mine = at->step[rank], *theirs = at->step[other];
    if (!mine || !theirs || rank == other)
        return false;
    if (!mine->waits)
        return lacks_call(gpu, mine, theirs, rank, other);
    return signals_raised(gpu, other, rank) == theirs->signalled[rank] && signals_missing(gpu, rank, mine, other) >= 0;
}

/* Ranks that hold up this one, and those that hold up these. */
static uint32_t all_that_hold(const struct gpu *gpu, const struct standing *at, int rank)
{
    uint32_t ranks = 0, before;
    for (int other = 0; other < gpu->nranks; other++)
        ranks |= is_held_by(gpu, at, rank, other) ? 1u << other : 0;
    do {
        before = ranks;
        for (int held = 0; held < gpu->nranks; held++)
            for (int other = 0; other < gpu->nranks && (ranks >> held & 1); other++)
                ranks |= is_held_by(gpu, at, held, other) ? 1u << other : 0;
    } while (ranks != before);
    return ranks;
}

/* A rank that holds up that one, and that is this rank or held up by it; -1: there is none. */
static int find_holder(const struct gpu *gpu, const struct standing *at, int rank)
{
    for (int other = 0; other < gpu->nranks; other++)
        if (is_held_by(gpu, at, rank, other) &&
            (other == gpu->rank || (all_that_hold(gpu, at, other) >> gpu->rank & 1)))
            return other;
    return -1;
}

/* What was read one after another was so at one time if nobody has gone on meanwhile. */
static bool stood_still(const struct gpu *gpu, const struct standing *at)
{
    bool still = true;
    for (int rank = 0; rank < gpu->nranks; rank++)
        still = still && mailbox_over(&gpu->ranks[rank]) == at->over[rank];
    return still;
}

static const char *need(const struct gpu *gpu, const struct mailbox_step *step, int rank, int other, char *out)
{
    if (step->waits)
        snprintf(out, NEEDS, "its signal %d", signals_missing(gpu, rank, step, other));
    else
        snprintf(out, NEEDS, "%s", step->collective ? "a collective" : "its message");
    return out;
}

static void crossed_refuse(struct gpu *gpu, const struct standing *at, int other, int third)
{
    struct team *team = gpu->base.team;
    char mine[NEEDS], theirs[NEEDS], sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d waits for rank %d to call %s, and rank %d for rank %d to call %s%s: %s can go on; signal before "
             "you wait",
             team_told_rank(team, gpu->rank), team_told_rank(team, other),
             need(gpu, at->step[gpu->rank], gpu->rank, other, mine), team_told_rank(team, other),
             team_told_rank(team, third), need(gpu, at->step[other], other, third, theirs),
             third == gpu->rank ? "" : ", and so on round to the first",
             third == gpu->rank ? "neither" : "none of them");
    team_fail(team, TUTTI_INVALID_USAGE, other, sentence);
}

uint64_t crossed_look(struct gpu *gpu)
{
    struct standing at;
    if (!atomic_load(&gpu->windows.waits))
        return 0;
    crossed_find(gpu, &at);
    if (!at.step[gpu->rank] || !at.step[gpu->rank]->waits)
        return LOOK_US;
    int other = find_holder(gpu, &at, gpu->rank), third = other < 0 ? -1 : find_holder(gpu, &at, other);
    if (third < 0 || !stood_still(gpu, &at))
        return LOOK_US;
    crossed_refuse(gpu, &at, other, third);
    return 0;
}
