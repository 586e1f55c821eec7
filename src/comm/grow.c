/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing. The members of a communicator find that all of them have come, and hear where newcomers wait (meet.c). Then
 * old and new ranks join as those of any new communicator do, with the links that processes have already. Nothing of
 * the old one is used but memos, so it works on meanwhile.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "engine/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

tutti_result_t grow_claim(struct tutti_comm *comm)
{
    int stays = COMM_STAYS;
    struct tutti_comm *old = comm->settings.grows;
    if (!atomic_compare_exchange_strong(&old->growing, &stays, COMM_WILL_GROW))
        return error_set(TUTTI_INVALID_USAGE,
                         "the communicator is growing already; wait until the new communicator is made, or abort it");
    comm->choices = choice_share(old->choices);
    return TUTTI_SUCCESS;
}

void grow_forget(struct tutti_comm *comm)
{
    struct tutti_comm *old = comm->settings.grows;
    comm->settings.grows = NULL;
    if (old)
        atomic_store(&old->growing, COMM_STAYS); /* the last use of it */
}

void grow_wait(struct tutti_comm *comm, bool wanted)
{
    if (!wanted && atomic_load(&comm->growing))
        meeting_stop(&comm->meeting);
    while (atomic_load(&comm->growing))
        usleep(200);
}

/* ---- One attempt ---- */

static tutti_result_t grow_meet(struct tutti_comm *comm, int *members, bool *is_out)
{
    struct tutti_comm *old = comm->settings.grows;
    struct meeting_call call = {.members = members,
                                .count = old->team->nranks,
                                .is_out = is_out,
                                .deadline = comm->settings.deadline,
                                .nranks = comm->settings.nranks,
                                .id = comm->settings.has_id ? &comm->settings.id : NULL,
                                .stop = &comm->abort};
    for (int rank = 0; rank < call.count; rank++)
        members[rank] = rank;
    tutti_result_t result = meeting_visit(&old->meeting, &call, &comm->number);
    if (result == TUTTI_SUCCESS)
        comm->settings.id = old->meeting.id;
    return result;
}

/* Newcomers do not hear what members tell one another. A newcomer is no rank of the old one, and members name it when
 * it has died. `lost`: a rank of which this one knows that it has died, or -1. */
static enum bootstrap_refusal grow_verdict(const struct team *old, const struct wire_abort *why, int lost)
{
    bool member = why->culprit >= 0 && why->culprit < old->nranks;
    bool itself = member && wire_same_process(why->from, team_row(old, why->culprit)->uuid);
    if (why->culprit < 0 || why->culprit == old->rank || why->result != TUTTI_REMOTE_ERROR || itself)
        return BOOTSTRAP_FAILED;
    return member && why->cause == WIRE_CAUSE_ERROR && why->culprit != lost ? BOOTSTRAP_SILENT : BOOTSTRAP_DIED;
}

static int grow_culprit(const struct team *old, const struct wire_abort *why)
{
    return why->culprit >= 0 ? why->culprit : old->rank;
}

uint64_t grow_stop(const struct team *old, const struct wire_abort *why)
{
    return bootstrap_stop_for(grow_verdict(old, why, -1), grow_culprit(old, why));
}

static void grow_refuse(const struct tutti_comm *comm, const struct wire_abort *why)
{
    const struct team *old = comm->settings.grows->team;
    struct roots_refusal refusal = {.how = grow_verdict(old, why, comm->lost),
                                    .rank = grow_culprit(old, why),
                                    .nranks = comm->settings.nranks,
                                    .members = old->nranks};
    if (comm->settings.has_id)
        roots_refuse(&comm->settings.id, &refusal);
}

static struct wire_abort grow_cause(const struct tutti_comm *comm, tutti_result_t result)
{
    const struct team *old = comm->settings.grows->team;
    if (comm->team && atomic_load(&comm->team->failed))
        return comm->team->cause;
    return team_cause(old, result, comm->lost >= 0 ? comm->lost : old->rank, error_last());
}

/* What came first counts: a member that left, or what this rank has met. */
static tutti_result_t grow_failed(struct tutti_comm *comm, tutti_result_t result)
{
    struct meeting *meeting = &comm->settings.grows->meeting;
    struct wire_abort cause = grow_cause(comm, result), heard;
    lock_take(&comm->engine->lock);
    bool told = meeting->failed;
    heard = meeting->why;
    lock_release(&comm->engine->lock);
    grow_refuse(comm, told ? &heard : &cause);
    meeting_end(meeting, &cause);
    return told ? error_set((tutti_result_t)heard.result, "rank %d: %s", meeting->team->rank, heard.text)
                : error_note(result, "%s", error_last());
}

tutti_result_t grow_join(struct tutti_comm *comm, tutti_result_t (*join)(struct tutti_comm *comm))
{
    struct tutti_comm *old = comm->settings.grows;
    size_t count = (size_t)old->team->nranks;
    int *members = malloc(count * sizeof *members);
    bool *is_out = calloc(count, sizeof *is_out);
    tutti_result_t result =
        members && is_out ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu ranks", count);
    atomic_store(&old->growing, COMM_GROWS);
    if (result == TUTTI_SUCCESS) {
        result = grow_meet(comm, members, is_out);
        result = result == TUTTI_SUCCESS ? join(comm) : result;
        if (result == TUTTI_SUCCESS)
            meeting_end(&old->meeting, NULL);
        else
            result = grow_failed(comm, result);
    }
    free(members);
    free(is_out);
    grow_forget(comm);
    return result;
}
