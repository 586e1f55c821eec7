/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a team fails, and how its ranks come to say the same of it. The rank that notices first writes down the cause.
 * The cause travels with the news over links and through shared memory, and every rank that hears of it reports it
 * unchanged.
 */
#include "engine/failure.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/events.h"
#include "engine/links.h"
#include "engine/news.h"
#include "engine/shared.h"
#include "engine/shared_news.h"
#include "engine/team.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- The cause ---- */

/* Writes the sentence of the cause, with the rank that noticed and the time: other ranks repeat it, at other times. */
static void __attribute__((format(printf, 3, 4)))
write_text(const struct team *team, struct wire_abort *cause, const char *format, ...)
{
    struct timespec now;
    struct tm utc;
    char text[TEAM_SENTENCE], when[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    int suffix = snprintf(when, sizeof when, " (noticed by rank %d at %02d:%02d:%02d.%03d UTC)", team->rank,
                          utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(now.tv_nsec / 1000000));
    snprintf(cause->text, sizeof cause->text, "%.*s%s", (int)sizeof cause->text - 1 - suffix, text, when);
}

static int rank_of(const struct team *team, const uint8_t *uuid)
{
    for (int rank = 0; rank < team->nranks; rank++)
        if (rank != team->rank && wire_same_process(team_row(team, rank)->uuid, uuid))
            return rank;
    return -1;
}

static void blame_gone(const struct team *team, int rank, const char *why, struct wire_abort *cause)
{
    cause->cause = atomic_load(&team->gone[rank]) == WIRE_CAUSE_LEFT ? WIRE_CAUSE_LEFT : WIRE_CAUSE_LOST;
    cause->culprit = rank;
    memcpy(cause->lost, team_row(team, rank)->uuid, sizeof cause->lost);
    write_text(team, cause, "lost rank %d: %s", rank, why);
}

static void blame_gone_before(const struct team *team, int rank, int peer, struct wire_abort *cause)
{
    char why[100];
    snprintf(why, sizeof why, "process %u is gone, and rank %d has left after that", team_row(team, rank)->pid, peer);
    blame_gone(team, rank, why, cause);
}

static void keep_report(struct engine *engine, const struct wire_abort *news)
{
    struct reports *reports = &engine->reports;
    pthread_mutex_lock(&reports->lock);
    bool known = false;
    for (unsigned i = 0; i < ENGINE_REPORTS && i < reports->count; i++)
        known |= memcmp(reports->last[i].from, news->from, sizeof news->from) == 0 &&
                 memcmp(reports->last[i].lost, news->lost, sizeof news->lost) == 0;
    if (!known)
        reports->last[reports->count++ % ENGINE_REPORTS] = *news;
    pthread_mutex_unlock(&reports->lock);
}

/* A rank of the team whose process is gone by a report of the process `from`, on this or another communicator; -1:
 * none. NULL: by a report of any process that saw it die. */
static int reported_dead(const struct team *team, const uint8_t *from)
{
    struct reports *reports = &team->engine->reports;
    int found = -1;
    pthread_mutex_lock(&reports->lock);
    for (unsigned i = 0; i < ENGINE_REPORTS && i < reports->count && found < 0; i++)
        if (from ? memcmp(reports->last[i].from, from, WIRE_UUID_BYTES) == 0
                 : reports->last[i].cause == WIRE_CAUSE_LOST)
            found = rank_of(team, reports->last[i].lost);
    pthread_mutex_unlock(&reports->lock);
    return found;
}

/* A process that ends at once when it hears of a failure goes without a word, too. What it had passed on, or written,
 * tells it from the first process that was lost. */
static bool knew(const struct team *team, int rank)
{
    return (team->shared && shared_knew(team, rank)) || reported_dead(team, team_row(team, rank)->uuid) >= 0;
}

static int seen_dead(const struct team *team)
{
    for (int rank = 0; rank < team->nranks; rank++)
        if (atomic_load(&team->gone[rank]) == WIRE_CAUSE_LOST && !knew(team, rank))
            return rank;
    return -1;
}

/* The rank because of which `peer` left, as far as is known; -1: none. */
static int first_dead(const struct team *team, int peer)
{
    int dead = peer >= 0 ? reported_dead(team, team_row(team, peer)->uuid) : -1;
    bool left = peer < 0 || atomic_load(&team->gone[peer]) != WIRE_CAUSE_LOST;
    if (dead < 0 && left)
        dead = seen_dead(team);
    if (dead < 0 && left)
        dead = reported_dead(team, NULL);
    return dead >= 0 && knew(team, dead) ? -1 : dead;
}

/* ---- Failing ---- */

/* Collectives above `finished` fail from now on. Returns whether that is news. */
static bool lower_limit(struct team *team, uint32_t finished)
{
    uint32_t limit = atomic_load(&team->limit);
    while (finished < limit)
        if (atomic_compare_exchange_weak(&team->limit, &limit, finished))
            return true;
    return false;
}

/* Tells those who share memory, and, if `links` is set, the peers. */
static void failure_tell(struct team *team, bool first, bool links)
{
    if (team->shared)
        shared_tell_failure(team, first);
    if (team->whole) /* which tells the others, and their parts fail with theirs */
        return;
    atomic_store(&team->telling, true);
    if (!links)
        return;
    atomic_store(&team->flood, true);
    atomic_store(&team->engine->floods, true);
    poller_wake(team->engine->poller);
}

void team_is_gone(struct team *team, int rank, enum wire_cause how)
{
    uint32_t pid = team_row(team, rank)->pid;
    if (atomic_exchange(&team->gone[rank], how) == WIRE_CAUSE_LOST || how != WIRE_CAUSE_LOST || team->untold)
        return;
    events_tell(&(tutti_event_t){.kind = TUTTI_EVENT_LOST, .rank = rank, .lane = -1, .process = pid},
                "rank %d (process %u) of a communicator of %d ranks is gone", rank, pid, team->nranks);
}

static void parts_fail(struct team *whole);

static uint32_t failure_process(const struct team *team, int rank)
{
    return rank >= 0 && rank < team->nranks ? team_row(team, rank)->pid : 0;
}

/* Waits for a thread that is about to fail the team. */
static bool has_failed(const struct team *team)
{
    unsigned turn = 0;
    while (atomic_load(&team->failing) && !atomic_load_explicit(&team->failed, memory_order_acquire))
        backoff(&turn);
    return atomic_load_explicit(&team->failed, memory_order_acquire) != 0;
}

/* links: false where a rank of this process has told the peers. */
static tutti_result_t failure_fail(struct team *team, const struct wire_abort *cause, bool links)
{
    if (atomic_exchange(&team->failing, true)) {
        has_failed(team);
        return team_failure(team);
    }
    team->cause = *cause;
    if (!team->whole) /* a part's failure is its whole's */
        trace_comm_failed(team->trace, (tutti_result_t)cause->result, cause->culprit, cause->text);
    if (!team->untold)
        events_tell(&(tutti_event_t){.kind = TUTTI_EVENT_FAILED,
                                     .rank = cause->culprit,
                                     .lane = -1,
                                     .process = failure_process(team, cause->culprit)},
                    "%s", cause->text);
    failure_tell(team, true, links); /* before anybody here can know */
    atomic_store_explicit(&team->failed, cause->result, memory_order_release);
    team_tell_news(team);
    parts_fail(team);
    return (team->untold ? error_note : error_set)((tutti_result_t)cause->result, "rank %d: %s",
                                                   team_told_rank(team, team->rank), cause->text);
}

/* ---- Parts: what fails is the whole, and all its parts with it, by its numbers of ranks ---- */

static tutti_result_t part_fail(struct team *part)
{
    return failure_fail(part, &part->whole->cause, true);
}

static void parts_fail(struct team *whole)
{
    pthread_mutex_lock(&whole->parts_lock);
    list_each(node, &whole->parts) part_fail(list_entry(node, struct team, part));
    pthread_mutex_unlock(&whole->parts_lock);
}

void failure_join_whole(struct team *part)
{
    pthread_mutex_lock(&part->whole->parts_lock);
    list_push(&part->whole->parts, &part->part);
    pthread_mutex_unlock(&part->whole->parts_lock);
    if (atomic_load_explicit(&part->whole->failed, memory_order_acquire))
        part_fail(part);
}

void failure_leave_whole(struct team *part)
{
    pthread_mutex_lock(&part->whole->parts_lock);
    list_remove(&part->part);
    pthread_mutex_unlock(&part->whole->parts_lock);
}

static void stop_behind(struct team *team, uint32_t finished)
{
    bool lowered = lower_limit(team, finished);
    atomic_store(&team->stopped, true);
    if (lowered && atomic_load(&team->failed))
        failure_tell(team, false, true);
}

void team_stop(struct team *team)
{
    stop_behind(team, atomic_load(&team->finished));
}

struct wire_abort team_cause(const struct team *team, tutti_result_t result, int culprit, const char *sentence)
{
    struct wire_abort cause = {.culprit = culprit, .result = (int32_t)result, .cause = WIRE_CAUSE_ERROR};
    write_text(team, &cause, "%s", sentence);
    memcpy(cause.from, team_row(team, team->rank)->uuid, sizeof cause.from);
    return cause;
}

static tutti_result_t part_fails_whole(struct team *part, tutti_result_t result, int culprit, const char *sentence)
{
    team_stop(part);
    team_fail(part->whole, result, team_told_rank(part, culprit), sentence);
    return part_fail(part);
}

tutti_result_t team_fail(struct team *team, tutti_result_t result, int culprit, const char *sentence)
{
    if (team->whole)
        return part_fails_whole(team, result, culprit, sentence);
    struct wire_abort cause = team_cause(team, result, culprit, sentence);
    stop_behind(team, result == TUTTI_INVALID_USAGE
                          ? 0
                          : atomic_load(&team->finished)); /* where calls differ, what one has finished says nothing */
    return failure_fail(team, &cause, true);
}

struct wire_abort team_blame(const struct team *team, int peer, const char *why)
{
    struct wire_abort cause = {.culprit = peer, .result = TUTTI_REMOTE_ERROR, .cause = WIRE_CAUSE_LEFT};
    int dead = first_dead(team, peer);
    if (dead >= 0 && dead != peer)
        blame_gone_before(team, dead, peer, &cause);
    else
        blame_gone(team, peer, why, &cause);
    memcpy(cause.from, team_row(team, team->rank)->uuid, sizeof cause.from);
    return cause;
}

tutti_result_t team_lose(struct team *team, int peer, const char *why)
{
    if (team->whole) {
        team_stop(team);
        team_lose(team->whole, team->in_whole[peer], why);
        return part_fail(team);
    }
    struct wire_abort cause = team_blame(team, peer, why);
    team_stop(team);
    return failure_fail(team, &cause, true);
}

/* Resources of another rank are not ours: its fault is remote. */
tutti_result_t failure_here(tutti_result_t there)
{
    return there == TUTTI_INVALID_USAGE || there == TUTTI_INVALID_ARGUMENT ? there : TUTTI_REMOTE_ERROR;
}

/* What another rank gave to its call is not ours. What it gave for the making of a communicator has no culprit there.
 */
static tutti_result_t heard(const struct wire_abort *news)
{
    bool of_a_call = news->result == TUTTI_INVALID_ARGUMENT && news->culprit >= 0;
    return of_a_call ? TUTTI_REMOTE_ERROR : failure_here((tutti_result_t)news->result);
}

/* All ranks of this process have the same links, so one of them tells the peers what all hear. *told: the least limit
 * that the peers are told from here; another rank tells them, too, if its own is lower. */
struct hearing {
    const struct wire_abort *news;
    uint64_t told;
};

static struct hearing hearing_of(const struct team *team, const struct wire_abort *news)
{
    bool own = wire_same_process(news->from, team_row(team, team->rank)->uuid);
    return (struct hearing){news, own ? news->finished : UINT64_MAX};
}

static bool tells_links(const struct team *team, struct hearing *hearing)
{
    uint32_t limit = atomic_load(&team->limit);
    if (limit >= hearing->told)
        return false;
    hearing->told = limit;
    return true;
}

static struct wire_abort heard_cause(const struct team *team, const struct wire_abort *news)
{
    struct wire_abort cause = *news;
    int dead = news->cause == WIRE_CAUSE_LEFT ? first_dead(team, -1) : -1;
    cause.text[sizeof cause.text - 1] = 0;
    cause.result = (int32_t)heard(news);
    if (dead >= 0 && dead != news->culprit)
        blame_gone_before(team, dead, news->culprit, &cause);
    return cause;
}

/* A team that has failed mostly knows: each peer tells it. */
static void whole_hears(struct team *team, struct hearing *hearing)
{
    bool failed = has_failed(team), lowered = lower_limit(team, hearing->news->finished);
    if (failed && lowered)
        failure_tell(team, false, tells_links(team, hearing));
    if (failed)
        return;
    struct wire_abort cause = heard_cause(team, hearing->news);
    failure_fail(team, &cause, tells_links(team, hearing));
}

/* News from a part's peer: the whole's cause, but with what the part has finished. The whole's own news say how far it
 * goes on. */
static void part_hears(struct team *part, const struct wire_abort *news)
{
    struct wire_abort cause = *news;
    if (lower_limit(part, news->finished) && atomic_load(&part->failed))
        failure_tell(part, false, false);
    cause.finished = UINT32_MAX;
    team_hear(part->whole, &cause);
    part_fail(part);
}

static void team_hears(struct team *team, struct hearing *hearing)
{
    if (team->whole)
        part_hears(team, hearing->news);
    else
        whole_hears(team, hearing);
}

tutti_result_t team_hear(struct team *team, const struct wire_abort *news)
{
    struct hearing hearing = hearing_of(team, news);
    team_hears(team, &hearing);
    return team_failure(team);
}

tutti_result_t team_fail_transfer(struct team *team, int peer, tutti_result_t result, const char *why)
{
    return result == TUTTI_REMOTE_ERROR ? team_lose(team, peer, why) : team_fail(team, result, peer, why);
}

tutti_result_t team_refuse(struct team *team, struct wire_call mine, int peer, struct wire_call theirs, uint32_t seq)
{
    char sentence[TEAM_SENTENCE], here[WIRE_CALL_TEXT], there[WIRE_CALL_TEXT];
    snprintf(sentence, sizeof sentence,
             "rank %d called %s, rank %d called %s: operation %u differs; all ranks must make the same calls",
             team_told_rank(team, team->rank), wire_call_text(mine, here, sizeof here), team_told_rank(team, peer),
             wire_call_text(theirs, there, sizeof there), seq);
    return team_fail(team, TUTTI_INVALID_USAGE, peer, sentence);
}

/* Does the whole go on with its collective of that number? What belongs to none ends: the rank that has it may never
 * come. */
static bool whole_allows(const struct team *whole, uint32_t seq)
{
    return !whole || (!atomic_load(&whole->stopped) && seq != TEAM_NO_SEQ && seq <= atomic_load(&whole->limit));
}

bool team_allows(struct team *team, const struct op *op)
{
    return !atomic_load(&team->stopped) && (!op->kind->counted || op->seq <= atomic_load(&team->limit)) &&
           whole_allows(team->whole, op->whole_seq);
}

bool team_takes_collective(const struct team *team)
{
    return !atomic_load(&team->stopped) && atomic_load(&team->seq) < atomic_load(&team->limit) &&
           whole_allows(team->whole, team_whole_seq(team));
}

void team_end_calls(struct team *team)
{
    if (atomic_load(&team->failed) && lower_limit(team, atomic_load(&team->seq)))
        failure_tell(team, false, true);
}

tutti_result_t team_failure(const struct team *team)
{
    tutti_result_t result = (tutti_result_t)atomic_load_explicit(&team->failed, memory_order_acquire);
    return result == TUTTI_SUCCESS
               ? result
               : error_note(result, "rank %d: %s", team_told_rank(team, team->rank), team->cause.text);
}

/* ---- News ---- */

void failure_heard(struct engine *engine, uint64_t comm, const struct wire_abort *news)
{
    bool known = false;
    struct hearing hearing;
    if (news->cause != WIRE_CAUSE_ERROR)
        keep_report(engine, news);
    if (news->cause == WIRE_CAUSE_LOST)
        link_mourn(engine->links, news->lost);
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        if (team->id != comm)
            continue;
        if (!known)
            hearing = hearing_of(team, news);
        known = true;
        if (atomic_load(&team->failing) || !team_excuses(team, news))
            team_hears(team, &hearing);
    }
    if (!known)
        engine->early[engine->earlies++ % ENGINE_EARLY] = (struct early_failure){comm, *news};
}

