/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: a job that is slower than it was. Each rank makes less than half of the calls a second that it made in its best
 * hour, or in the best quarter of a shorter life. It sends less than half of the bytes, has less than half in
 * collectives, and is in calls for most of the time. A program that computes for longer, or a rank that saves
 * something, is outside of calls. Ranks that wait in the kernel there for much of the time do not compute. A program
 * that now sends larger messages sends as many bytes. The best hour stays in the samples of the black box, so the
 * verdict stays while the job is slow.
 */
#include "diagnosis/slowed.h"

#include "diagnosis/rules.h"

#include "diagnosis/phrase.h"
#include "diagnosis/profile.h"
#include "diagnosis/slow.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What one process did in the latest time, and at its best. */
struct slowed_pace {
    double calls, bytes, called; /* a second; bytes that were sent, and those of collectives */
    double best_calls, best_bytes, best_called;
    double inside;                      /* part of the latest time in calls */
    uint64_t window;                    /* the latest time */
    uint64_t from, to;                  /* of the best time */
    uint64_t since;                     /* slow */
    uint64_t in[WIRE_COLLECTIVE_COUNT]; /* ns of the latest time in calls of each kind */
};

/* ---- Samples ---- */

static double rate(uint64_t before, uint64_t now, uint64_t ns)
{
    return ns ? (double)(now - before) * (double)NS_PER_S / (double)ns : 0;
}

/* The latest sample that is this time before sample `to`; 0: the first. */
static size_t sample_before(const struct blackbox *box, size_t to, uint64_t ns)
{
    size_t at = to;
    while (at > 0 && box->samples[to].at - box->samples[at].at < ns)
        at--;
    return at;
}

/* Less than half of the best. A process that never sent has nothing to tell by its bytes: others of the job have. */
static bool is_less(double rate, double best)
{
    return rate < SLOWED_PART * best || (rate <= 0 && best <= 0);
}

static bool is_half(const struct slowed_pace *pace, const struct blackbox_sample *from,
                    const struct blackbox_sample *to)
{
    return rate(from->calls, to->calls, to->at - from->at) < SLOWED_PART * pace->best_calls &&
           is_less(rate(from->bytes, to->bytes, to->at - from->at), pace->best_bytes) &&
           is_less(rate(from->called, to->called, to->at - from->at), pace->best_called);
}

/* The best time, up to sample `start`, of which all rates are twice those of now. False: there was none. */
static bool find_best(const struct blackbox *box, size_t start, struct slowed_pace *pace)
{
    const struct blackbox_sample *all = box->samples;
    uint64_t life = all[box->sample_count - 1].at - all->at, length = life / SLOWED_LIFE;
    length = length > SLOWED_BEST_NS ? SLOWED_BEST_NS : length < SLOWED_BEFORE_NS ? SLOWED_BEFORE_NS : length;
    for (size_t to = 1; to <= start; to++) {
        const struct blackbox_sample *from = &all[sample_before(box, to, length)], *end = &all[to];
        double calls = rate(from->calls, end->calls, end->at - from->at),
               bytes = rate(from->bytes, end->bytes, end->at - from->at),
               called = rate(from->called, end->called, end->at - from->at);
        if (end->at - from->at < length || pace->calls >= SLOWED_PART * calls || !is_less(pace->bytes, bytes) ||
            !is_less(pace->called, called) || calls <= pace->best_calls)
            continue;
        pace->best_calls = calls, pace->best_bytes = bytes, pace->best_called = called;
        pace->from = from->at, pace->to = end->at;
    }
    return pace->best_calls > 0;
}

/* Goes back while each ten seconds were as slow. */
static void find_since(const struct blackbox *box, struct slowed_pace *pace, size_t start)
{
    size_t at = start;
    while (at > 0) {
        size_t before = sample_before(box, at, SLOWED_NS);
        if (!is_half(pace, &box->samples[before], &box->samples[at]))
            break;
        at = before;
    }
    pace->since = box->samples[at].at;
}

/* ---- One process ---- */

static void add_calls(const struct blackbox *box, uint64_t window, struct slowed_pace *pace)
{
    struct ends ends = ends_of(box);
    uint64_t from = box->now - window, inside = 0;
    for (size_t i = 0; i < ends.count; i++) {
        const struct blackbox_op *op = ends.calls[i];
        uint64_t begin = op->begin > from ? op->begin : from;
        if (ends.end[i] <= begin || op->collective < 0 || op->collective >= WIRE_COLLECTIVE_COUNT)
            continue;
        pace->in[op->collective] += ends.end[i] - begin;
        inside += ends.end[i] - begin;
    }
    ends_free(&ends);
    pace->inside = window ? (double)inside / (double)window : 0;
    pace->inside = pace->inside > 1 ? 1 : pace->inside; /* calls that run beside each other */
}

