/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators made of communicators. Members know each other's processes from the parent, so no meeting point is
 * needed. What is made has a random number that one of them draws, each time anew: ranks of an attempt that failed
 * cannot take the next one for it. No member returns before all have the child, and if one cannot make it all fail, and
 * say who and why.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "engine/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each rank says in a split. */
struct choice_by {
    uint64_t number; /* random: the first member's makes the child's id */
    int32_t color, key, rank, reserved;
};

static int child_by_key(const void *a, const void *b)
{
    const struct choice_by *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* ---- What is to be made ---- */

/* What this rank cannot do is kept: a rank that waits for it must hear of that. */
void making_refuse(struct making *making, tutti_result_t result)
{
    if (making->refused != TUTTI_SUCCESS || result == TUTTI_SUCCESS)
        return;
    making->refused = result;
    snprintf(making->sentence, sizeof making->sentence, "%s", error_last());
}

static tutti_result_t refusal(const struct making *making)
{
    return making->refused == TUTTI_SUCCESS ? TUTTI_SUCCESS : error_note(making->refused, "%s", making->sentence);
}

static tutti_result_t new_child(const struct tutti_comm *parent, const struct comm_settings *settings,
                                struct tutti_comm **child)
{
    tutti_result_t result = comm_new(settings, child);
    if (result == TUTTI_SUCCESS)
        (*child)->choices = choice_share(parent->choices);
    return result;
}

/* All that needs no peer. */
static void child_prepare(struct making *making, const tutti_config_t *config, tutti_result_t refused)
{
    const struct tutti_comm *parent = making->parent;
    struct comm_settings settings = {.timeout_ms = parent->settings.timeout_ms, .executor = parent->settings.executor};
    making_refuse(making, refused);
    tutti_result_t result = comm_settings(&settings, config);
    making_refuse(making, result);
    making->blocking = result != TUTTI_SUCCESS || settings.blocking;
    settings.executor.device = parent->settings.executor.device; /* a rank stays where it is */
    if (result == TUTTI_SUCCESS && making->has_child)
        making_refuse(making, new_child(parent, &settings, &making->child));
}

void making_split(struct making *making, struct tutti_comm *parent, int color, int key, const tutti_config_t *config,
                  tutti_result_t refused)
{
    *making = (struct making){.parent = parent, .color = color, .key = key, .has_child = color >= 0};
    child_prepare(making, config, refused);
}

void making_shrink(struct making *making, struct tutti_comm *parent, const int *excluded, int count,
                   const tutti_config_t *config, tutti_result_t refused)
{
    int nranks = parent->team->nranks;
    *making = (struct making){
        .parent = parent, .has_child = true, .shrinks = true, .list_is_wrong = refused != TUTTI_SUCCESS};
    child_prepare(making, config, refused);
    making->is_out = calloc((size_t)nranks, sizeof *making->is_out);
    for (int i = 0; making->is_out && excluded && i < count; i++)
        if (excluded[i] >= 0 && excluded[i] < nranks && excluded[i] != parent->team->rank)
            making->is_out[excluded[i]] = true;
}

/* ---- Making it ---- */

static tutti_result_t child_open_team(struct making *making, uint64_t id, const int *members, int count)
{
    struct tutti_comm *child = making->child;
    const struct team *of = making->parent->team;
    for (int i = 0; i < count; i++)
        child->settings.rank = members[i] == of->rank ? i : child->settings.rank;
    child->settings.nranks = count;
    if (!child->settings.name[0])
        snprintf(child->settings.name, sizeof child->settings.name, "%.32s/%04x", making->parent->settings.name,
                 (unsigned)(id & 0xffff));
    return comm_open_team(child, id, &(struct team_members){.of = of, .rank = members});
}

/* What all ranks of the parent report is the child's cause, too. */
static void child_pass_on(const struct team *parent, struct team *child)
{
    struct wire_abort news = team_news(parent);
    memset(news.from, 0, sizeof news.from); /* the child's peers have heard nothing yet */
    news.culprit = -1;
    news.finished = 0;
    team_hear(child, &news);
}

/* Members that wait for this rank in the child's making are told there. */
static tutti_result_t fail_child(struct making *making, tutti_result_t result)
{
    char sentence[TEAM_SENTENCE];
    struct team *team = making->child ? making->child->team : NULL;
    snprintf(sentence, sizeof sentence, "%s", error_last());
    if (!team)
        return error_note(result, "%s", sentence);
    if (atomic_load(&making->parent->team->failed) && !making->shrinks)
        child_pass_on(making->parent->team, team);
    else
        team_fail(team, result, -1, sentence);
    team_report(team); /* others wait for this rank, or will */
    int culprit = team->cause.culprit, old = culprit < 0 ? culprit : making->members[culprit];
    if (old == culprit)
        return error_note(result, "%s", sentence);
    /* the user does not know the child's numbers yet */
    return error_note(result,
                      "%s; the numbers are those of the new communicator, whose rank %d is rank %d of the parent",
                      sentence, culprit, old);
}

/* ---- Split ---- */

static int members_of(struct choice_by *all, int nranks, int color, int *members)
{
    int count = 0, listed = 0;
    for (int rank = 0; rank < nranks; rank++)
        if (all[rank].color == color)
            all[count++] = all[rank];
    qsort(all, (size_t)count, sizeof *all, child_by_key);
    for (; listed < count; listed++)
        members[listed] = all[listed].rank;
    return count;
}

/* What threads of the parent's still carry in its team would mix with what members tell one another there. */
static tutti_result_t child_settle(struct tutti_comm *parent)
{
    return parent->executor->uses_team ? parent->executor->ops.wait(parent->executor) : TUTTI_SUCCESS;
}

/* All ranks of the parent know that all are able to, then what each wants, then that all have begun. */
static tutti_result_t split_among(struct making *making, struct choice_by *all, int *members)
{
    struct team *team = making->parent->team;
    struct choice_by mine = {.color = making->color, .key = making->key, .rank = team->rank};
    making_refuse(making, all && members ? child_settle(making->parent)
                                         : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", team->nranks));
    making_refuse(making, random_bytes(&mine.number, sizeof mine.number));
    tutti_result_t result = comm_agree(team, refusal(making));
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(team, &mine, sizeof mine, all);
    if (result != TUTTI_SUCCESS)
        return result;
    if (making->has_child) {
        int count = members_of(all, team->nranks, making->color, members);
        result = child_open_team(making, mix64(all[0].number), members, count);
    }
    result = comm_agree(team, result);
    return result == TUTTI_SUCCESS && making->has_child ? share_all(making->child) : result;
}

static tutti_result_t run_split(struct making *making)
{
    size_t nranks = (size_t)making->parent->team->nranks;
    struct choice_by *all = memory_zeros(nranks * sizeof *all);
    int *members = making->members = malloc(nranks * sizeof *members);
    tutti_result_t result = split_among(making, all, members);
    if (result != TUTTI_SUCCESS)
        fail_child(making, result);
    memory_free_zeros(all, nranks * sizeof *all);
    free(members);
    return result;
}

/* ---- Shrink ---- */

static tutti_result_t make_remaining(struct making *making, const struct meeting_call *call, uint64_t id)
{
    tutti_result_t result = refusal(making);
    if (result == TUTTI_SUCCESS)
        result = child_open_team(making, id, call->members, call->count);
    if (result == TUTTI_SUCCESS)
        result = share_all(making->child);
    return result == TUTTI_SUCCESS ? comm_agree(making->child->team, TUTTI_SUCCESS)
                                   : result; /* in the meeting nobody said that he can */
}

static struct wire_abort cause_of(struct making *making, tutti_result_t result)
{
    const struct team *team = making->child ? making->child->team : NULL;
    if (team && atomic_load(&team->failed))
        return team->cause;
    return team_cause(making->parent->team, result, making->parent->team->rank, error_last());
}

static tutti_result_t shrink_to(struct making *making, const struct meeting_call *call)
{
    uint64_t id;
    struct meeting *meeting = &making->parent->meeting;
    tutti_result_t result = meeting_visit(meeting, call, &id);
    if (result == TUTTI_SUCCESS)
        result = make_remaining(making, call, id);
    if (making->refused != TUTTI_SUCCESS)
        result = refusal(making);
    if (result == TUTTI_SUCCESS) {
        meeting_end(meeting, NULL);
        return result;
    }
    fail_child(making, result);
    struct wire_abort cause = cause_of(making, result);
    meeting_end(meeting, &cause);
    return result;
}

static tutti_result_t run_shrink(struct making *making)
{
    int nranks = making->parent->team->nranks, *members = making->members = malloc((size_t)nranks * sizeof *members);
    struct meeting_call call = {.members = members,
                                .is_out = making->is_out,
                                .wrong = making->list_is_wrong,
                                .deadline = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT))};
    if (!members || !making->is_out) {
        free(members);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", nranks);
    }
    for (int rank = 0; rank < nranks; rank++)
        if (!making->is_out[rank])
            members[call.count++] = rank;
    tutti_result_t result = shrink_to(making, &call);
    free(members);
    return result;
}

