/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: ranks that have called different things under one number. The user's bug, not the hardware's: the few are odd,
 * not the many. */
#include "diagnosis/rules.h"
#include "diagnosis/phrase.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CALLS_SHOWN 6 /* different calls under one number */

static bool is_collective(const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND;
}

static bool has_root(const struct blackbox_op *op)
{
    return op->root >= 0 && (op->collective == WIRE_REDUCE || op->collective == WIRE_BROADCAST ||
                             op->collective == WIRE_GATHER || op->collective == WIRE_SCATTER);
}

static bool same(const struct blackbox_op *a, const struct blackbox_op *b)
{
    bool counts = a->collective == WIRE_ALLTOALLV || a->count == b->count;
    return a->collective == b->collective && a->type == b->type && a->op == b->op && a->root == b->root && counts;
}

static const struct blackbox_op *find_seq(const struct blackbox_comm *comm, uint64_t seq)
{
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].seq == seq && is_collective(&comm->ops[i]))
            return &comm->ops[i];
    return NULL;
}

/* ---- The first number with different calls ---- */

/* Both lists are in the order of their calls, so one walk is enough. False: no difference before `*seq`. */
static bool differs_before(struct scene *scene, const struct blackbox_comm *a, const struct blackbox_comm *b,
                           uint64_t *seq)
{
    size_t i = 0, j = 0;
    scene->steps += a->op_count + b->op_count;
    while (i < a->op_count && j < b->op_count) {
        const struct blackbox_op *mine = &a->ops[i], *theirs = &b->ops[j];
        if (!is_collective(mine) || (is_collective(theirs) && mine->seq < theirs->seq))
            i++;
        else if (!is_collective(theirs) || theirs->seq < mine->seq)
            j++;
        else if (mine->seq >= *seq)
            return false;
        else if (!same(mine, theirs)) {
            *seq = mine->seq;
            return true;
        } else
            i++, j++;
    }
    return false;
}

/* Compares every rank with the rank that remembers most, and with one that has made the newest call. */
static bool find_first(struct scene *scene, const struct member_group *group, uint64_t *seq)
{
    const struct member *most = group->members, *newest = group->members;
    bool found = false;
    *seq = UINT64_MAX;
    for (size_t i = 1; i < group->count; i++) {
        const struct member *one = &group->members[i];
        most = one->comm->op_count > most->comm->op_count ? one : most;
        newest = one->has_newest && (!newest->has_newest || one->newest > newest->newest) ? one : newest;
    }
    for (size_t i = 0; i < group->count; i++) {
        const struct member *one = &group->members[i];
        found = (one != most && differs_before(scene, most->comm, one->comm, seq)) || found;
        found = (one != newest && newest != most && differs_before(scene, newest->comm, one->comm, seq)) || found;
    }
    return found;
}

/* ---- The odd rank ---- */

struct kind_of_call {
    const struct blackbox_op *op;
    const struct member *first;
    struct rank_list ranks;
};

struct votes {
    struct kind_of_call kinds[CALLS_SHOWN];
    size_t count, most, fewest;
};

static void vote(struct votes *votes, const struct member *member, const struct blackbox_op *op)
{
    size_t i = 0;
    while (i < votes->count && !same(votes->kinds[i].op, op))
        i++;
    if (i == CALLS_SHOWN)
        return;
    if (i == votes->count)
        votes->kinds[votes->count++] = (struct kind_of_call){.op = op, .first = member};
    list_member(&votes->kinds[i].ranks, member);
}

static struct votes count_votes(struct scene *scene, const struct member_group *group, uint64_t seq)
{
    struct votes votes = {0};
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox_op *op = find_seq(group->members[i].comm, seq);
        scene->steps += group->members[i].comm->op_count;
        if (op)
            vote(&votes, &group->members[i], op);
    }
    for (size_t i = 0; i < votes.count; i++) {
        votes.most = votes.kinds[i].ranks.count > votes.kinds[votes.most].ranks.count ? i : votes.most;
        votes.fewest = votes.kinds[i].ranks.count < votes.kinds[votes.fewest].ranks.count ? i : votes.fewest;
    }
    return votes;
}

/* Has a rank called the same before? Programs repeat themselves. */
static bool has_precedent(struct scene *scene, const struct member_group *group, const struct kind_of_call *kind,
                          uint64_t seq)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox_comm *comm = group->members[i].comm;
        scene->steps += comm->op_count;
        for (size_t j = 0; j < comm->op_count; j++)
            if (is_collective(&comm->ops[j]) && comm->ops[j].seq < seq && same(&comm->ops[j], kind->op))
                return true;
    }
    return false;
}

/* Did this rank, before `seq`, call first `expected` and next `made`? */
static bool follows(const struct blackbox_comm *comm, uint64_t seq, const struct blackbox_op *expected,
                    const struct blackbox_op *made)
{
    const struct blackbox_op *last = NULL;
    bool found = false;
    for (size_t i = 0; i < comm->op_count && comm->ops[i].seq < seq; i++) {
        if (!is_collective(&comm->ops[i]))
            continue;
        found = found || (last && same(last, expected) && same(&comm->ops[i], made));
        last = &comm->ops[i];
    }
    return found;
}

/* Has this call come after the call before `seq` at an earlier time? Programs repeat their steps. */
static bool has_followed(struct scene *scene, const struct member_group *group, const struct kind_of_call *kind,
                         uint64_t seq)
{
    for (size_t i = 0; seq && i < group->count; i++) {
        const struct blackbox_comm *comm = group->members[i].comm;
        const struct blackbox_op *before = find_seq(comm, seq - 1);
        scene->steps += comm->op_count;
        if (before && follows(comm, seq, before, kind->op))
            return true;
    }
    return false;
}

