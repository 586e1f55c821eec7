/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that wait for each other in a circle, in calls that do not fit: rank 0 for a message of rank 2, rank 2 in a
 * collective for rank 1, rank 1 in it for rank 0. Each waits for one rank at a time, and that one, if it waits itself,
 * answers with the highest label that it knows: its own, which is new for each wait and higher than all it has seen, or
 * one that it was answered with. So labels travel from the rank waited for to the rank that waits, round a circle and
 * never into one. A rank that gets its own label back is in a circle (Mitchell and Merritt, "A distributed algorithm
 * for deadlock detection and resolution", 1984).
 *
 * A wait for a rank that has not begun the call is for something that is not on its way. A circle of these waits
 * therefore never ends. Ranks in one collective also wait for what is under way: a circle with a wait of this kind must
 * last.
 *
 * GPUs of several hosts put and signal by a team of their own (team->in_turn), and their operations follow one another
 * in streams. So the team that a rank does not wait in answers for the one that it waits in.
 */
#include "engine/circle.h"

#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/team.h"

#include <stdio.h>

#define SEEN  2               /* answers with a rank's own label in which nothing has moved */
#define LASTS (10 * NS_PER_S) /* far longer than a payload of one round takes; at most the team's time of patience */
#define DRAWN 32              /* bits that a label is shifted by: above, its number, and below, the rank */

static bool is_message(const struct wire_message *wait)
{
    return wait->tag.slice == WIRE_TAG_P2P;
}

static bool circle_same_wait(const struct wire_message *a, const struct wire_message *b)
{
    return a->tag.seq == b->tag.seq && a->tag.slice == b->tag.slice && a->tag.round == b->tag.round &&
           a->tag.from == b->tag.from && a->tag.to == b->tag.to && a->flags == b->flags;
}

/* Two messages always differ: none of the two ranks sends what the other waits for. */
static bool same_call(const struct wire_message *a, const struct wire_message *b)
{
    return !is_message(a) && !is_message(b) && a->tag.seq == b->tag.seq && a->call.signature == b->call.signature &&
           a->call.root == b->call.root && a->call.count == b->call.count;
}

/* A whole and its parts have one count, as they may answer for one another. */
static uint64_t *drawn_of(struct team *team)
{
    return team->whole ? &team->whole->calls.circle.drawn : &team->calls.circle.drawn;
}

static void draw(struct team *team)
{
    struct circle *circle = &team->calls.circle;
    circle->label = ++*drawn_of(team) << DRAWN | (uint32_t)team_told_rank(team, team->rank);
    circle->highest = circle->label;
    circle->idle = true;
    circle->other.kind = 0;
    circle->seen = 0;
}

void circle_wait(struct team *team)
{
    team->calls.circle.label = 0; /* one is drawn if the wait lasts: most do not */
}

void circle_ask(struct team *team, const struct wire_message *said)
{
    struct circle *circle = &team->calls.circle;
    circle->asked[circle->asks++ % CIRCLE_ASKS] = *said;
}

void circle_answer(struct team *team, const struct wire_message *asked, const struct wire_blocked *blocked)
{
    struct circle *circle = &team->calls.circle;
    circle->question = *asked;
    circle->answer = *blocked;
    circle->answered = true;
}

/* For a rank that waits in `asked` for this rank, which waits in `mine`: a wait in another call, best one of the other
 * kind. */
static const struct wire_message *other_than(const struct wire_message *asked, const struct wire_message *mine,
                                             const struct wire_message *next)
{
    bool better = next->kind && is_message(asked) && is_message(mine) && !is_message(next);
    return better || same_call(asked, mine) ? next : mine;
}

static void engine_circle_answer(struct team *team, const struct wire_message *asked, const struct wire_message *mine)
{
    const struct circle *circle = &team->calls.circle;
    bool has_begun = calls_begun(team, asked);
    if (has_begun && (is_message(asked) || is_message(mine) || asked->tag.seq != mine->tag.seq))
        return; /* it is on its way */
    const struct wire_blocked blocked = {.label = circle->highest,
                                         .idle = circle->idle && !has_begun,
                                         .other = *other_than(asked, mine, &circle->other)};
    struct wire_message head = *asked;
    head.kind = WIRE_BLOCKED;
    calls_send(team, (int)asked->tag.from, &head, &blocked, sizeof blocked);
}

static void circle_refuse(struct team *team, const struct op *op, const struct wire_message *mine)
{
    const struct wire_message *other = &team->calls.circle.other;
    char here[CALLS_TEXT], there[CALLS_TEXT], sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d waits for rank %d in %s, rank %d for rank %d in %s, and so on round to rank %d: none of them can "
             "go on; all ranks must make calls that fit, in the same order",
             team_told_rank(team, team->rank), team_told_rank(team, op->waiting), calls_text(mine, here, sizeof here),
             team_told_rank(team, (int)other->tag.from), team_told_rank(team, (int)other->tag.to),
             calls_text(other, there, sizeof there), team_told_rank(team, team->rank));
    team_fail(team, TUTTI_INVALID_USAGE, op->waiting, sentence);
}