/* ---- Now or later ---- */

/* The user, if he has the child already, finds how it ended. */
static void child_record(struct tutti_comm *child, tutti_result_t result)
{
    if (!child)
        return;
    snprintf(child->sentence, sizeof child->sentence, "%s", result == TUTTI_SUCCESS ? "" : error_last());
    atomic_store(&child->failed, result);
    atomic_store_explicit(&child->state, result == TUTTI_SUCCESS ? COMM_READY : COMM_FAILED, memory_order_release);
}

static tutti_result_t child_run(struct making *making)
{
    tutti_result_t result = making->shrinks ? run_shrink(making) : run_split(making);
    free(making->is_out);
    making->is_out = NULL;
    return result;
}

tutti_result_t making_run(struct making *making)
{
    tutti_result_t result = child_run(making);
    child_record(making->child, result);
    return result;
}

static void *child_maker(void *argument)
{
    struct making *making = argument;
    struct tutti_comm *parent = making->parent, *child = making->child;
    tutti_result_t result = child_run(making);
    free(making);
    atomic_store_explicit(&parent->state, COMM_READY,
                          memory_order_release); /* before the child's: a thread that has the child's uses both */
    child_record(child, result);
    if (child) {
        pthread_mutex_lock(&child->joining);
        atomic_store(&child->parent, NULL);
        pthread_mutex_unlock(&child->joining);
    }
    return NULL;
}

