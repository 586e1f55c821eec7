/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks in different calls may wait for messages that the other never sends, by means that do not see each other. So a
 * rank that has waited for long tells the rank it waits for in which call it waits. That rank knows which calls it has
 * made: it finds out whether they differ, or whether each of the two wants the other's next call first.
 */
#include "engine/calls.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/op.h"
#include "engine/shared.h"
#include "engine/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY_AFTER  (200 * NS_PER_MS) /* with a link that is there */
#define OPEN_AFTER NS_PER_S          /* one is opened for it */
#define SAY_AGAIN  (500 * NS_PER_MS)
#define MEETS_LONG (5 * NS_PER_S)

static struct wire_message calls_describe(const struct team *team, const struct op *op)
{
    struct wire_message head = {.kind = WIRE_CALL, .call = op_call(op)};
    head.tag = (struct wire_tag){
        .comm = team->id, .seq = team->calls.started, .from = (uint32_t)team->rank, .to = (uint32_t)op->waiting};
    head.tag.slice = op->waiting_slice & INT32_MAX; /* no message's */
    head.tag.round = op->waiting_round;
    if (op->kind->describe)
        op->kind->describe(op, &head);
    return head;
}

/* Each of the two wants the other's next call first. */
static void cross(struct team *team, const struct op *op)
{
    const struct wire_message mine = calls_describe(team, op), *theirs = &team->calls.said;
    char here[CALLS_TEXT], there[CALLS_TEXT], sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d waits for rank %d in %s, and rank %d for rank %d in %s: neither can go on; make the calls in the "
             "same order",
             team_told_rank(team, team->rank), team_told_rank(team, (int)theirs->tag.from),
             calls_text(&mine, here, sizeof here), team_told_rank(team, (int)theirs->tag.from),
             team_told_rank(team, team->rank), calls_text(theirs, there, sizeof there));
    team_fail(team, TUTTI_INVALID_USAGE, op->waiting, sentence);
}

/* What is on its way has been begun: then this rank merely waits. */
static bool crosses(const struct team *team, const struct op *op)
{
    const struct wire_message mine = calls_describe(team, op), *theirs = &team->calls.said;
    return !calls_begun(team, theirs) && !calls_has_begun(&mine, team->calls.begun, theirs->tag.seq);
}

/* A collective that this rank has begun too: is it the same? */
static void compare(struct team *team, const struct wire_message *said)
{
    struct calls *calls = &team->calls;
    uint32_t seq = said->tag.seq;
    const struct wire_call *mine = &calls->kept[seq % CALLS_KEPT];
    if (said->tag.slice == WIRE_TAG_P2P || seq > calls->started || calls->started - seq >= CALLS_KEPT)
        return;
    if (mine->signature != said->call.signature || mine->root != said->call.root || mine->count != said->call.count)
        team_refuse(team, *mine, (int)said->tag.from, said->call, seq);
}

/* What this rank does that ends only when the peer comes, or never; NULL: this rank may still make calls. */
static const char *does_instead(const struct team *team, uint32_t peer)
{
    if (atomic_load(&team->ending))
        return "finalizes or destroys the communicator";
    /* what makes ranks shrink it is known to all soon, and a better reason to fail */
    bool meets = team->stays_away && !team->stays_away[peer] && clock_ns() - team->away_since > MEETS_LONG;
    return meets ? "shrinks the communicator" : NULL;
}

/* The call that the peer waits for never comes. This rank has not made that call, and waits for the end of its own
 * calls, or for the peer to shrink the communicator with it. */
static void miss(struct team *team, const struct wire_message *said)
{
    uint32_t from = said->tag.from;
    const char *does = does_instead(team, from);
    char call[CALLS_TEXT], sentence[TEAM_SENTENCE];
    if (!does ||
        calls_has_begun(said, (struct wire_begun){team->sent[from], team->received[from], team->signalled[from]},
                        atomic_load(&team->seq)))
        return;
    snprintf(sentence, sizeof sentence, "rank %d %s without the call that rank %d waits for in %s",
             team_told_rank(team, team->rank), does, team_told_rank(team, (int)from),
             calls_text(said, call, sizeof call));
    team_fail(team, TUTTI_INVALID_USAGE, team->rank, sentence);
}