/* False: it is as quick as ever, or too little is known. `outside`: it may be outside of calls for most of the time. */
static bool is_slowed(const struct blackbox *box, bool outside, struct slowed_pace *pace)
{
    *pace = (struct slowed_pace){0};
    if (!box->alive || box->sample_count < 3)
        return false;
    const struct blackbox_sample *now = &box->samples[box->sample_count - 1];
    size_t start = sample_before(box, box->sample_count - 1, SLOWED_NS);
    while (start > 0 && now->calls - box->samples[start].calls < SLOWED_CALLS)
        start--;
    const struct blackbox_sample *from = &box->samples[start];
    pace->window = now->at - from->at;
    if (pace->window < SLOWED_NS || now->calls - from->calls < SLOWED_CALLS)
        return false;
    pace->calls = rate(from->calls, now->calls, pace->window);
    pace->bytes = rate(from->bytes, now->bytes, pace->window);
    pace->called = rate(from->called, now->called, pace->window);
    if (!find_best(box, start, pace))
        return false;
    uint64_t window = process_remembers(box, pace->window);
    add_calls(box, window, pace);
    find_since(box, pace, start);
    return window >= SLOWED_LEAST_NS && (outside || pace->inside >= SLOWED_INSIDE);
}

bool process_is_slowed(const struct blackbox *box)
{
    struct slowed_pace pace;
    return is_slowed(box, false, &pace) && pace.best_bytes + pace.best_called > 0;
}

/* ---- The sentence ---- */

struct clock_text {
    char text[32];
};

/* "02:14", or "02:14 on 2026-11-28" if that is another day than the box's. */
static struct clock_text clock_of(const struct blackbox *box, uint64_t at)
{
    struct clock_text out = {"some time"};
    struct tm then, today;
    time_t seconds = (time_t)(((int64_t)at + box->realtime_offset) / (int64_t)NS_PER_S),
           now = (time_t)(((int64_t)box->now + box->realtime_offset) / (int64_t)NS_PER_S);
    if (!localtime_r(&seconds, &then) || !localtime_r(&now, &today))
        return out;
    bool same = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
    strftime(out.text, sizeof out.text, same ? "%H:%M" : "%H:%M on %Y-%m-%d", &then);
    return out;
}

