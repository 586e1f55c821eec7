/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that last. A peer that lives may be late without limit; a peer that gives no sign of life is given up. Half of
 * the patience goes by before the peer is asked, the other half for the answer: so links that nothing else needs are
 * opened for long waits only.
 */
#include "engine/watch.h"

#include "base/clock.h"
#include "base/events.h"
#include "base/log.h"
#include "base/param.h"
#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/team.h"
#include "wire/boxread.h"

#include <stdio.h>
#include <string.h>

#define LOOKS      16 /* in the time of the patience */
#define LOOK_EVERY (50 * NS_PER_MS)
#define STOOD      NS_PER_S /* of which people hear, and of five times as much as a warning */

static bool engine_watch_same_wait(const struct watch *watch, const struct op *op)
{
    return watch->position == op->position && watch->peer == op->waiting && watch->round == op->waiting_round &&
           watch->slice == op->waiting_slice;
}

void team_give_up(struct team *team, int rank, uint64_t waited, const char *what)
{
    char sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d (process %u) has given no sign of life for %.1f s, in which %s waited for it "
             "(TUTTI_TIMEOUT, config.timeout_ms)",
             team_told_rank(team, rank), team_row(team, rank)->pid, (double)waited / NS_PER_S, what);
    const struct trace_about about = {.lane = -1,
                                      .peer_rank = team_told_rank(team, rank),
                                      .peer_pid = team_row(team, rank)->pid,
                                      .comm = team->id,
                                      .value1 = waited / NS_PER_MS};
    trace_event(team->engine->trace, WIRE_EVENT_TIMEOUT, &about);
    team_fail(team, TUTTI_REMOTE_ERROR, rank, sentence);
}

static void engine_watch_give_up(struct team *team, const struct op *op, uint64_t waited)
{
    char what[80];
    snprintf(what, sizeof what, "%s, operation %u,", blackbox_collective_name(op->wire_kind), op->seq);
    team_give_up(team, op->waiting, waited, what);
}

/* The caller has no more time, whether the peer lives or not. */
static void engine_watch_is_late(struct team *team, const struct op *op, uint64_t now)
{
    char sentence[TEAM_SENTENCE];
    snprintf(
        sentence, sizeof sentence,
        "rank %d (process %u) is late: after %.1f s of waiting for it in %s, operation %u, the time of the step is "
        "over",
        team_told_rank(team, op->waiting), team_row(team, op->waiting)->pid,
        (double)(now - team->watch.since) / NS_PER_S, blackbox_collective_name(op->wire_kind), op->seq);
    team_fail(team, TUTTI_REMOTE_ERROR, op->waiting, sentence);
}

/* The peer lives, and does not come: it may be elsewhere in its program for good. */
static void warn(struct team *team, const struct op *op, uint64_t now)
{
    struct watch *watch = &team->watch;
    if (now < watch->warn)
        return;
    watch->warn = now + (now - watch->since);
    log_warn("rank %d has waited %.0f s for rank %d (process %u, alive) in %s, operation %u; tutti trace shows what "
             "each rank is in",
             team_told_rank(team, team->rank), (double)(now - watch->since) / NS_PER_S,
             team_told_rank(team, op->waiting), team_row(team, op->waiting)->pid,
             blackbox_collective_name(op->wire_kind), op->seq);
}

/* The application may know better than the library whether the peer will come. */
static void tell_of_wait(struct team *team, const struct op *op, uint64_t now)
{
    struct watch *watch = &team->watch;
    if (now < watch->tell)
        return;
    watch->tell = now + (now - watch->since);
    events_tell(&(tutti_event_t){.kind = TUTTI_EVENT_WAITING,
                                 .rank = team_told_rank(team, op->waiting),
                                 .lane = -1,
                                 .process = team_row(team, op->waiting)->pid},
                "rank %d has waited %.1f s for rank %d (process %u, alive) in %s, operation %u",
                team_told_rank(team, team->rank), (double)(now - watch->since) / NS_PER_S,
                team_told_rank(team, op->waiting), team_row(team, op->waiting)->pid,
                blackbox_collective_name(op->wire_kind), op->seq);
}

/* How long the peer has not answered. Under the engine's lock. */
static uint64_t silence(struct team *team, int rank, uint64_t now)
{
    struct link *link;
    return team_is_here(team, rank) || team_link(team, rank, &link) != TUTTI_SUCCESS
               ? 0
               : engine_silence(team->engine, link, now);
}

/* This look at a wait comes `late` ns too late. */
static void tell_of_pause(const struct team *team, uint64_t late)
{
    if (late > STOOD)
        log_at(late < 5 * STOOD ? LOG_INFO : LOG_WARN,
               "rank %d stood still for %.1f s while it waited: its process was stopped or starved, or the machine "
               "stood still; no peer is held to account for that time",
               team_told_rank(team, team->rank), (double)late / NS_PER_S);
}

static void engine_watch_look(struct team *team, const struct op *op, uint64_t now)
{
    uint64_t patience = team->timeout_ms * NS_PER_MS;
    uint64_t waited = now - team->watch.since;
    tell_of_pause(team, now - team->watch.next);
    team->watch.next = now + (patience / LOOKS < LOOK_EVERY ? patience / LOOKS : LOOK_EVERY);
    if (op->kind->waits && !op->kind->waits(op))
        return; /* another thread has met the message since this one tried to go on */
    calls_look(team, op, now);
    uint64_t due = atomic_load_explicit(&team->due, memory_order_relaxed);
    if (due && now >= due)
        engine_watch_is_late(team, op, now);
    else if (waited >= patience / 2 && silence(team, op->waiting, now) >= patience / 2)
        engine_watch_give_up(team, op, waited);
    else {
        warn(team, op, now);
        tell_of_wait(team, op, now);
    }
}

void team_watch(struct team *team, const struct op *op, uint64_t now)
{
    struct watch *watch = &team->watch;
    uint64_t patience = team->timeout_ms * NS_PER_MS;
    if (!engine_watch_same_wait(watch, op)) {
        *watch = (struct watch){
            op->position, op->waiting,      op->waiting_round, op->waiting_slice,
            now,          now + LOOK_EVERY, now + patience,    now + (uint64_t)param_int(PARAM_EVENT_WAIT) * NS_PER_MS};
        calls_wait(team, now);
        return;
    }
    if (now < watch->next || !lock_try(&team->engine->lock))
        return;
    engine_watch_look(team, op, now);
    lock_release(&team->engine->lock);
}
