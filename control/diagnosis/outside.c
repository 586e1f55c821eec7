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

/* Which time is looked at, and what counts in it. */
struct outside_rule {
    uint64_t window;  /* the latest */
    uint64_t longest; /* longer pauses, and calls, are left out */
    size_t stalls;    /* of the slow rank, which take SLOW_STALLED of the time */
};

/* Always slow; then as a loader that runs dry now and then: stalls of 3 s need the longer time, others are told
 * earlier.
 */
static const struct outside_rule rules[] = {{OUTSIDE_NS, OUTSIDE_LONG_NS, 0},
                                            {OUTSIDE_STALLS_NS / 2, SLOW_STALL_NS, SLOW_STALLS},
                                            {OUTSIDE_STALLS_NS, SLOW_STALL_NS, SLOW_STALLS}};

/* The latest time of one process. */
struct outside_time {
    uint64_t window, inside, outside; /* ns; of calls of any communicator. Long calls and pauses do not count */
    size_t calls;
    uint64_t longest;                /* pause, */
    const struct blackbox_op *after; /* which this call ended */
    size_t pauses;                   /* that calls like it ended, */
    double sum, squares;             /* of these */
    uint64_t stall;                  /* the longest pause that counts */
    size_t stalls;                   /* pauses of half of it and more, */
    uint64_t stalled;                /* and their time */
    bool device;                     /* by its GPU's clock */
};

/* The calls of one process with their times, which are those of its GPU's clock if that makes the calls. */
struct outside_calls {
    const struct ends *of;
    struct ends of_gpu; /* owned */
    bool device;
    uint64_t now;
};

static uint64_t begin_of(const struct blackbox_op *op)
{
    return op->device ? op->gpu_begin : call_waits_from(op);
}

static int by_gpu(const void *left, const void *right)
{
    const struct blackbox_op *a = *(const struct blackbox_op *const *)left,
                             *b = *(const struct blackbox_op *const *)right;
    return a->gpu_begin < b->gpu_begin ? -1 : a->gpu_begin > b->gpu_begin;
}

/* Some calls of the process have no time: those that a GPU makes beside a processor's, in graphs or by copy engines. */
static bool has_untimed(const struct blackbox *box, bool *device)
{
    size_t of_gpu = 0, of_processor = 0, untimed = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            of_gpu += op->device;
            of_processor += !op->device;
            untimed += op->device && op->state == WIRE_OP_DONE && !op->gpu_end;
        }
    *device = of_gpu > 0;
    return untimed || (of_gpu && of_processor);
}

/* Leaves out the GPU's calls that are not over: they have no time so far. */
static void take_times_of_gpu(struct outside_calls *all, const struct blackbox *box)
{
    size_t kept = 0;
    all->of_gpu = ends_of(box);
    all->of = &all->of_gpu;
    for (size_t i = 0; i < all->of_gpu.count; i++)
        if (all->of_gpu.calls[i]->gpu_end)
            all->of_gpu.calls[kept++] = all->of_gpu.calls[i];
    all->of_gpu.count = kept;
    if (kept)
        qsort(all->of_gpu.calls, kept, sizeof *all->of_gpu.calls, by_gpu);
    for (size_t i = 0; i < kept; i++) {
        const struct blackbox_op *op = all->of_gpu.calls[i];
        all->of_gpu.end[i] = op->gpu_end > op->gpu_begin ? op->gpu_end : op->gpu_begin;
        all->now = !i || all->of_gpu.end[i] > all->now ? all->of_gpu.end[i] : all->now;
    }
}

/* `out` stays where it is. */
static void take_calls(struct scene *scene, const struct member *member, struct outside_calls *out)
{
    static const struct ends none;
    *out = (struct outside_calls){.of = &none, .now = member->box->now};
    if (has_untimed(member->box, &out->device))
        return;
    if (out->device)
        take_times_of_gpu(out, member->box);
    else
        out->of = scene_ends(scene, member->process);
}