void failure_heard_early(struct team *team)
{
    struct engine *engine = team->engine;
    for (unsigned i = 0; i < ENGINE_EARLY && i < engine->earlies; i++)
        if (engine->early[i].comm == team->id)
            team_hear(team, &engine->early[i].news);
}

struct wire_abort team_news(const struct team *team)
{
    struct wire_abort news = team->cause;
    news.finished = atomic_load(&team->limit);
    memcpy(news.from, team_row(team, team->rank)->uuid, sizeof news.from);
    return news;
}

/* Not one that is lost: a wait until peers have heard would last until connecting to it has failed. cause: that of a
 * sibling, perhaps, as the team's own may be written just now. */
static void meet_rank(struct team *team, int rank, const struct wire_abort *cause)
{
    struct link *link;
    bool lost = cause->cause != WIRE_CAUSE_ERROR && wire_same_process(team_row(team, rank)->uuid, cause->lost);
    if (!lost && !atomic_load(&team->gone[rank]))
        team_link(team, rank, &link);
}

static void meet_at_distances(struct team *team, int most, const struct wire_abort *cause)
{
    for (int distance = 1; distance < team->nranks && distance <= most; distance *= 2) {
        meet_rank(team, (team->rank + distance) % team->nranks, cause);
        meet_rank(team, (team->rank + team->nranks - distance) % team->nranks, cause);
    }
}

/* The news goes over links that are there. Some more are made, so that the news reaches ranks that have met none that
 * knows: they would blame a rank that has left because of the failure. The ranks of this process meet their neighbours,
 * and one of them meets others. Ranks that share memory find the news there. */
static void meet_some(struct team *team)
{
    if (team->shared || team->met_some)
        return;
    list_each(node, &team->engine->teams)
    {
        struct team *sibling = list_entry(node, struct team, node);
        if (sibling->id != team->id || sibling->met_some)
            continue;
        meet_at_distances(sibling, sibling == team ? INT_MAX : 1, &team->cause);
        sibling->met_some = true;
    }
}

static void flood_team(struct team *team)
{
    struct engine *engine = team->engine;
    struct wire_abort news = team_news(team);
    meet_some(team);
    link_abort_all(engine->links, team->id, &news);
    engine->flooded++;
    failure_heard(engine, team->id, &news);
}

void failure_flood(struct engine *engine)
{
    while (atomic_load_explicit(&engine->floods, memory_order_relaxed) && atomic_exchange(&engine->floods, false))
        list_each(node, &engine->teams)
        {
            struct team *team = list_entry(node, struct team, node);
            if (atomic_exchange(&team->flood, false))
                flood_team(team);
        }
}
