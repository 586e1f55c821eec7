/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: the only rank that hardly waits. All others are in calls for most of the time, and one is outside of calls. So
 * the others wait for it, whether in collectives or for messages. Each process is measured by its own clock.
 */
#include "diagnosis/rules.h"

#include "diagnosis/overlap.h"
#include "diagnosis/phrase.h"
#include "diagnosis/stage.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>
#include <string.h>

/* The latest time of one process. */
struct outside_time {
    uint64_t window, inside, outside; /* ns; of calls of any communicator. Long calls and pauses do not count */
    size_t calls;
    uint64_t longest;                /* pause, */
    const struct blackbox_op *after; /* which this call ended */
    size_t pauses;                   /* that calls like it ended, */
    double sum, squares;             /* of these */
};

/* Nothing tells when a program waits for calls that a GPU makes. */
static bool has_calls_of_gpus(const struct blackbox *box)
{
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            if (box->comms[i].ops[j].device)
                return true;
    return false;
}

static bool is_any(const struct blackbox *box, const struct blackbox_op *op)
{
    return true;
}

static uint64_t window_of(const struct blackbox *box)
{
    uint64_t window = process_remembers(box, OUTSIDE_NS);
    return window < box->now ? window : 0;
}

/* The part of a time that lies in the window, if it is no long one. */
static uint64_t part_in(uint64_t begin, uint64_t end, uint64_t from)
{
    return end <= from || end - begin >= OUTSIDE_LONG_NS ? 0 : end - (begin > from ? begin : from);
}

/* Sums the pauses before calls like that behind the longest one. */
static void add_pauses(const struct blackbox_op *const *calls, size_t count, uint64_t from, struct outside_time *time)
{
    uint64_t over = 0;
    for (size_t i = 0; i < count && time->after; i++) {
        const struct blackbox_op *op = calls[i];
        double pause = over && op->begin > over ? (double)(op->begin - over) : 0;
        if (op->begin > from && pause > 0 && op->collective == time->after->collective &&
            op->count == time->after->count && op->root == time->after->root)
            time->pauses++, time->sum += pause, time->squares += pause * pause;
        over = op->end > over ? op->end : over;
    }
}

static struct outside_time time_of(struct scene *scene, const struct blackbox *box)
{
    size_t count = 0;
    const struct blackbox_op **calls = has_calls_of_gpus(box) ? NULL : process_calls(box, is_any, &count);
    struct outside_time time = {.window = calls ? window_of(box) : 0};
    uint64_t from = box->now - time.window, over = 0;
    for (size_t i = 0; i < count && time.window; i++) {
        uint64_t begin = calls[i]->begin, end = calls[i]->state == WIRE_OP_DONE ? calls[i]->end : box->now;
        time.calls += begin >= from && begin < box->now;
        if (end < begin || end <= over || end > box->now)
            continue;
        if (over && begin > over && begin > from) {
            time.outside += part_in(over, begin, from);
            if (begin - over > time.longest)
                time.longest = begin - over, time.after = calls[i];
        }
        time.inside += part_in(begin > over ? begin : over, end, from);
        over = end;
    }
    add_pauses(calls, count, from, &time);
    scene->steps += 2 * count;
    free(calls);
    return time;
}

static double part_of(const struct outside_time *time)
{
    uint64_t all = time->inside + time->outside;
    return all ? (double)time->outside / (double)all : 0;
}

static void report(struct findings *findings, const struct member_group *group, size_t who,
                   const struct outside_time *times)
{
    const struct member *member = &group->members[who];
    struct finding *finding = finding_add(findings, FINDING_SLOW, LIKELY, member);
    double most = 0;
    for (size_t i = 0; i < group->count; i++)
        most = i != who && part_of(&times[i]) > most ? part_of(&times[i]) : most;
    finding->victims = group->count - 1;
    say_who(finding, member);
    say(finding,
        " hardly waits, and all others of communicator %s do: it was outside of calls for %.0f %% of the last %s, the "
        "others for %.0f %% at most",
        phrase_name(member->comm), 100 * part_of(&times[who]), phrase_time(times[who].window).text, 100 * most);
    prove_stage(finding, member->box);
}

/* Exactly one rank is outside of calls for most of the time, and none of the others for half as long. */
static void judge(struct scene *scene, struct findings *findings, const struct member_group *group)
{
    struct outside_time *times = calloc(group->count, sizeof *times);
    size_t who = 0;
    bool known = times != NULL;
    for (size_t i = 0; known && i < group->count; i++) {
        times[i] = time_of(scene, group->members[i].box);
        known = group->members[i].box->alive && !group->members[i].stuck &&
                times[i].inside + times[i].outside >= OUTSIDE_LEAST_NS && times[i].calls >= SLOW_CALLS;
        if (known && part_of(&times[i]) > part_of(&times[who]))
            who = i;
    }
    double mine = known ? part_of(&times[who]) : 0;
    bool alone = mine >= OUTSIDE_PART;
    for (size_t i = 0; alone && i < group->count; i++)
        alone = i == who || part_of(&times[i]) <= OUTSIDE_OTHERS * mine;
    if (alone && !overlap_hides_waits(scene, group) &&
        !overlap_waits_for_work(scene, &group->members[who], times[who].sum / (double)times[who].pauses,
                                times[who].squares / (double)times[who].pauses))
        report(findings, group, who, times);
    free(times);
}

void rule_outside(struct scene *scene, struct findings *findings)
{
    const struct member_group *largest = findings->count ? NULL : scene_largest(scene);
    if (largest)
        judge(scene, findings, largest);
}