/* The latest time of which all calls are remembered. */
static uint64_t window_of(const struct blackbox *box, const struct outside_calls *all, uint64_t most)
{
    uint64_t window = process_remembers(box, most);
    if (all->of->count && all->now - begin_of(all->of->calls[0]) < window)
        window = all->now - begin_of(all->of->calls[0]);
    return window < all->now ? window : 0;
}

/* The part of a time that lies in the window, if it is no long one. */
static uint64_t part_in(uint64_t begin, uint64_t end, uint64_t from, uint64_t longest)
{
    return end <= from || end - begin >= longest ? 0 : end - (begin > from ? begin : from);
}

/* Sums the pauses before calls like that behind the longest one. All that are remembered count, as few do not tell how
 * they vary. Sums the stalls of the latest time. */
static void add_pauses(const struct outside_calls *all, uint64_t from, uint64_t longest, struct outside_time *time)
{
    uint64_t over = 0;
    for (size_t i = 0; i < all->of->count && time->after; i++) {
        const struct blackbox_op *op = all->of->calls[i];
        uint64_t begin = begin_of(op), end = all->of->end[i], pause = over && begin > over ? begin - over : 0;
        if (pause && op->collective == time->after->collective && op->count == time->after->count &&
            op->root == time->after->root)
            time->pauses++, time->sum += (double)pause, time->squares += (double)pause * (double)pause;
        if (begin > from && pause >= time->stall / 2 && pause < longest)
            time->stalls++, time->stalled += part_in(over, begin, from, longest);
        over = end > over ? end : over;
    }
}

static struct outside_time time_of(struct scene *scene, const struct member *member, const struct outside_rule *rule)
{
    struct outside_calls all;
    take_calls(scene, member, &all);
    struct outside_time time = {.window = all.of->count ? window_of(member->box, &all, rule->window) : 0,
                                .device = all.device};
    uint64_t from = all.now - time.window, over = 0;
    for (size_t i = 0; i < all.of->count && time.window; i++) {
        uint64_t begin = begin_of(all.of->calls[i]), end = all.of->end[i];
        time.calls += begin >= from && begin < all.now;
        if (end <= over || end > all.now)
            continue;
        if (over && begin > over && begin > from) {
            time.outside += part_in(over, begin, from, rule->longest);
            if (begin - over > time.longest)
                time.longest = begin - over, time.after = all.of->calls[i];
            if (begin - over > time.stall && begin - over < rule->longest)
                time.stall = begin - over;
        }
        if (all.of->calls[i]->state ==
            WIRE_OP_DONE) /* the pause for which others wait just now does not count either */
            time.inside += part_in(begin > over ? begin : over, end, from, rule->longest);
        over = end;
    }
    add_pauses(&all, from, rule->longest, &time);
    scene->steps += 2 * all.of->count;
    ends_free(&all.of_gpu);
    return time;
}

static double part_of(const struct outside_time *time)
{
    uint64_t all = time->inside + time->outside;
    return all ? (double)time->outside / (double)all : 0;
}

static void report(struct findings *findings, const struct member_group *group, size_t who,
                   const struct outside_time *times, const struct outside_rule *rule)
{
    const struct member *member = &group->members[who];
    const struct outside_time *mine = &times[who];
    struct finding *finding = finding_add(findings, FINDING_SLOW, LIKELY, member);
    double most = 0;
    for (size_t i = 0; i < group->count; i++)
        most = i != who && part_of(&times[i]) > most ? part_of(&times[i]) : most;
    finding->victims = group->count - 1;
    say_who(finding, member);
    say(finding,
        " hardly waits, and all others of communicator %s do: it was outside of calls for %.0f %% of the last %s, the "
        "others for %.0f %% at most",
        phrase_name(member->comm), 100 * part_of(mine), phrase_time(mine->window).text, 100 * most);
    if (rule->stalls)
        say(finding, "; %zu pauses took %s of it, the longest %s", mine->stalls, phrase_time(mine->stalled).text,
            phrase_time(mine->stall).text);
    prove_stage(finding, member->box);
}

