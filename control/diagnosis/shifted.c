/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: ranks whose calls have shifted, though the job goes on. The root of a broadcast waits for nobody. If it makes
 * the call twice, the others take the second one in their next step, and so for ever: data of different steps meet.
 * Calls of another communicator tell the steps apart. Between two of these all ranks make the same number of calls
 * here. If one rank has once made another number, unlike its own steps before, and stays ahead or behind since, its
 * calls have shifted.
 *
 * Ranks that compute while calls are under way, or call from several threads, differ for a moment, or always. Two
 * threads may also drift against each other. Each of them makes its calls at equal times then. A call that is made
 * twice follows soon, and one that is left out leaves a gap.
 */
#include "diagnosis/circle.h"
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>

/* What the members of a group have called when they make one call of a larger group. */
struct shift_row {
    size_t first, other; /* members with the same next number as the first member, and with another */
    size_t who;          /* the last member with another number, */
    int64_t ahead;       /* and by how much that is larger */
    uint64_t next;       /* of the first member */
    bool mixed;          /* there are several other numbers */
};

struct shift {
    const struct member_group *group, *larger;
    struct shift_row *rows; /* by numbers of the larger group's calls, */
    uint64_t from, to;      /* these, of which all members remember what they did */
    uint64_t at;            /* the first in which one member differs */
};

/* ---- Which calls compare ---- */

static bool is_collective(const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND;
}

static struct member *in_group(const struct scene *scene, const struct member *member, const struct member_group *group)
{
    struct member *at = scene->of_process[member->process];
    while (at && at->group != group)
        at = at->sibling;
    return at;
}

static bool is_whole(const struct member *member)
{
    return member->comm->state == WIRE_COMM_OPEN && !member->comm->unrecorded && !member->box->dumped &&
           member->comm->op_count >= SHIFT_BEFORE + SHIFT_AFTER;
}

/* The largest other communicator of the first member; NULL: not all members are in it, or calls are missing. */
static const struct member_group *larger_group(const struct scene *scene, const struct member_group *group)
{
    const struct member *most = NULL;
    for (struct member *at = scene->of_process[group->members->process]; at; at = at->sibling)
        if (at->group != group && is_whole(at) && at->group->count >= group->count &&
            (!most || at->group->count > most->group->count))
            most = at;
    for (size_t i = 0; most && i < group->count; i++) {
        const struct member *there = in_group(scene, &group->members[i], most->group);
        if (!is_whole(&group->members[i]) || !there || !is_whole(there))
            return NULL;
    }
    return most ? most->group : NULL;
}

/* The number of the first call that this member made after a call of the larger group. False: it is not remembered. */
static bool next_call(const struct blackbox_comm *comm, const struct blackbox_op *after, size_t *at, uint64_t *seq)
{
    if (comm->ops->position && comm->ops->begin > after->begin)
        return false;
    while (*at < comm->op_count && (!is_collective(&comm->ops[*at]) || comm->ops[*at].begin <= after->begin))
        ++*at;
    *seq = *at < comm->op_count ? comm->ops[*at].seq : 0;
    return *at < comm->op_count;
}

/* Narrows the numbers to those of which this member remembers the next call. */
static void narrow(struct shift *shift, const struct member *member, const struct member *there)
{
    uint64_t from = UINT64_MAX, to = 0, seq;
    size_t at = 0;
    for (size_t i = 0; i < there->comm->op_count; i++)
        if (is_collective(&there->comm->ops[i]) && next_call(member->comm, &there->comm->ops[i], &at, &seq)) {
            from = from == UINT64_MAX ? there->comm->ops[i].seq : from;
            to = there->comm->ops[i].seq;
        }
    shift->from = from > shift->from ? from : shift->from;
    shift->to = to < shift->to ? to : shift->to;
}

static void add(struct shift *shift, size_t who, const struct member *there)
{
    uint64_t seq;
    size_t at = 0;
    for (size_t i = 0; i < there->comm->op_count; i++) {
        const struct blackbox_op *op = &there->comm->ops[i];
        if (!is_collective(op) || op->seq < shift->from || op->seq > shift->to ||
            !next_call(shift->group->members[who].comm, op, &at, &seq))
            continue;
        struct shift_row *row = &shift->rows[op->seq - shift->from];
        row->next = who ? row->next : seq;
        int64_t ahead = (int64_t)(seq - row->next);
        row->first += ahead == 0;
        row->mixed |= ahead && row->other && ahead != row->ahead;
        if (ahead) {
            row->other++;
            row->who = who;
            row->ahead = ahead;
        }
    }
}