static void prove_kinds(struct finding *finding, const struct slowed_pace *sum, double inside)
{
    uint64_t left[WIRE_COLLECTIVE_COUNT];
    double all = 0;
    memcpy(left, sum->in, sizeof left);
    for (int i = 0; i < WIRE_COLLECTIVE_COUNT; i++)
        all += (double)left[i];
    prove(finding, "of the time ranks are outside of calls for %.0f %%", 100 * (1 - inside));
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

/* ---- The rank that stands out ---- */

/* The member with the most, if that is much and twice as much as any other has. SIZE_MAX: nobody. */
static size_t stands_out(const double *parts, size_t count, double least)
{
    size_t most = 0;
    double second = 0;
    for (size_t i = 1; i < count; i++)
        most = parts[i] > parts[most] ? i : most;
    for (size_t i = 0; i < count; i++)
        second = i != most && parts[i] > second ? parts[i] : second;
    return parts[most] >= least && parts[most] >= 2 * second ? most : SIZE_MAX;
}

/* Says it of the rank that comes last, that is outside of calls, or that sends slowly. False: nobody stands out. */
static bool say_who_stands_out(struct scene *scene, struct finding *finding, const struct member_group *group,
                               const double *outside)
{
    double *shares = calloc(group->count, sizeof *shares);
    size_t last = SIZE_MAX, away = stands_out(outside, group->count, SLOWED_STANDS);
    if (shares) {
        slow_shares(scene, group, shares);
        last = stands_out(shares, group->count, SLOWED_STANDS);
    }
    if (last != SIZE_MAX || away != SIZE_MAX) {
        size_t who = last != SIZE_MAX ? last : away;
        say(finding, "; ");
        say_who(finding, &group->members[who]);
        say(finding,
            last != SIZE_MAX ? " stands out: others waited for it for %.0f %% of the latest calls' time"
                             : " stands out: it was outside of calls for %.0f %% of the time",
            100 * (last != SIZE_MAX ? shares[last] : outside[away]));
    }
    free(shares);
    return last != SIZE_MAX || away != SIZE_MAX;
}

/* Ranks that send, while they have data under way, at less than half of the usual rate in the latest time. */
static bool say_slow_senders(const struct scene *scene, struct finding *finding, const struct member_group *group,
                             uint64_t window)
{
    struct profile profile;
    struct rank_list list = {0};
    if (profile_look(scene->snapshot, window, &profile))
        for (size_t i = 0; i < profile.rank_count; i++)
            for (size_t j = 0; j < group->count && profile.ranks[i].slow; j++)
                if (group->members[j].process == profile.ranks[i].process)
                    list_member(&list, &group->members[j]);
    profile_free(&profile);
    if (list.count && list.count < group->count)
        say(finding, "; rank%s%s stand%s out: with data under way, less than half of the usual rate",
            list.count == 1 ? "" : "s", list_text(&list), list.count == 1 ? "s" : "");
    return list.count && list.count < group->count;
}

/* Part of the time that a rank waits in the kernel, for a disk or a network file system. */
static double blocked_part(const struct scene *scene, const struct member *member)
{
    const struct process_facts *before = facts_before(scene, member);
    if (before && before->watched)
        return (double)before->blocked / before->watched;
    return member->facts->state == PROCESS_BLOCKED ? SLOWED_MOMENT : 0;
}

static double blocked_parts(const struct scene *scene, const struct member_group *group)
{
    double sum = 0;
    for (size_t i = 0; i < group->count; i++)
        sum += blocked_part(scene, &group->members[i]);
    return sum / (double)group->count;
}

static struct rank_list blocked_in(const struct scene *scene, const struct member_group *group)
{
    struct rank_list list = {0};
    for (size_t i = 0; i < group->count; i++)
        if (blocked_part(scene, &group->members[i]) >= SLOWED_BLOCKED)
            list_member(&list, &group->members[i]);
    return list;
}

/* ---- The rule ---- */

static void report(struct scene *scene, struct findings *findings, struct member_group *group,
                   const struct slowed_pace *sum, const double *outside)
{
    struct rank_list blocked = blocked_in(scene, group);
    double ranks = (double)group->count;
    const struct blackbox *box = group->members->box;
    struct finding *finding = finding_add_rank(findings, FINDING_SLOWED, group->members->comm, -1);
    finding->confidence = LIKELY;
    finding->victims = group->count;
    say(finding,
        "communicator %s is slow since %s: each rank made %.1f calls a second in the last %s, and %.1f at best",
        phrase_name(group->members->comm), clock_of(box, sum->since).text, sum->calls / ranks,
        phrase_time(sum->window).text, sum->best_calls / ranks);
    if (!say_who_stands_out(scene, finding, group, outside) && !say_slow_senders(scene, finding, group, sum->window))
        say(finding, "; nobody stands out");
    bool sent = sum->best_bytes > 0; /* ranks of one host send nothing in collectives */
    if (sum->best_bytes + sum->best_called > 0)
        prove(finding, "its best: from %s for %s, %.3g bytes a second%s of each rank; now %.3g",
              clock_of(box, sum->from).text, phrase_time(sum->to - sum->from).text,
              (sent ? sum->best_bytes : sum->best_called) / ranks, sent ? "" : " in collectives",
              (sent ? sum->bytes : sum->called) / ranks);
    prove_kinds(finding, sum, sum->inside / ranks);
    if (blocked.count)
        prove(finding, "rank%s%s wait%s in the kernel (state D), for a disk, a network file system or a device",
              blocked.count == 1 ? "" : "s", list_text(&blocked), blocked.count == 1 ? "s" : "");
}

static void judge(struct scene *scene, struct findings *findings, struct member_group *group)
{
    struct slowed_pace sum = {0}, one;
    double *outside = calloc(group->count, sizeof *outside);
    bool slow = outside != NULL, blocked = blocked_parts(scene, group) >= SLOWED_BLOCKED;
    for (size_t i = 0; slow && i < group->count; i++) {
        slow = is_slowed(group->members[i].box, blocked, &one);
        sum.calls += one.calls, sum.bytes += one.bytes, sum.called += one.called, sum.inside += one.inside;
        sum.best_calls += one.best_calls, sum.best_bytes += one.best_bytes, sum.best_called += one.best_called;
        if (!i || one.since < sum.since)
            sum.since = one.since, sum.window = one.window, sum.from = one.from, sum.to = one.to;
        outside[i] = 1 - one.inside;
        for (int j = 0; j < WIRE_COLLECTIVE_COUNT; j++)
            sum.in[j] += one.in[j];
        scene->steps += WIRE_BOX_OPS;
    }
    if (slow && (blocked || sum.best_bytes + sum.best_called > 0)) /* no size of messages keeps ranks in the kernel */
        report(scene, findings, group, &sum, outside);
    free(outside);
}

static bool only_slow(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (finding_is_hang(findings->items[i].kind) || finding_is_note(findings->items[i].kind))
            return false;
    return findings->count > 0;
}

/* What is slow tells more, if it is no chance: another look shows that. */
void rule_slowed(struct scene *scene, struct findings *findings)
{
    struct member_group *largest = scene->snapshot->before.count ? scene_largest(scene) : NULL;
    struct findings alone = {0};
    if (largest && !findings->count)
        judge(scene, findings, largest);
    else if (largest && only_slow(findings))
        judge(scene, &alone, largest);
    findings->slower = alone.items;
}
