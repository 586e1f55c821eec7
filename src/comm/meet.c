/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words go along a tree of the members. A member that comes says so to its neighbours. A member that has all below it
 * says that upwards. When all are there, the first member draws the new communicator's number and sends it down. Every
 * memo names the visits of both ends. So what is said of an attempt that failed touches no later one, whichever members
 * are late or come again. A member that leaves tells its neighbours why, and ends their visits that it met. It owes
 * that end to neighbours that had not come yet: their next visit, of the failed attempt, ends when it begins.
 */
#include "comm/meet.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/memos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 50 /* between two looks at what wakes nobody: an abort, the time, a peer's silence */
#define WARN_MS 60000

struct meet_arrival {
    struct list node;
    int rank;
    uint64_t visit;      /* 0: it has left */
    uint64_t ready;      /* our visit in which it said that all below it are here */
    uint64_t seen;       /* its visit when ours ended: later visits are for the next attempt */
    uint32_t owed, owes; /* visits that we will end, and it */
    bool met;            /* it was at our attempt, too */
    struct wire_list list;
};

/* ---- What others say ---- */

static struct meet_arrival *find_arrival(const struct meeting *meeting, int rank)
{
    list_each(node, (struct list *)&meeting->arrivals)
    {
        struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        if (arrival->rank == rank)
            return arrival;
    }
    return NULL;
}

/* The neighbour's visit that goes on, of the same attempt as ours; 0: none. */
static uint64_t visit_of(const struct meet_arrival *arrival)
{
    return arrival && !arrival->owes ? arrival->visit : 0;
}

static void remember_arrivals(struct meeting *meeting)
{
    list_each(node, &meeting->arrivals)
    {
        struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        arrival->seen = visit_of(arrival);
    }
}

static void decide(struct meeting *meeting, uint64_t child)
{
    meeting->child = child;
    remember_arrivals(meeting);
}

static void meet_fail(struct meeting *meeting, const struct wire_abort *why)
{
    struct wire_abort news = *why;
    if (meeting->failed)
        return;
    if (!meeting->child)
        remember_arrivals(meeting);
    meeting->failed = true;
    meeting->why = *why;
    if (meeting->stop)
        atomic_store(meeting->stop, grow_stop(meeting->team, why));
    memset(news.from, 0, sizeof news.from); /* the new communicator's peers have heard nothing of it, */
    news.culprit = -1;                      /* and have other numbers there */
    if (meeting->child)
        failure_heard(meeting->team->engine, meeting->child, &news);
}

static struct meet_arrival *make_arrival(struct meeting *meeting, int rank)
{
    struct meet_arrival *arrival = find_arrival(meeting, rank);
    if (arrival)
        return arrival;
    arrival = calloc(1, sizeof *arrival);
    if (!arrival) { /* it will wait for us in vain, unless our visit ends */
        struct wire_abort why =
            team_cause(meeting->team, TUTTI_SYSTEM_ERROR, meeting->team->rank, "no memory for what another rank says");
        meet_fail(meeting, &why);
        return NULL;
    }
    arrival->rank = rank;
    list_push(&meeting->arrivals, &arrival->node);
    return arrival;
}

/* Is the attempt of ours that has failed the one for which the arrival has yet to come? Where lists differ, so may
 * neighbours: a neighbour that has not come here may have failed elsewhere. */
static bool owed_this(const struct meeting *meeting, const struct meet_arrival *arrival)
{
    return !arrival->met && !arrival->owes && meeting->why.result != TUTTI_INVALID_USAGE;
}