/* A GPU may be in a call while the program computes there, and nobody waits: the job must be slower than before. */
static bool may_wait(const struct member_group *group, const struct outside_time *times)
{
    for (size_t i = 0; i < group->count; i++)
        if (times[i].device && !overlap_was_faster(group->members[i].box))
            return false;
    return true;
}

static bool stands_out(const struct member_group *group, const struct outside_time *times, size_t who,
                       const struct outside_rule *rule)
{
    const struct outside_time *mine = &times[who];
    bool alone = part_of(mine) >= (rule->stalls ? OUTSIDE_STALLED : OUTSIDE_PART) && mine->stalls >= rule->stalls &&
                 (!rule->stalls || (double)mine->stalled >= SLOW_STALLED * (double)mine->window);
    for (size_t i = 0; alone && i < group->count; i++)
        alone = i == who || part_of(&times[i]) <= OUTSIDE_OTHERS * part_of(mine);
    return alone;
}

/* Few pauses do not tell how much they vary. */
static bool may_be_requests(struct scene *scene, const struct member *member, const struct outside_time *time)
{
    struct overlap_waits waits = overlap_waits_of(time->pauses, time->sum, time->squares);
    if (time->pauses < WORK_TIMES)
        waits.variance = 1;
    return overlap_waits_for_work(scene, member, &waits);
}

/* The latest time that all ranks remember. Of a wait before that, its victims remember the call, and nobody the pause.
 */
static struct outside_rule of_all(struct scene *scene, const struct member_group *group,
                                  const struct outside_rule *rule)
{
    struct outside_rule all = *rule;
    for (size_t i = 0; i < group->count; i++) {
        uint64_t window = time_of(scene, &group->members[i], &all).window;
        all.window = window < all.window ? window : all.window;
    }
    return all;
}

/* Exactly one rank is outside of calls for most of the time, and none of the others for half as long. */
static void judge(struct scene *scene, struct findings *findings, const struct member_group *group,
                  const struct outside_rule *most)
{
    const struct outside_rule of_most = of_all(scene, group, most), *rule = &of_most;
    struct outside_time *times = calloc(group->count, sizeof *times);
    size_t who = 0;
    bool known = times != NULL;
    for (size_t i = 0; known && i < group->count; i++) {
        const struct member *member = &group->members[i];
        times[i] = time_of(scene, member, rule);
        known = member->box->alive && !(member->stuck && member_waited(member) >= rule->longest) &&
                times[i].inside + times[i].outside >= OUTSIDE_LEAST_NS && times[i].calls >= SLOW_CALLS;
        if (known && part_of(&times[i]) > part_of(&times[who]))
            who = i;
    }
    if (known && stands_out(group, times, who, rule) && may_wait(group, times) && !overlap_hides_waits(scene, group) &&
        !may_be_requests(scene, &group->members[who], &times[who]))
        report(findings, group, who, times, rule);
    free(times);
}

static bool all_are_slow(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind != FINDING_SLOW)
            return false;
    return true;
}

/* Ranks beside the one that hardly waits come last in a communicator because they waited for it in another. `from`: its
 * finding; an earlier one of the same rank says more. */
static void keep_alone(struct findings *findings, size_t from)
{
    const struct finding alone = findings->items[from];
    size_t kept = 0;
    for (size_t i = 0; i < from; i++)
        if (findings->items[i].culprit.process == alone.culprit.process)
            findings->items[kept++] = findings->items[i];
    if (!kept)
        findings->items[kept++] = alone;
    findings->count = kept;
}

void rule_outside(struct scene *scene, struct findings *findings)
{
    const struct member_group *largest = all_are_slow(findings) ? scene_largest(scene) : NULL;
    size_t from = findings->count;
    for (size_t i = 0; largest && i < sizeof rules / sizeof *rules && findings->count == from; i++)
        judge(scene, findings, largest, &rules[i]);
    if (findings->count > from)
        keep_alone(findings, from);
}