void calls_hear(struct team *team, const struct wire_message *said, const void *body)
{
    struct wire_blocked blocked;
    if (said->kind == WIRE_BLOCKED) {
        memcpy(&blocked, body, sizeof blocked);
        circle_answer(team, said, &blocked);
        return;
    }
    circle_ask(team, said);
    team->calls.said = *said;
    memcpy(&team->calls.begun, body, sizeof team->calls.begun);
    team->calls.looks = 0;
    if (!lock_try(&team->lock))
        return; /* the caller that holds the lock looks again, or the peer says it again */
    compare(team, said);
    miss(team, said);
    lock_release(&team->lock);
}

void calls_wait(struct team *team, uint64_t now)
{
    team->calls.say = now + SAY_AFTER;
    team->calls.looks = -1;
    circle_wait(team);
}

/* What was said counts only when this rank has tried to go on since, and could not. It tries twice, as the word may
 * have come between trying and looking. */
void calls_look(struct team *team, const struct op *op, uint64_t now)
{
    struct calls *calls = &team->calls;
    const struct wire_message mine = calls_describe(team, op);
    const struct wire_begun with = calls->with[op->waiting];
    if (calls->looks >= 0 && calls->said.tag.from == (uint32_t)op->waiting) {
        compare(team, &calls->said);
        if (calls->looks++ == 2 && crosses(team, op))
            cross(team, op);
    }
    circle_look(team, op, &mine, now);
    if (now < calls->say || (!team->link[op->waiting] && now < team->watch.since + OPEN_AFTER))
        return;
    calls->say = now + SAY_AGAIN;
    calls_send(team, op->waiting, &mine, &with, sizeof with);
}

/* ---- When it is closed ---- */

void calls_drop(struct closed *closed)
{
    memory_free_zeros(closed->with, (size_t)closed->nranks * sizeof *closed->with);
    free(closed->failure);
}

void calls_keep(struct team *team)
{
    struct closed *place = &team->engine->closed[team->engine->closings++ % ENGINE_CLOSED];
    calls_drop(place);
    *place = (struct closed){team->id, team->calls.started, team->rank, team->nranks, team->calls.with, NULL};
    if (atomic_load(&team->failed))
        place->failure = malloc(sizeof *place->failure);
    if (place->failure)
        *place->failure = team_news(team);
    team->calls.with = NULL;
}

static const struct closed *find_closed(const struct engine *engine, const struct wire_message *said)
{
    for (unsigned i = 0; i < ENGINE_CLOSED; i++) {
        const struct closed *closed = &engine->closed[i];
        if (closed->with && closed->comm == said->tag.comm && (uint32_t)closed->rank == said->tag.to &&
            said->tag.from < (uint32_t)closed->nranks)
            return closed;
    }
    return NULL;
}

static bool comes(const struct closed *closed, const struct wire_message *said)
{
    bool of_a_window = said->tag.slice == WIRE_TAG_P2P && said->flags == WIRE_WAITS_FOR_WINDOW; /* which is gone */
    return !closed->failure && !of_a_window && calls_has_begun(said, closed->with[said->tag.from], closed->started);
}

/* A wait for this rank is in vain if its communicator failed before it was destroyed, or was destroyed without the
 * call. */
void calls_closed(struct engine *engine, struct link *link, const struct wire_message *said)
{
    const struct closed *closed = find_closed(engine, said);
    if (!closed || comes(closed, said))
        return;
    char call[CALLS_TEXT];
    struct wire_abort abort = {.culprit = closed->rank, .result = TUTTI_INVALID_USAGE};
    memcpy(abort.from, link_domain_self(engine->links)->uuid, sizeof abort.from);
    if (closed->failure)
        abort = *closed->failure;
    else
        snprintf(abort.text, sizeof abort.text,
                 "rank %d has destroyed the communicator without the call that rank %u waits for in %s", closed->rank,
                 said->tag.from, calls_text(said, call, sizeof call));
    link_abort(link, said->tag.comm, &abort);
}