/* The few are odd. Of two equal parties the odd one has called something new, or in a new order. False: no telling. */
static bool find_odd(struct scene *scene, const struct member_group *group, const struct votes *votes, uint64_t seq,
                     size_t *odd, size_t *many)
{
    *odd = votes->fewest;
    *many = votes->most;
    if (votes->kinds[*odd].ranks.count < votes->kinds[*many].ranks.count)
        return true;
    bool first = has_precedent(scene, group, &votes->kinds[0], seq),
         second = has_precedent(scene, group, &votes->kinds[1], seq);
    if (first && second) {
        first = has_followed(scene, group, &votes->kinds[0], seq);
        second = has_followed(scene, group, &votes->kinds[1], seq);
    }
    *odd = first ? 1 : 0;
    *many = 1 - *odd;
    return votes->count == 2 && first != second;
}

/* ---- Why the call may be odd ---- */

static void prove_why(struct finding *finding, const struct kind_of_call *many, const struct kind_of_call *odd,
                      uint64_t seq)
{
    const struct blackbox_op *next = find_seq(odd->first->comm, seq + 1),
                             *theirs = find_seq(many->first->comm, seq + 1);
    const struct blackbox_op *before = seq ? find_seq(odd->first->comm, seq - 1) : NULL;
    bool skipped = (theirs && same(theirs, odd->op)) || follows(many->first->comm, seq, many->op, odd->op);
    struct rank_list who = list_of(odd->first);
    const char *rank = list_text(&who);
    if (next && theirs && same(next, many->op) && same(theirs, odd->op))
        prove(finding, "rank%s makes this call and the next one in the other order", rank);
    else if (skipped)
        prove(finding,
              "what rank%s called comes next elsewhere: it has skipped a call, or made an earlier one once more", rank);
    else if (before && same(before, odd->op))
        prove(finding, "rank%s has made its last call once more, or skipped one", rank);
}

/* ---- The finding ---- */

static void say_call(struct finding *finding, const struct blackbox_op *op)
{
    say(finding, "%s", blackbox_collective_name(op->collective));
    if (op->collective != WIRE_BARRIER && op->count != BLACKBOX_UNTOLD)
        say(finding, " of %" PRIu64 " %s", op->count, blackbox_type_name(op->type));
    if (op->op != WIRE_OP_NONE)
        say(finding, ", %s", blackbox_op_name(op->op));
    if (has_root(op))
        say(finding, ", root %d", op->root);
}

static void say_kind(struct finding *finding, struct kind_of_call *kind)
{
    if (kind->ranks.count == 1)
        say_who(finding, kind->first);
    else
        say(finding, "ranks%s", list_text(&kind->ranks));
    say(finding, " called ");
    say_call(finding, kind->op);
}

static void prove_difference(struct finding *finding, const struct blackbox_op *odd, const struct blackbox_op *many)
{
    if (odd->collective != many->collective) {
        prove(finding, "the collective differs: %s, %s", blackbox_collective_name(odd->collective),
              blackbox_collective_name(many->collective));
        return;
    }
    bool told = odd->count != BLACKBOX_UNTOLD && many->count != BLACKBOX_UNTOLD;
    if (told && odd->count != many->count && odd->collective != WIRE_ALLTOALLV)
        prove(finding, "the count differs: %" PRIu64 ", %" PRIu64, odd->count, many->count);
    if (odd->type != many->type)
        prove(finding, "the type differs: %s, %s", blackbox_type_name(odd->type), blackbox_type_name(many->type));
    if (odd->op != many->op)
        prove(finding, "the operator differs: %s, %s", blackbox_op_name(odd->op), blackbox_op_name(many->op));
    if (odd->root != many->root && has_root(odd) && has_root(many))
        prove(finding, "the root differs: %d, %d", odd->root, many->root);
}

static void report(struct scene *scene, struct findings *findings, struct member_group *group, uint64_t seq)
{
    struct votes votes = count_votes(scene, group, seq);
    if (votes.count < 2)
        return;
    size_t odd_at, many_at;
    bool clear = find_odd(scene, group, &votes, seq, &odd_at, &many_at);
    struct kind_of_call *odd = &votes.kinds[odd_at], *many = &votes.kinds[many_at];
    struct finding *finding = finding_add(findings, FINDING_MISMATCH, clear ? CERTAIN : LIKELY, odd->first);
    if (!clear || odd->ranks.count > 1)
        finding->culprit.rank = finding->culprit.world_rank = -1, finding->culprit.pid = 0,
        finding->culprit.process = 0;
    say(finding, "call #%" PRIu64 " of communicator %s is not the same on all ranks: ", seq,
        phrase_name(group->members->comm));
    say_kind(finding, odd);
    say(finding, ", ");
    say_kind(finding, many);
    for (size_t i = 0; i < votes.count; i++)
        if (i != odd_at && i != many_at) {
            say(finding, ", ");
            say_kind(finding, &votes.kinds[i]);
        }
    finding->victims = group->count;
    prove_difference(finding, odd->op, many->op);
    prove_why(finding, many, odd, seq);
    group->told = true;
}

void rule_calls(struct scene *scene, struct findings *findings)
{
    uint64_t seq;
    for (size_t i = 0; i < scene->group_count; i++)
        if (scene->groups[i].count > 1 && find_first(scene, &scene->groups[i], &seq))
            report(scene, findings, &scene->groups[i], seq);
}