/* A neighbour that came too late for an attempt that failed hears of the failure, whatever we are at. */
static void came(struct meeting *meeting, int from, const struct wire_memo *memo)
{
    struct meet_arrival *arrival = make_arrival(meeting, from);
    struct wire_memo answer = {
        .kind = WIRE_MEMO_LEAVE, .visit = UINT64_MAX, .yours = memo->visit, .why = meeting->missed};
    if (!arrival)
        return;
    arrival->owes = memo->owes;
    if (arrival->owed) {
        answer.owes = --arrival->owed;
        team_say(meeting->team, from, &answer);
        return;
    }
    arrival->visit = memo->visit;
    arrival->list = memo->list;
    if (meeting->visit && meeting->failed && owed_this(meeting, arrival))
        arrival->seen = arrival->visit; /* our leaving, which is to come, ends it */
    arrival->met |= meeting->visit && (!meeting->failed || arrival->seen);
}

static void meet_left(struct meeting *meeting, int from, const struct wire_memo *memo)
{
    struct meet_arrival *arrival = make_arrival(meeting, from);
    bool here = meeting->visit && memo->yours == meeting->visit;
    if (!arrival)
        return;
    arrival->met |= here;
    if (arrival->visit == memo->visit || !memo->visit)
        arrival->visit = 0;
    struct wire_abort why = memo->why;
    why.result = (int32_t)failure_here((tutti_result_t)why.result);
    if (here)
        meet_fail(meeting, &why);
    arrival->owes = memo->owes; /* not before: its visit that goes on does not concern ours */
}

/* Another member knows where newcomers wait. */
static void meet_learn(struct meeting *meeting, int from, const uint8_t id[WIRE_ID_BYTES])
{
    char sentence[TEAM_SENTENCE];
    _Static_assert(sizeof meeting->id == WIRE_ID_BYTES, "the memo holds an id");
    if (!meeting->id.bytes[0])
        memcpy(&meeting->id, id, sizeof meeting->id);
    if (!id[0] || memcmp(&meeting->id, id, sizeof meeting->id) == 0)
        return;
    snprintf(sentence, sizeof sentence, "two members pass an id to %s; only the one that made the id may pass it",
             meeting->what);
    struct wire_abort why = team_cause(meeting->team, TUTTI_INVALID_USAGE, from, sentence);
    meet_fail(meeting, &why);
}

static void meet_hear(void *context, int from, const struct wire_memo *memo)
{
    struct meeting *meeting = context;
    struct meet_arrival *arrival = find_arrival(meeting, from);
    bool here = meeting->visit && memo->yours == meeting->visit;
    meeting->came = true;
    if (memo->kind == WIRE_MEMO_CONSENT && meeting->consents)
        meeting->consents(meeting->consents_context, from, memo);
    switch (memo->kind) {
    case WIRE_MEMO_COME:
        came(meeting, from, memo);
        break;
    case WIRE_MEMO_READY:
        if (!here || !arrival || arrival->visit != memo->visit)
            break;
        arrival->ready = meeting->visit;
        meet_learn(meeting, from, memo->id);
        break;
    case WIRE_MEMO_GO:
        if (!here || from != meeting->up || meeting->failed)
            break;
        memcpy(&meeting->id, memo->id, sizeof meeting->id);
        decide(meeting, memo->child);
        break;
    case WIRE_MEMO_LEAVE:
        meet_left(meeting, from, memo);
        break;
    }
}

void meeting_open(struct meeting *meeting, struct team *team)
{
    meeting->team = team;
    list_init(&meeting->arrivals);
    team_on_memos(team, meet_hear, meeting);
}

void meeting_close(struct meeting *meeting)
{
    char sentence[60];
    struct list *node;
    if (!meeting->team)
        return;
    snprintf(sentence, sizeof sentence, "rank %d destroyed the communicator", meeting->team->rank);
    struct wire_abort why = team_cause(meeting->team, TUTTI_REMOTE_ERROR, meeting->team->rank, sentence);
    team_on_memos(meeting->team, NULL, NULL);
    lock_take(&meeting->team->engine->lock);
    while ((node = list_pop(&meeting->arrivals))) {
        struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        struct wire_memo memo = {.kind = WIRE_MEMO_LEAVE, .yours = arrival->visit, .why = why};
        if (arrival->visit)
            team_say(meeting->team, arrival->rank, &memo);
        free(arrival);
    }
    lock_release(&meeting->team->engine->lock);
}