/* What the rank that this one waits for has answered. */
static void circle_hear(struct team *team, const struct op *op, const struct wire_message *mine, uint64_t now)
{
    struct circle *circle = &team->calls.circle;
    uint64_t patience = team->timeout_ms * NS_PER_MS, lasts = patience < LASTS ? patience : LASTS;
    const struct wire_blocked *said = &circle->answer;
    if (!circle_same_wait(&circle->question, mine))
        return;
    if (*drawn_of(team) < said->label >> DRAWN)
        *drawn_of(team) = said->label >> DRAWN;
    circle->highest = said->label > circle->label ? said->label : circle->label;
    circle->idle = said->idle;
    circle->other = said->other;
    if (said->label != circle->label)
        circle->seen = 0;
    else if (circle->seen++ == 0)
        circle->since = now;
    if (circle->seen > SEEN && circle->other.kind && (circle->idle || now - circle->since >= lasts))
        circle_refuse(team, op, mine);
}

/* ---- For other teams of this rank ---- */

void circle_in_turn(struct team *part, bool (*settled)(void *context), void *context)
{
    lock_take(&part->engine->lock);
    part->settled = settled;
    part->settled_context = context;
    part->whole->in_turn = settled != NULL;
    lock_release(&part->engine->lock);
}

/* Is nothing under way, nor anything that streams have come to? */
static bool circle_has_nothing(const struct team *team)
{
    return atomic_load_explicit(&team->completed, memory_order_acquire) == atomic_load(&team->issued) &&
           !(team->settled && !team->settled(team->settled_context));
}

/* A question to a team of this rank, which waits in another one: `mine`. */
static void answer_for(struct team *idle, const struct wire_message *asked, const struct team *team,
                       const struct wire_message *mine)
{
    const struct circle *circle = &team->calls.circle;
    const struct wire_blocked blocked = {.label = circle->highest, .idle = circle->idle, .other = *mine};
    struct wire_message head = *asked;
    if (calls_begun(idle, asked))
        return;
    head.kind = WIRE_BLOCKED;
    calls_send(idle, (int)asked->tag.from, &head, &blocked, sizeof blocked);
}

/* Of what is asked of windows streams stand in waits for signals alone. */
static void answer_for_others(struct team *team, const struct wire_message *mine)
{
    const struct team *whole = team->whole ? team->whole : team;
    if (!whole->in_turn || (team->settled && mine->flags != WIRE_WAITS_FOR_SIGNAL))
        return;
    list_each(node, &team->engine->teams)
    {
        struct team *idle = list_entry(node, struct team, node);
        struct circle *theirs = &idle->calls.circle;
        if (idle == team || (idle != whole && idle->whole != whole) || !theirs->asks || !lock_try(&idle->lock))
            continue; /* peers ask again */
        for (unsigned i = 0; circle_has_nothing(idle) && i < theirs->asks && i < CIRCLE_ASKS; i++)
            answer_for(idle, &theirs->asked[i], team, mine);
        theirs->asks = 0;
        lock_release(&idle->lock);
    }
}

void circle_look(struct team *team, const struct op *op, const struct wire_message *mine, uint64_t now)
{
    struct circle *circle = &team->calls.circle;
    if (!circle->label)
        draw(team);
    if (circle->answered)
        circle_hear(team, op, mine, now);
    circle->answered = false;
    for (unsigned i = 0; i < circle->asks && i < CIRCLE_ASKS; i++)
        engine_circle_answer(team, &circle->asked[i], mine);
    circle->asks = 0;
    answer_for_others(team, mine);
}
