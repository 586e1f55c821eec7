/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: communicators that have failed. Every rank reports the first cause: the rank that most reports name is to
 * blame. */
#include "diagnosis/circle.h"
#include "diagnosis/rules.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"
#include "base/error.h"
#include "wire/link.h"

#include <string.h>

#define CHAIN_MOST 64 /* ranks that leave one after another */
#define ODD_MOST   64 /* ranks whose habits are looked at, each in thousands of steps */

struct failures_reports {
    const struct member *first; /* the first that failed with the most frequent culprit */
    size_t failed, agree;
    struct rank_list ranks;
};

/* A program that goes on makes other communicators: then the failure is history. */
static bool has_failed(const struct member *member)
{
    const struct blackbox *box = member->box;
    for (size_t i = 0; i < box->comm_count; i++)
        if (box->comms[i].opened > member->comm->closed && box->comms[i].state == WIRE_COMM_OPEN)
            return false;
    return member->comm->state == WIRE_COMM_FAILED;
}

/* Votes by majority (Boyer and Moore), and counts once more: linear, whatever the ranks say. */
static struct failures_reports ask(struct scene *scene, const struct member_group *group)
{
    struct failures_reports reports = {0};
    size_t lead = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        if (!has_failed(member))
            continue;
        reports.failed++;
        if (!lead)
            reports.first = member;
        lead = member->comm->culprit == reports.first->comm->culprit ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i < group->count; i++)
        if (has_failed(&group->members[i]) && group->members[i].comm->culprit == reports.first->comm->culprit) {
            reports.agree++;
            list_member(&reports.ranks, &group->members[i]);
        }
    scene->steps += 2 * group->count;
    return reports;
}

static enum finding_kind kind_of(const struct member *culprit)
{
    if (!culprit || culprit->comm->state == WIRE_COMM_FAILED || culprit->comm->state == WIRE_COMM_CLOSED)
        return FINDING_FAILED;
    if (!culprit->box->alive)
        return member_is_replaced(culprit) ? FINDING_REPLACED : FINDING_DEAD;
    if (culprit->facts->state == PROCESS_STOPPED)
        return FINDING_STOPPED;
    return culprit->facts->state == PROCESS_TRACED ? FINDING_TRACED : FINDING_FAILED;
}

static const char *what_it_is(enum finding_kind kind)
{
    switch (kind) {
    case FINDING_DEAD:
        return " ended without a word";
    case FINDING_STOPPED:
        return " is stopped";
    case FINDING_TRACED:
        return " is held by a debugger or tracer";
    default:
        return " was named as the cause";
    }
}

/* ---- A message whose ends differ ---- */

/* The end that noticed names the other one, and either may be wrong. */
static bool ends_differ(const struct blackbox_comm *comm)
{
    const struct blackbox_op *failed = NULL;
    for (size_t i = 0; i < comm->op_count; i++)
        failed = comm->ops[i].result == TUTTI_INVALID_USAGE ? &comm->ops[i] : failed;
    if (comm->result != TUTTI_INVALID_USAGE)
        return false;
    return strstr(comm->sentence, WIRE_ENDS_DIFFER) ||
           (failed && (failed->collective == WIRE_SEND || failed->collective == WIRE_RECV));
}

struct message_ends {
    const struct member *sender, *receiver;
    const struct blackbox_op *sent, *wanted;
};

static bool is_message_with(const struct blackbox_op *op, int peer)
{
    return (op->collective == WIRE_SEND || op->collective == WIRE_RECV) && op->root == peer;
}

static const struct blackbox_op *newest_message(const struct member *member, int collective, int peer)
{
    for (size_t i = member->comm->op_count; i-- > 0;)
        if (member->comm->ops[i].collective == collective && is_message_with(&member->comm->ops[i], peer))
            return &member->comm->ops[i];
    return NULL;
}

static bool differ(const struct blackbox_op *sent, const struct blackbox_op *wanted)
{
    return sent && wanted && (sent->count != wanted->count || sent->type != wanted->type);
}