/* ---- What is wrong ---- */

static tutti_result_t fail_for(struct meeting *meeting, struct wire_abort why)
{
    meet_fail(meeting, &why);
    return TUTTI_IN_PROGRESS; /* the next look finds it */
}

/* "ranks 3 and 5" */
static void write_list(const struct wire_list *list, char *out, size_t size)
{
    int count = list->count, shown = count < WIRE_MEMO_SHOWN ? count : WIRE_MEMO_SHOWN;
    size_t used = (size_t)snprintf(out, size,
                                   count < 0    ? "what it cannot"
                                   : count == 0 ? "nobody"
                                   : count == 1 ? "rank"
                                                : "ranks");
    for (int i = 0; i < shown && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %d",
                                 i == 0           ? ""
                                 : i == count - 1 ? " and"
                                                  : ",",
                                 list->first[i]);
    if (shown < count && used < size)
        snprintf(out + used, size - used, " and %d more", count - shown);
}

static tutti_result_t differ(struct meeting *meeting, const struct meet_arrival *arrival)
{
    char here[260], there[260], sentence[TEAM_SENTENCE];
    write_list(&meeting->list, here, sizeof here);
    write_list(&arrival->list, there, sizeof there);
    if (meeting->list.nranks != arrival->list.nranks)
        snprintf(sentence, sizeof sentence,
                 "rank %d wants %d ranks of the new communicator, rank %d wants %d (0: it shrinks it): pass the same "
                 "number on all members",
                 meeting->team->rank, meeting->list.nranks, arrival->rank, arrival->list.nranks);
    else
        snprintf(sentence, sizeof sentence,
                 "rank %d excludes %s, rank %d excludes %s: tutti_comm_shrink() takes the same list on all ranks that "
                 "remain",
                 meeting->team->rank, here, arrival->rank, there);
    return fail_for(meeting, team_cause(meeting->team, TUTTI_INVALID_USAGE, arrival->rank, sentence));
}

static bool differs(const struct meeting *meeting, const struct meet_arrival *arrival)
{
    return visit_of(arrival) && !meeting->is_out[arrival->rank] &&
           (arrival->list.hash != meeting->list.hash || arrival->list.count != meeting->list.count ||
            arrival->list.nranks != meeting->list.nranks);
}

static tutti_result_t meet_is_silent(struct meeting *meeting, int rank, uint64_t silence)
{
    char sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d (process %u) has given no sign of life for %.1f s, in which %s waited for it (TUTTI_TIMEOUT, "
             "config.timeout_ms)",
             rank, team_row(meeting->team, rank)->pid, (double)silence / NS_PER_S, meeting->what);
    return fail_for(meeting, team_cause(meeting->team, TUTTI_REMOTE_ERROR, rank, sentence));
}

/* The rank may have left because of another's death; but not of one that all of this meeting leave out. */
static tutti_result_t meet_is_gone(struct meeting *meeting, int rank)
{
    struct team *team = meeting->team;
    char why[100], sentence[TEAM_SENTENCE];
    snprintf(why, sizeof why, "process %u is gone, and %s needs it", team_row(team, rank)->pid, meeting->what);
    struct wire_abort cause = team_blame(team, rank, why);
    if (cause.culprit < 0 || !meeting->is_out[cause.culprit])
        return fail_for(meeting, cause);
    snprintf(sentence, sizeof sentence, "lost rank %d: %s", rank, why);
    return fail_for(meeting, team_cause(team, TUTTI_REMOTE_ERROR, rank, sentence));
}

/* Ranks that live may be late without limit. */
static tutti_result_t meet_look_at(struct meeting *meeting, int rank)
{
    struct team *team = meeting->team;
    struct link *link;
    if (team_is_here(team, rank))
        return TUTTI_IN_PROGRESS;
    tutti_result_t result = team_link(team, rank, &link);
    if (result != TUTTI_SUCCESS)
        return fail_for(meeting, team_cause(team, result, team->rank, error_last()));
    if (link_is_lost(link))
        return meet_is_gone(meeting, rank);
    uint64_t silence = engine_silence(team->engine, link, clock_ns());
    return silence >= team->timeout_ms * NS_PER_MS ? meet_is_silent(meeting, rank, silence) : TUTTI_IN_PROGRESS;
}

