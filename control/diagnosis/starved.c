/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: a process that is ready to run and has no processor, while the processes that it works with wait for it. */
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/waits.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>
#include <string.h>

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* The median of the sorted parts without this process's own. */
static double median_without(const double *sorted, size_t count, double part)
{
    size_t middle = (count - 1) / 2;
    return part <= sorted[middle] && middle + 1 < count ? sorted[middle + 1] : sorted[middle];
}

/* The ranks of its group that wait for it just now, directly or not, in any communicator. */
static size_t waiters_of(struct scene *scene, const struct member *member)
{
    size_t count = 0;
    for (size_t i = 0; i < member->group->count; i++) {
        const struct member *other = &member->group->members[i], *at = scene->of_process[other->process];
        for (; at && !(at->op && at->end->process == member->process); at = at->sibling)
            scene->steps++;
        count += at && other != member;
    }
    return count;
}

static bool is_slow(const struct findings *findings, const struct member *member)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == FINDING_SLOW && findings->items[i].culprit.process == process_key(member->box))
            return true;
    return false;
}

static void drop_slow(struct findings *findings, const struct member *member)
{
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind != FINDING_SLOW || findings->items[i].culprit.process != process_key(member->box))
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

static bool told(const struct findings *findings, const struct member *member)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].culprit.process == process_key(member->box) && findings->items[i].kind != FINDING_SLOW)
            return true;
    return false;
}

static void report(struct scene *scene, struct findings *findings, const struct member *member, double median,
                   size_t waiters)
{
    struct processor_share share = share_of(scene, member);
    bool slow = is_slow(findings, member);
    struct finding was = {0};
    for (size_t i = 0; slow && i < findings->count; i++)
        if (findings->items[i].kind == FINDING_SLOW && findings->items[i].culprit.process == process_key(member->box))
            was = findings->items[i];
    drop_slow(findings, member);
    struct finding *finding = finding_add(findings, FINDING_STARVED, LIKELY, member);
    finding->victims = slow ? was.victims : waiters;
    say_who(finding, member);
    say(finding,
        " gets no processor: in %s a thread of it was ready to run without one for %s, and all of them ran for %s",
        phrase_time(share.time).text, phrase_time(share.delayed).text, phrase_time(share.ran).text);
    prove(finding, "the processes that it works with were ready without one for %.0f %% of the time, it for %.0f %%",
          100 * median, 100 * share_part(&share));
    if (share.throttled)
        prove(finding, "the quota of its control group was used up for %s of that", phrase_time(share.throttled).text);
    if (slow)
        prove(finding, "%s", was.sentence);
    else
        prove(finding, "%zu of %zu ranks wait for it", waiters, member->group->count - 1);
}

/* The median of the processes that this one works with. */
static double part_of_others(const struct scene *scene, const struct member *member, double part)
{
    const struct member_group *group = member->group;
    double *parts = calloc(group->count, sizeof *parts), median;
    for (size_t i = 0; parts && i < group->count; i++) {
        struct processor_share share = share_of(scene, &group->members[i]);
        parts[i] = share_part(&share);
    }
    if (parts)
        qsort(parts, group->count, sizeof *parts, by_size);
    median = parts ? median_without(parts, group->count, part) : 1;
    free(parts);
    return median;
}

/* The member that stands for a process, in its largest communicator. */
static const struct member *in_largest(const struct scene *scene, size_t process)
{
    const struct member *most = scene->of_process[process];
    for (const struct member *at = most; at; at = at->sibling)
        most = at->group->count > most->group->count ? at : most;
    return most;
}

/* The process waits itself, and one thread is ready meanwhile, as the library's is between its sleeps: no sign. */
static bool only_waits(const struct scene *scene, const struct member *member)
{
    const struct processor_share share = share_of(scene, member);
    for (const struct member *at = scene->of_process[member->process]; at && share.active < 2; at = at->sibling)
        if (at->op && at->end->process != member->process)
            return true;
    return false;
}

static void judge(struct scene *scene, struct findings *findings, const struct member *member)
{
    struct processor_share share = share_of(scene, member);
    bool starved = share_is_starved_whole(scene, member) && !only_waits(scene, member),
         slow = is_slow(findings, member) && share_is_short(&share);
    bool quota = (double)share.throttled >= QUOTA_PART * (double)share.time;
    if ((starved || (slow && (quota || !share_is_crowded_out(scene, member)))) && !told(findings, member))
        report(scene, findings, member, part_of_others(scene, member, share_part(&share)), waiters_of(scene, member));
}

static bool has_hang(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (finding_is_hang(findings->items[i].kind))
            return true;
    return false;
}

/*
 * Waits of this very moment count, however short: a starved rank moves now and then, so it never stands still for long.
 * Where something hangs, ranks wait because of it, and give their processors away.
 */
void rule_starved(const struct snapshot *snapshot, struct findings *findings)
{
    struct scene scene;
    if (has_hang(findings) || !snapshot->now.facts || !snapshot->before.facts || !scene_open(&scene, snapshot, 0, true))
        return;
    scene_follow(&scene);
    for (size_t i = 0; i < snapshot->now.count; i++) {
        const struct member *member = in_largest(&scene, i);
        if (member && member->group->count > 1)
            judge(&scene, findings, member);
    }
    findings->steps += scene.steps;
    scene_close(&scene);
}
