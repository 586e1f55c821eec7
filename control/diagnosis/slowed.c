/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: a job that is slower than it was, and nobody stands out. Each rank makes less than half of the calls a second
 * that it made so far. It sends less than half of the bytes, and is in calls for most of the time. A program that
 * computes for longer, or a rank that saves something, is outside of calls. A program that now sends larger messages
 * sends as many bytes.
 */
#include "diagnosis/rules.h"

#include "diagnosis/phrase.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>
#include <string.h>

/* What one process did in the latest time, and before. */
struct slowed_pace {
    double calls, calls_before; /* a second */
    double bytes, bytes_before;
    double inside; /* part of the latest time in calls */
    uint64_t window, before;
    uint64_t in[WIRE_COLLECTIVE_COUNT]; /* ns of the latest time in calls of each kind */
};

static uint64_t sent_bytes(const struct blackbox *box)
{
    return box->counters[WIRE_COUNTER_SENT_SHM] + box->counters[WIRE_COUNTER_SENT_TCP] +
           box->counters[WIRE_COUNTER_SENT_VERBS];
}

/* The same process in the earlier look, most often in the same place. */
static const struct blackbox *box_before(const struct scene *scene, size_t process)
{
    const struct look *before = &scene->snapshot->before;
    uint64_t key = process_key(scene->snapshot->now.boxes[process]);
    for (size_t i = 0, at = process; i < before->count; i++, at++)
        if (process_key(before->boxes[at % before->count]) == key)
            return before->boxes[at % before->count];
    return NULL;
}

/* The latest time of which all communicators of the process remember all calls; and the time since the first began. */
static uint64_t window_of(const struct blackbox *box, uint64_t *since)
{
    uint64_t window = SLOWED_NS;
    *since = box->now;
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        uint64_t opened = comm->opened && comm->opened < box->now ? comm->opened : box->now;
        bool forgets = comm->op_count && comm->ops[0].position > 0 && comm->ops[0].begin < box->now;
        *since = opened < *since ? opened : *since;
        if (forgets && box->now - comm->ops[0].begin < window)
            window = box->now - comm->ops[0].begin;
    }
    return window;
}

static void add_calls(const struct blackbox *box, struct slowed_pace *pace)
{
    uint64_t from = box->now - pace->window;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            uint64_t end = op->state == WIRE_OP_DONE ? (op->end > op->begin ? op->end : op->begin) : box->now;
            uint64_t begin = op->begin > from ? op->begin : from;
            pace->calls += op->begin >= from;
            if (end > begin && op->collective >= 0 && op->collective < WIRE_COLLECTIVE_COUNT)
                pace->in[op->collective] += end - begin;
        }
}

/* False: too little is known of this process. */
static bool pace_of(struct scene *scene, size_t process, struct slowed_pace *pace)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process], *then = box_before(scene, process);
    uint64_t since, inside = 0;
    *pace = (struct slowed_pace){.window = window_of(box, &since)};
    if (!then || !box->alive || box->now <= then->now || pace->window < SLOWED_LEAST_NS ||
        box->now - since < pace->window + SLOWED_BEFORE_NS)
        return false;
    pace->before = box->now - since - pace->window;
    add_calls(box, pace);
    for (int i = 0; i < WIRE_COLLECTIVE_COUNT; i++)
        inside += pace->in[i];
    double recent = pace->calls, seconds = (double)(box->now - then->now) / (double)NS_PER_S;
    double all = (double)box->counters[WIRE_COUNTER_OPERATIONS], bytes = (double)sent_bytes(box);
    pace->inside = (double)inside / (double)pace->window;
    pace->calls = recent * (double)NS_PER_S / (double)pace->window;
    pace->calls_before = all > recent ? (all - recent) * (double)NS_PER_S / (double)pace->before : 0;
    pace->bytes = (bytes - (double)sent_bytes(then)) / seconds;
    pace->bytes_before = (double)sent_bytes(then) * (double)NS_PER_S / (double)(then->now - since);
    return recent >= SLOWED_CALLS && then->now > since;
}

static bool is_slowed(const struct slowed_pace *pace)
{
    return pace->calls < SLOWED_PART * pace->calls_before && pace->bytes < SLOWED_PART * pace->bytes_before &&
           pace->inside >= SLOWED_INSIDE;
}

static void prove_kinds(struct finding *finding, const struct slowed_pace *sum)
{
    uint64_t left[WIRE_COLLECTIVE_COUNT];
    double all = 0;
    memcpy(left, sum->in, sizeof left);
    for (int i = 0; i < WIRE_COLLECTIVE_COUNT; i++)
        all += (double)left[i];
    for (int shown = 0; shown < 3; shown++) {
        int most = 0;
        for (int i = 1; i < WIRE_COLLECTIVE_COUNT; i++)
            most = left[i] > left[most] ? i : most;
        if (left[most])
            prove(finding, "of the time in calls: %.0f %% in %s", 100 * (double)left[most] / all,
                  blackbox_collective_name(most));
        left[most] = 0;
    }
}

static void judge(struct scene *scene, struct findings *findings, struct member_group *group)
{
    struct slowed_pace sum = {0}, one;
    for (size_t i = 0; i < group->count; i++) {
        if (!pace_of(scene, group->members[i].process, &one) || !is_slowed(&one))
            return;
        sum.calls += one.calls, sum.calls_before += one.calls_before, sum.inside += one.inside;
        sum.window = one.window, sum.before = one.before;
        for (int j = 0; j < WIRE_COLLECTIVE_COUNT; j++)
            sum.in[j] += one.in[j];
        scene->steps += WIRE_BOX_OPS;
    }
    double ranks = (double)group->count;
    struct finding *finding = finding_add_rank(findings, FINDING_SLOWED, group->members->comm, -1);
    finding->confidence = LIKELY;
    finding->victims = group->count;
    say(finding,
        "communicator %s is slower than before, and nobody stands out: each rank made %.1f calls a second in the last "
        "%s, and %.1f in %s before; it was in calls for %.0f %% of the time",
        phrase_name(group->members->comm), sum.calls / ranks, phrase_time(sum.window).text, sum.calls_before / ranks,
        phrase_time(sum.before).text, 100 * sum.inside / ranks);
    prove_kinds(finding, &sum);
}

/* Of the largest communicator that has all its ranks here. */
void rule_slowed(struct scene *scene, struct findings *findings)
{
    struct member_group *largest = NULL;
    for (size_t i = 0; i < scene->group_count && !findings->count && scene->snapshot->before.count; i++) {
        struct member_group *group = &scene->groups[i];
        if (group->count > 1 && group->count == (size_t)group->members->comm->nranks &&
            group->members->comm->state == WIRE_COMM_OPEN && (!largest || group->count > largest->count))
            largest = group;
    }
    if (largest)
        judge(scene, findings, largest);
}