/* A member that failed in a message with the rank that all name. */
static bool find_ends(struct member_group *group, const struct member *culprit, struct message_ends *ends)
{
    for (size_t i = 0; culprit && i < group->count; i++) {
        const struct member *one = &group->members[i];
        bool failed = one != culprit && one->comm->result == TUTTI_INVALID_USAGE;
        for (size_t j = 0; failed && j < one->comm->op_count; j++) {
            const struct blackbox_op *op = &one->comm->ops[j];
            if (op->result != TUTTI_INVALID_USAGE || !is_message_with(op, culprit->comm->rank))
                continue;
            bool sends = op->collective == WIRE_SEND;
            const struct blackbox_op *theirs = newest_message(culprit, sends ? WIRE_RECV : WIRE_SEND, one->comm->rank);
            *ends = sends ? (struct message_ends){one, culprit, op, theirs}
                          : (struct message_ends){culprit, one, theirs, op};
            if (differ(ends->sent, ends->wanted))
                return true;
        }
    }
    return false;
}

/* Has this end had a message of this size and type before? */
static bool had_before(const struct member *member, const struct blackbox_op *op)
{
    for (size_t i = 0; i < member->comm->op_count && &member->comm->ops[i] != op; i++) {
        const struct blackbox_op *one = &member->comm->ops[i];
        if (one->collective == op->collective && one->root == op->root && one->count == op->count &&
            one->type == op->type && one->result == TUTTI_SUCCESS)
            return true;
    }
    return false;
}

static void report_message(struct findings *findings, const struct message_ends *ends)
{
    bool sender = had_before(ends->sender, ends->sent), receiver = had_before(ends->receiver, ends->wanted);
    const struct member *odd = sender == receiver ? NULL : sender ? ends->receiver : ends->sender;
    struct finding *finding =
        finding_add(findings, FINDING_MISMATCH, odd ? LIKELY : POSSIBLE, odd ? odd : ends->receiver);
    finding->victims = 2;
    say_who(finding, ends->sender);
    say(finding, " sends %s %s, and ", phrase_number(ends->sent->count).text, blackbox_type_name(ends->sent->type));
    say_who(finding, ends->receiver);
    say(finding, " receives %s %s", phrase_number(ends->wanted->count).text, blackbox_type_name(ends->wanted->type));
    if (odd) {
        say(finding, "; the other messages between them had this size, that of ");
        say_who(finding, odd);
        say(finding, " is new");
    } else {
        finding->culprit.rank = finding->culprit.world_rank = -1;
        finding->culprit.pid = 0, finding->culprit.process = 0;
        say(finding, "; nothing tells which of them is wrong");
    }
    prove(finding, "communicator %s failed: %s", phrase_name(ends->sender->comm), ends->receiver->comm->sentence);
}

/* ---- Calls that do not fit ---- */

/* The only rank that has called another call than it does usually. NULL: none, or several. */
static const struct member *find_odd(struct scene *scene, const struct member_group *group, struct habit *habit)
{
    const struct member *odd = NULL;
    size_t odds = 0;
    for (size_t i = 0; i < group->count && group->count <= ODD_MOST; i++) {
        struct habit one;
        if (!habit_broken(scene, &group->members[i], &one))
            continue;
        odd = &group->members[i];
        *habit = one;
        odds++;
    }
    return odds == 1 ? odd : NULL;
}

/* Two ranks in calls that do not fit wait for each other, and the one that noticed names the other. False: nothing
 * tells that the named one is right. */
static bool report_odd(struct scene *scene, struct findings *findings, const struct member_group *group,
                       const struct member *culprit, const struct failures_reports *reports)
{
    struct habit habit;
    const struct blackbox_comm *comm = reports->first->comm;
    const struct member *odd = culprit && comm->result == TUTTI_INVALID_USAGE ? find_odd(scene, group, &habit) : NULL;
    if (!odd || odd == culprit)
        return false;
    struct finding *finding = finding_add(findings, FINDING_ORDER, LIKELY, odd);
    finding->victims = reports->failed;
    circle_say_habit(finding, odd, &habit);
    prove(finding, "communicator %s failed: %s", phrase_name(comm), comm->sentence);
    return true;
}