/* False: too few calls compare, or no memory. The caller frees `rows`. */
static bool open_rows(struct scene *scene, const struct member_group *group, struct shift *shift)
{
    *shift = (struct shift){.group = group, .larger = larger_group(scene, group), .to = UINT64_MAX};
    for (size_t i = 0; shift->larger && i < group->count; i++) {
        narrow(shift, &group->members[i], in_group(scene, &group->members[i], shift->larger));
        scene->steps += 2 * WIRE_BOX_OPS;
    }
    if (!shift->larger || shift->to < shift->from || shift->to - shift->from + 1 < SHIFT_BEFORE + SHIFT_AFTER ||
        shift->to - shift->from >= WIRE_BOX_OPS)
        return false;
    shift->rows = calloc((size_t)(shift->to - shift->from) + 1, sizeof *shift->rows);
    for (size_t i = 0; shift->rows && i < group->count; i++)
        add(shift, i, in_group(scene, &group->members[i], shift->larger));
    return shift->rows != NULL;
}

/* ---- Which member has shifted ---- */

/* All members were level, and since one call the same ones are not, by the same number. */
static bool has_shifted(struct shift *shift)
{
    size_t count = (size_t)(shift->to - shift->from) + 1, at = 0;
    while (at < count && shift->rows[at].first == shift->group->count)
        at++;
    shift->at = shift->from + at;
    if (at < SHIFT_BEFORE || count - at < SHIFT_AFTER)
        return false;
    const struct shift_row *then = &shift->rows[at];
    for (size_t i = at; i < count; i++) {
        const struct shift_row *row = &shift->rows[i];
        if (row->mixed || row->first + row->other != shift->group->count || row->other != then->other ||
            row->who != then->who || row->ahead != then->ahead)
            return false;
    }
    return then->first == 1 || then->other == 1;
}

static const struct blackbox_op *find_call(const struct member *member, uint64_t seq)
{
    for (size_t i = 0; i < member->comm->op_count; i++)
        if (is_collective(&member->comm->ops[i]) && member->comm->ops[i].seq == seq)
            return &member->comm->ops[i];
    return NULL;
}

/* By how many calls this member is ahead in the group. */
static int64_t ahead_of(const struct shift *shift, size_t who)
{
    int64_t ahead = shift->rows[shift->at - shift->from].ahead;
    return who ? ahead : (int64_t)(0 - (uint64_t)ahead);
}

/* Has this member once made a call twice, or left one out, unlike its steps before, and is it ahead or behind by that?
 */
static bool is_odd(struct scene *scene, const struct shift *shift, size_t who, struct habit *habit)
{
    const struct member *here = &shift->group->members[who], *there = in_group(scene, here, shift->larger);
    const struct blackbox_op *from = find_call(there, shift->at - 1), *to = find_call(there, shift->at);
    if (!from || !to || !habit_broken_between(scene, there, from->begin, to->begin, habit))
        return false;
    bool twice = habit->how == HABIT_TWICE;
    const struct blackbox_comm *comm = twice ? habit->made.comm : habit->usual.comm; /* whose calls have shifted */
    return (comm == here->comm || comm == there->comm) &&
           ahead_of(shift, who) == (twice == (comm == here->comm) ? 1 : -1);
}

/* The only member that is odd; NULL: none, or both of two. */
static const struct member *find_odd(struct scene *scene, const struct shift *shift, struct habit *habit)
{
    const struct shift_row *row = &shift->rows[shift->at - shift->from];
    const struct member *odd = NULL;
    for (size_t i = 0; i < shift->group->count; i++) {
        struct habit one;
        bool alone = i == 0 ? row->first == 1 : row->other == 1 && row->who == i;
        if (!alone || !is_odd(scene, shift, i, &one))
            continue;
        if (odd)
            return NULL;
        odd = &shift->group->members[i];
        *habit = one;
    }
    return odd;
}

static void report(const struct scene *scene, struct findings *findings, const struct shift *shift,
                   const struct member *odd, const struct habit *habit)
{
    const struct blackbox_op *since = find_call(in_group(scene, odd, shift->larger), shift->at);
    const char *way = habit->how == HABIT_TWICE ? "ahead" : "behind";
    const struct blackbox_comm *comm = habit->how == HABIT_TWICE ? habit->made.comm : habit->usual.comm;
    struct finding *finding = finding_add(findings, FINDING_ORDER, LIKELY, odd);
    finding->victims = shift->group->count - 1;
    circle_say_habit(finding, odd, habit);
    say(finding, "; since then the rank is one call %s in %s, and data of different steps meet", way,
        phrase_name(comm));
    prove(finding,
          "between %s calls of communicator %s, from %s on, the rank stays one call %s; between the %s before, no "
          "rank was",
          phrase_number(shift->to - shift->at + 1).text, phrase_name(shift->larger->members->comm),
          phrase_call(since).text, way, phrase_number(shift->at - shift->from).text);
}

void rule_shifted(struct scene *scene, struct findings *findings)
{
    for (size_t i = 0; i < scene->group_count; i++) {
        struct shift shift;
        struct habit habit;
        const struct member *odd = NULL;
        if (scene->groups[i].count < 2 || scene->groups[i].told || !open_rows(scene, &scene->groups[i], &shift))
            continue;
        if (has_shifted(&shift))
            odd = find_odd(scene, &shift, &habit);
        if (odd && !finding_names(findings, FINDING_ORDER, odd))
            report(scene, findings, &shift, odd, &habit);
        free(shift.rows);
    }
}