/* In a thread of the parent's, which nobody may use meanwhile. False: there is none to be had. */
static bool run_later(const struct making *wanted)
{
    struct tutti_comm *parent = wanted->parent, *child = wanted->child;
    struct making *making = malloc(sizeof *making);
    if (!making)
        return false;
    *making = *wanted;
    comm_join_wait(parent); /* a thread before this one has ended, but has not been waited for */
    if (child)
        atomic_store(&child->parent, parent);
    atomic_store(&parent->state, COMM_MAKING);
    pthread_mutex_lock(&parent->joining);
    bool runs = thread_start(&parent->maker, "tutti-maker", child_maker, making) == TUTTI_SUCCESS;
    pthread_mutex_unlock(&parent->joining);
    if (runs)
        return true;
    atomic_store(&parent->state, COMM_READY);
    if (child)
        atomic_store(&child->parent, NULL);
    free(making);
    return false;
}

tutti_result_t making_go(struct making *making, tutti_comm_t *out)
{
    struct tutti_comm *child = making->child;
    if (!making->blocking && out && making->refused == TUTTI_SUCCESS && run_later(making)) {
        *out = child;
        return TUTTI_IN_PROGRESS;
    }
    tutti_result_t result = making_run(making);
    return making_end(making, result, out);
}

tutti_result_t making_end(struct making *making, tutti_result_t result, tutti_comm_t *out)
{
    if (result == TUTTI_SUCCESS)
        *out = making->child;
    else if (making->child)
        comm_free(making->child);
    return result;
}