/* ---- Findings ---- */

/* One cause in several communicators is one finding. */
static struct finding *same_cause(struct findings *findings, const struct member *culprit)
{
    for (size_t i = 0; culprit && i < findings->count; i++)
        if (findings->items[i].culprit.process == process_key(culprit->box) && finding_is_hang(findings->items[i].kind))
            return &findings->items[i];
    return NULL;
}

/* The member that this process says it has lost, in any communicator. NULL: none whose box is here. */
static const struct member *blamed_by(const struct scene *scene, const struct member *member)
{
    for (const struct member *at = scene->of_process[member->process]; at; at = at->sibling) {
        bool blames =
            at->comm->state == WIRE_COMM_FAILED && at->comm->culprit >= 0 && at->comm->culprit != at->comm->rank;
        const struct member *other = blames ? scene_find(at->group, at->comm->culprit) : NULL;
        if (other && other->process != member->process)
            return other;
    }
    return NULL;
}

/* This culprit lost another rank first, and then left. Where all blame each other, no rank is an effect. */
static bool is_effect(struct scene *scene, const struct member *culprit)
{
    const struct member *at = culprit;
    for (size_t steps = 0; at && steps < CHAIN_MOST; steps++, scene->steps++) {
        const struct member *next = blamed_by(scene, at);
        if (!next)
            return steps > 0;
        at = next;
    }
    return false;
}

static void describe(struct finding *finding, const struct member *culprit, struct failures_reports *reports)
{
    const struct blackbox_comm *comm = reports->first->comm;
    if (culprit)
        say_who(finding, culprit);
    else if (comm->culprit >= 0)
        say_absent(finding, reports->first, comm->culprit, "no black box here");
    else
        say(finding, "no single rank");
    if (finding->kind == FINDING_REPLACED)
        say(finding, " has become another program (%s)", culprit->facts->detail);
    else
        say(finding, "%s",
            ends_differ(comm) ? " and its peer differ about a message, and either may be wrong"
                              : what_it_is(finding->kind));
    say(finding, ": communicator %s failed: %s", phrase_name(comm), *comm->sentence ? comm->sentence : "no sentence");
    prove(finding, "rank%s%s report%s this (%s)%s", reports->ranks.count == 1 ? "" : "s", list_text(&reports->ranks),
          reports->ranks.count == 1 ? "s" : "", error_name((tutti_result_t)comm->result),
          reports->agree == reports->failed ? "" : "; others name others");
}

static void report(struct scene *scene, struct findings *findings, struct member_group *group)
{
    struct failures_reports reports = ask(scene, group);
    if (!reports.failed)
        return;
    const struct blackbox_comm *comm = reports.first->comm;
    const struct member *culprit = comm->culprit < 0 ? NULL : scene_find(group, comm->culprit);
    enum finding_kind kind = kind_of(culprit);
    struct finding *finding = same_cause(findings, culprit);
    group->told = true;
    if (culprit && is_effect(scene, culprit))
        return; /* the communicator in which that one was lost has the finding */
    struct message_ends ends;
    if (find_ends(group, culprit, &ends)) {
        report_message(findings, &ends);
        return;
    }
    if (finding) {
        prove(finding, "communicator %s failed, too", phrase_name(comm));
        return;
    }
    if (kind == FINDING_FAILED && report_odd(scene, findings, group, culprit, &reports))
        return;
    enum confidence confidence = ends_differ(comm) ? POSSIBLE : kind == FINDING_FAILED ? LIKELY : CERTAIN;
    finding = culprit ? finding_add(findings, kind, confidence, culprit)
                      : finding_add_rank(findings, kind, comm, comm->culprit);
    finding->victims = reports.failed;
    if (!culprit && comm->culprit >= 0)
        finding->culprit.world_rank = world_rank_of(scene, reports.first, comm->culprit);
    describe(finding, culprit, &reports);
}

void rule_failures(struct scene *scene, struct findings *findings)
{
    for (size_t i = 0; i < scene->group_count; i++)
        if (!scene->groups[i].told)
            report(scene, findings, &scene->groups[i]);
}