/* Members may wait in the parent for this rank, which issues nothing there any more. While they wait for another rank
 * first, they would not find out that the process of a rank to be left out has ended. Whether this rank ever met that
 * process says nothing: the rank may have heard of the end elsewhere. */
static void look_for_dead(struct meeting *meeting)
{
    struct team *team = meeting->team;
    struct link *link;
    for (int rank = 0; rank < team->nranks && !atomic_load(&team->failed); rank++) {
        if (!meeting->is_out[rank] || team_is_here(team, rank) || team_link(team, rank, &link) != TUTTI_SUCCESS)
            continue;
        char why[100];
        snprintf(why, sizeof why, "process %u is gone", team_row(team, rank)->pid);
        if (link_is_lost(link))
            team_lose(team, rank, why);
    }
}

/* A communicator that grows is whole: a member that has heard of a failure does not come any more. */
static void look_for_failure(struct meeting *meeting)
{
    struct team *team = meeting->team;
    if (!meeting->list.nranks || !atomic_load(&team->failed))
        return;
    fail_for(meeting, team_news(team));
}

static void meet_look(struct meeting *meeting)
{
    look_for_dead(meeting);
    look_for_failure(meeting);
    list_each(node, &meeting->arrivals)
    {
        const struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        if (differs(meeting, arrival))
            differ(meeting, arrival);
    }
    for (int i = 0; i < meeting->belows; i++)
        meet_look_at(meeting, meeting->below[i]);
    if (meeting->up >= 0)
        meet_look_at(meeting, meeting->up);
}

/* ---- Going on ---- */

static void meet_say(struct meeting *meeting, int to, struct wire_memo memo)
{
    const struct meet_arrival *arrival = find_arrival(meeting, to);
    memo.visit = meeting->visit;
    memo.yours = visit_of(arrival);
    memo.owes = arrival ? arrival->owed : 0;
    tutti_result_t result = team_say(meeting->team, to, &memo);
    if (result != TUTTI_SUCCESS)
        fail_for(meeting, team_cause(meeting->team, result, meeting->team->rank, error_last()));
}

static void come(struct meeting *meeting)
{
    struct wire_memo memo = {.kind = WIRE_MEMO_COME, .list = meeting->list};
    for (int i = 0; i < meeting->belows; i++)
        meet_say(meeting, meeting->below[i], memo);
    if (meeting->up >= 0)
        meet_say(meeting, meeting->up, memo);
}

/* A rank below that is not here with all below it; -1: none. */
static int missing_below(const struct meeting *meeting)
{
    for (int i = 0; i < meeting->belows; i++) {
        const struct meet_arrival *arrival = find_arrival(meeting, meeting->below[i]);
        if (!visit_of(arrival) || arrival->ready != meeting->visit)
            return meeting->below[i];
    }
    return -1;
}

static void meet_draw(struct meeting *meeting)
{
    uint64_t child;
    if (meeting->list.nranks && !meeting->id.bytes[0])
        fail_for(meeting, team_cause(meeting->team, TUTTI_INVALID_USAGE, -1,
                                     "no member passes an id to tutti_comm_grow(); the member that called "
                                     "tutti_comm_get_unique_id() must pass it"));
    else if (random_bytes(&child, sizeof child) == TUTTI_SUCCESS)
        decide(meeting, child);
    else
        fail_for(meeting, team_cause(meeting->team, TUTTI_SYSTEM_ERROR, meeting->team->rank, error_last()));
}

