/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: a process that is ready to run and has no processor, while those that it works with wait for it. */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/words.h"

#include <stdlib.h>

/* What the system's books say of a process between the two looks. */
struct share {
    double part; /* of the time, ready to run without a processor */
    uint64_t time, ran, delayed;
};

static struct share share_of(const struct scene *scene, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    struct share share = {0};
    if (!member->box->alive || !now->at || !before || !before->at || now->at < before->at + STARVED_LOOK_NS || now->delayed < before->delayed ||
        now->ran < before->ran)
        return share;
    share = (struct share){0, now->at - before->at, now->ran - before->ran, now->delayed - before->delayed};
    share.part = (double)share.delayed / (double)share.time;
    return share;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Of those that one works with: all of the sorted but itself. */
static double median_without(const double *sorted, size_t count, double part)
{
    size_t middle = (count - 1) / 2;
    return part <= sorted[middle] && middle + 1 < count ? sorted[middle + 1] : sorted[middle];
}

/* How many of its group wait for it just now, directly or not. */
static size_t waiters_of(struct scene *scene, const struct member *member)
{
    size_t count = 0;
    for (size_t i = 0; i < member->group->count; i++)
        count += &member->group->members[i] != member && member->group->members[i].op && member->group->members[i].end->process == member->process;
    scene->steps += member->group->count;
    return count;
}

static bool is_slow(const struct findings *findings, const struct member *member)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind == FINDING_SLOW && findings->items[i].culprit.pid == member->box->header.pid)
            return true;
    return false;
}

/* Of a rank that is slow, why: it waits for processors more than it runs. */
static bool explains(const struct scene *scene, const struct member *member)
{
    struct share share = share_of(scene, member);
    return share.part >= STARVED_SLOW && share.delayed > 2 * share.ran;
}

static void drop_slow(struct findings *findings, const struct member *member)
{
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].kind != FINDING_SLOW || findings->items[i].culprit.pid != member->box->header.pid)
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

static bool told(const struct findings *findings, const struct member *member)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].culprit.pid == member->box->header.pid && findings->items[i].kind != FINDING_SLOW)
            return true;
    return false;
}

static void report(struct scene *scene, struct findings *findings, const struct member *member, double median, size_t waiters)
{
    struct share share = share_of(scene, member);
    bool slow = is_slow(findings, member);
    struct finding was = {0};
    for (size_t i = 0; slow && i < findings->count; i++)
        if (findings->items[i].kind == FINDING_SLOW && findings->items[i].culprit.pid == member->box->header.pid)
            was = findings->items[i];
    drop_slow(findings, member);
    struct finding *finding = finding_add(findings, FINDING_STARVED, LIKELY, member);
    finding->victims = slow ? was.victims : waiters;
    say_who(finding, member);
    say(finding, " gets no processor: in %s its threads were ready to run without one for %s, and ran for %s", word_time(share.time).text,
        word_time(share.delayed).text, word_time(share.ran).text);
    prove(finding, "the processes that it works with were ready without one for %.0f %% of the time, it for %.0f %%", 100 * median, 100 * share.part);
    if (slow)
        prove(finding, "%s", was.sentence);
    else
        prove(finding, "%zu of %zu ranks wait for it", waiters, member->group->count - 1);
}

static void find_starved(struct scene *scene, struct findings *findings, struct group *group)
{
    double *parts = calloc(2 * group->count, sizeof *parts), *sorted = parts ? parts + group->count : NULL;
    for (size_t i = 0; parts && i < group->count; i++)
        sorted[i] = parts[i] = share_of(scene, &group->members[i]).part;
    if (parts)
        qsort(sorted, group->count, sizeof *sorted, by_size);
    for (size_t i = 0; parts && i < group->count; i++) {
        const struct member *member = &group->members[i];
        double median = median_without(sorted, group->count, parts[i]);
        if (!(is_slow(findings, member) ? explains(scene, member) : parts[i] >= STARVED_PART && parts[i] >= STARVED_TIMES * median) ||
            told(findings, member))
            continue;
        size_t waiters = waiters_of(scene, member);
        if (is_slow(findings, member) || 2 * waiters >= group->count - 1)
            report(scene, findings, member, median, waiters);
    }
    free(parts);
}

/* Who waits for whom just now, however short: a starved rank moves now and then, so it never stands still for long. */
void rule_starved(const struct snapshot *snapshot, struct findings *findings)
{
    struct scene scene;
    if (!snapshot->now.facts || !snapshot->before.facts || !scene_open(&scene, snapshot, 0, true))
        return;
    scene_follow(&scene);
    for (size_t i = 0; i < scene.group_count; i++)
        if (scene.groups[i].count > 1)
            find_starved(&scene, findings, &scene.groups[i]);
    findings->steps += scene.steps;
    scene_close(&scene);
}
