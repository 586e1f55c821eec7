/* SPDX-License-Identifier: Apache-2.0 */
/* A circle of ranks that wait for each other: what each is in, and which one has called another call than it does
 * usually. */
#include "diagnosis/circle.h"

#include "diagnosis/phrase.h"

#define CIRCLE_SHOWN 6

static bool is_same_call(const struct member *a, const struct member *b)
{
    return a->group == b->group && a->op && b->op && a->op->seq == b->op->seq && a->op->collective == b->op->collective;
}

bool circle_in_several(const struct member *named)
{
    const struct member *at = named->next;
    while (at != named && at->group == named->group)
        at = at->next;
    return at != named;
}

bool circle_in_one_call(const struct member *named)
{
    const struct member *at = named->next;
    while (at != named && is_same_call(at, named))
        at = at->next;
    return at == named;
}

void circle_say_each(struct finding *finding, const struct member *named)
{
    const struct member *at = named;
    size_t said = 0;
    do {
        if (at->stuck && said++ < CIRCLE_SHOWN) {
            say(finding, said == 1 ? " " : ", ");
            say_who(finding, at);
            say(finding, " in %s of communicator %s", phrase_call(at->op).text, phrase_name(at->comm));
        }
        at = at->next;
    } while (at != named);
}

static bool is_collective(const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND;
}

/* The number of its newest message; 0: none is remembered. */
static uint64_t newest_message(const struct blackbox_comm *comm)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < comm->op_count; i++)
        if (!is_collective(&comm->ops[i]) && comm->ops[i].seq > newest)
            newest = comm->ops[i].seq;
    return newest;
}

/* How many more calls of the other kind this rank has made: collectives, where it waits for messages, or messages,
 * where it waits in a collective. Ranks may be some steps ahead of others. */
static uint64_t more_others(const struct member *member)
{
    uint64_t others = member->op && is_collective(member->op) ? newest_message(member->comm) : member->newest;
    return others - (member->op ? member->op->seq : 0);
}

/* Have all other members of its group made another number of these calls by their steps, and the same? */
static bool has_own_number(const struct member *member)
{
    const struct member_group *group = member->group;
    uint64_t others = more_others(&group->members[member == group->members]);
    if (!member->has_newest || more_others(member) == others)
        return false;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *at = &group->members[i];
        if (at != member && (!at->has_newest || more_others(at) != others))
            return false;
    }
    return true;
}

/* A GPU's call tells no rank that it waits for. A call that was over at once may have gone before. */
static const struct member *odd_in_group(struct scene *scene, const struct member_group *group, struct habit *habit)
{
    const struct member *odd = NULL;
    for (size_t i = 0; group->count > 1 && i < group->count; i++) {
        struct habit one;
        if (!has_own_number(&group->members[i]) || !habit_broken(scene, &group->members[i], &one))
            continue;
        if (odd)
            return NULL;
        odd = &group->members[i];
        *habit = one;
    }
    return odd;
}

static const struct member *odd_in_circle(struct scene *scene, const struct member *named, struct habit *habit)
{
    const struct member *at = named, *odd = NULL;
    size_t odds = 0;
    if (circle_in_one_call(named))
        return NULL;
    do {
        struct habit one;
        if (!(odd && odd->process == at->process) && habit_broken(scene, at, &one)) {
            odd = at;
            *habit = one;
            odds++;
        }
        at = at->next;
    } while (at != named);
    return odds == 1 ? odd : NULL;
}

const struct member *circle_odd(struct scene *scene, enum finding_kind kind, const struct member *named,
                                struct habit *habit)
{
    if (kind == FINDING_STILL)
        return odd_in_group(scene, named->group, habit);
    return kind == FINDING_CIRCLE || kind == FINDING_ORDER ? odd_in_circle(scene, named, habit) : NULL;
}

bool circle_tells(const struct scene *scene, const struct findings *findings, size_t from, size_t at)
{
    const struct finding *still = &findings->items[at];
    const struct member_group *group = still->kind == FINDING_STILL ? scene_group(scene, still->culprit.comm) : NULL;
    for (size_t i = from; group && i < findings->count; i++)
        for (size_t j = 0; findings->items[i].kind == FINDING_ORDER && j < group->count; j++)
            if (findings->items[i].culprit.process == process_key(group->members[j].box))
                return true;
    for (size_t i = from; i < at && still->kind == FINDING_ORDER; i++)
        if (findings->items[i].kind == FINDING_ORDER && still->culprit.process &&
            findings->items[i].culprit.process == still->culprit.process)
            return true;
    return false;
}

static void say_habit_call(struct finding *finding, const struct habit_call *call)
{
    say(finding, "%s", blackbox_collective_name(call->op->collective));
    if (call->op->collective == WIRE_GROUP) /* its count is of the first message alone */
        say(finding, " of %s bytes", phrase_number(call->op->bytes).text);
    else if (call->op->collective != WIRE_BARRIER && call->op->count != BLACKBOX_UNTOLD)
        say(finding, " of %s elements", phrase_number(call->op->count).text);
    say(finding, " in %s", phrase_name(call->comm));
}

void circle_say_habit(struct finding *finding, const struct member *odd, const struct habit *habit)
{
    static const char *const done[] = {" goes another way than before", " has left out a call",
                                       " has made a call twice"};
    say_who(finding, odd);
    say(finding, "%s: after ", done[habit->how]);
    say_habit_call(finding, &habit->before);
    say(finding, " came ");
    say_habit_call(finding, &habit->usual);
    say(finding, " each of %s times, and now ", phrase_number(habit->times).text);
    say_habit_call(finding, &habit->made);
}

void circle_say_odd(struct finding *finding, const struct member *odd, const struct member *named,
                    const struct habit *habit)
{
    circle_say_habit(finding, odd, habit);
    if (named->next) {
        say(finding, "; ranks wait for each other:");
        circle_say_each(finding, named);
    } else if (named->op) {
        say(finding, "; ranks stand still in %s of communicator %s", phrase_call(named->op).text,
            phrase_name(named->comm));
    }
}