static tutti_result_t meet_advance(struct meeting *meeting)
{
    uint64_t above = meeting->up < 0 ? 0 : visit_of(find_arrival(meeting, meeting->up));
    if (missing_below(meeting) >= 0)
        return TUTTI_IN_PROGRESS;
    if (meeting->up < 0)
        meet_draw(meeting);
    if (above && above != meeting->told) {
        struct wire_memo memo = {.kind = WIRE_MEMO_READY};
        memcpy(memo.id, &meeting->id, sizeof memo.id);
        meet_say(meeting, meeting->up, memo);
        meeting->told = above;
    }
    if (!meeting->child)
        return TUTTI_IN_PROGRESS;
    struct wire_memo go = {.kind = WIRE_MEMO_GO, .child = meeting->child};
    memcpy(go.id, &meeting->id, sizeof go.id);
    for (int i = 0; i < meeting->belows; i++)
        meet_say(meeting, meeting->below[i], go);
    return TUTTI_SUCCESS;
}

static int meet_awaited(const struct meeting *meeting)
{
    int below = missing_below(meeting);
    return below >= 0 ? below : meeting->up;
}

static tutti_result_t meet_attempt(struct meeting *meeting)
{
    tutti_result_t result = TUTTI_IN_PROGRESS;
    meet_look(meeting);
    if (!meeting->failed)
        result = meet_advance(meeting);
    return meeting->failed
               ? error_set((tutti_result_t)meeting->why.result, "rank %d: %s", meeting->team->rank, meeting->why.text)
               : result;
}

/* A member that misses a rank below it gives up before those above it do, which know less. */
static void meet_watch(struct meeting *meeting, unsigned aborts, uint64_t early, uint64_t deadline)
{
    char sentence[200];
    struct team *team = meeting->team;
    int rank = meet_awaited(meeting);
    bool aborted = atomic_load(&meeting->aborts) != aborts || (meeting->stop && atomic_load(meeting->stop));
    if (aborted)
        snprintf(sentence, sizeof sentence, "rank %d aborted the communicator in %s", team->rank, meeting->what);
    else if (clock_passed(missing_below(meeting) >= 0 ? early : deadline))
        snprintf(sentence, sizeof sentence,
                 "rank %d has not called %s within TUTTI_INIT_TIMEOUT, or waits for other ranks in it", rank,
                 meeting->what);
    else
        return;
    fail_for(meeting, team_cause(team, TUTTI_REMOTE_ERROR, aborted ? team->rank : rank, sentence));
}

static void meet_warn(const struct meeting *meeting, uint64_t since, uint64_t *next)
{
    if (!clock_passed(*next))
        return;
    *next = clock_deadline_ms(WARN_MS);
    log_warn("rank %d has waited %.0f s in %s for rank %d, which has not called it with the same arguments, or waits "
             "for others there",
             meeting->team->rank, (double)(clock_ns() - since) / NS_PER_S, meeting->what, meet_awaited(meeting));
}

static tutti_result_t meet_wait_for_all(struct meeting *meeting, unsigned aborts, uint64_t deadline)
{
    struct engine *engine = meeting->team->engine;
    uint64_t since = clock_ns(), early = deadline - (deadline > since ? (deadline - since) / 8 : 0);
    uint64_t next = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_WARN));
    for (;;) {
        lock_take(&engine->lock);
        meeting->came = false;
        engine_poll(engine);
        tutti_result_t result = meet_attempt(meeting);
        if (result == TUTTI_IN_PROGRESS)
            meet_watch(meeting, aborts, early, deadline);
        if (result == TUTTI_IN_PROGRESS)
            meet_warn(meeting, since, &next);
        lock_release(&engine->lock);
        if (result != TUTTI_IN_PROGRESS)
            return result;
        engine_sleep_until(engine, &meeting->came, LOOK_MS);
    }
}

static void meet_place(struct meeting *meeting, const struct meeting_call *call)
{
    int mine = 0;
    while (call->members[mine] != meeting->team->rank)
        mine++;
    meeting->up = mine ? call->members[(mine - 1) / MEET_BRANCHES] : -1;
    meeting->belows = 0;
    for (int i = MEET_BRANCHES * mine + 1; i <= MEET_BRANCHES * (mine + 1) && i < call->count; i++)
        meeting->below[meeting->belows++] = call->members[i];
}

static void meet_write_down(struct meeting *meeting, const struct meeting_call *call)
{
    struct wire_list *list = &meeting->list;
    *list = (struct wire_list){.nranks = call->nranks};
    for (int rank = 0; rank < meeting->team->nranks; rank++) {
        if (!call->is_out[rank])
            continue;
        if (list->count < WIRE_MEMO_SHOWN)
            list->first[list->count] = rank;
        list->count++;
        list->hash = mix64(list->hash + (uint64_t)rank + 1);
    }
    if (call->wrong)
        list->count = -1;
}

void meeting_stop(struct meeting *meeting)
{
    lock_take(&meeting->team->engine->lock);
    if (meeting->stop)
        atomic_store(meeting->stop, BOOTSTRAP_ABORT);
    lock_release(&meeting->team->engine->lock);
}

tutti_result_t meeting_visit(struct meeting *meeting, const struct meeting_call *call, uint64_t *child)
{
    unsigned aborts = atomic_load(&meeting->aborts);
    lock_take(&meeting->team->engine->lock);
    meeting->visit = ++meeting->visits;
    meeting->is_out = call->is_out;
    meeting->team->stays_away = call->nranks ? NULL : call->is_out; /* one that grows works on */
    meeting->team->away_since = clock_ns();
    meeting->what = call->nranks ? "tutti_comm_grow()" : "tutti_comm_shrink()";
    meeting->stop = call->stop;
    meeting->id = call->id ? *call->id : (tutti_unique_id_t){{0}};
    meeting->told = meeting->child = 0;
    meeting->failed = false;
    meet_place(meeting, call);
    meet_write_down(meeting, call);
    list_each(node, &meeting->arrivals)
    {
        struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        arrival->met = visit_of(arrival);
    }
    come(meeting);
    lock_release(&meeting->team->engine->lock);
    tutti_result_t result = meet_wait_for_all(meeting, aborts, call->deadline);
    *child = meeting->child;
    return result;
}

static void meet_part(struct meeting *meeting, int rank)
{
    struct meet_arrival *arrival = make_arrival(meeting, rank);
    struct wire_memo memo = {.kind = WIRE_MEMO_LEAVE, .visit = meeting->visit, .why = meeting->why};
    if (arrival) {
        arrival->owed += owed_this(meeting, arrival);
        memo.yours = arrival->seen;
        memo.owes = arrival->owed;
    }
    team_say(meeting->team, rank, &memo);
}

/* From neighbours, and from whoever else was here with another list. */
static void meet_leave(struct meeting *meeting)
{
    list_each(node, &meeting->arrivals)
    {
        const struct meet_arrival *arrival = list_entry(node, struct meet_arrival, node);
        if (arrival->seen && differs(meeting, arrival))
            meet_part(meeting, arrival->rank);
    }
    for (int i = 0; i < meeting->belows; i++)
        meet_part(meeting, meeting->below[i]);
    if (meeting->up >= 0)
        meet_part(meeting, meeting->up);
    meeting->missed = meeting->why;
}

/* What was of this attempt is over. */
static void meet_dismiss(const struct meeting *meeting, struct meet_arrival *arrival)
{
    if (arrival->visit == arrival->seen && !meeting->is_out[arrival->rank])
        arrival->visit = 0;
    arrival->ready = arrival->seen = 0;
    arrival->met = false;
}

void meeting_end(struct meeting *meeting, const struct wire_abort *cause)
{
    lock_take(&meeting->team->engine->lock);
    if (cause)
        meet_fail(meeting, cause);
    if (cause)
        meet_leave(meeting);
    list_each(node, &meeting->arrivals) meet_dismiss(meeting, list_entry(node, struct meet_arrival, node));
    meeting->visit = 0;
    meeting->stop = NULL;
    meeting->team->stays_away = NULL;
    lock_release(&meeting->team->engine->lock);
}
