/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: a process that is ready to run and has no processor, while the processes that it works with wait for it. */
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/slow.h"
#include "diagnosis/system.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/waits.h"
#include "diagnosis/phrase.h"

#include <stdio.h>
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
    bool slow = finding_names(findings, FINDING_SLOW, member);
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
    prove_system(scene, finding, member);
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

/* The part of the latest calls' time in which others waited for this process, in any communicator. */
static double holds_up(struct scene *scene, const struct member *member)
{
    double most = 0;
    for (const struct member *at = scene->of_process[member->process]; at; at = at->sibling) {
        double *shares = calloc(at->group->count, sizeof *shares);
        if (shares)
            slow_shares(scene, at->group, shares);
        double mine = shares ? shares[at - at->group->members] : 0;
        most = mine > most ? mine : most;
        free(shares);
    }
    return most;
}

/* Is the quota used up for this part of the time? */
static bool is_stopped(const struct processor_share *share, double part)
{
    return share->time && (double)share->throttled >= part * (double)share->time;
}

/* A quota stops this process, and not the one that it works with. A process that waits uses up its quota, too: so
 * others wait for it, or no other finding tells for whom it waits. */
static bool is_held_back(struct scene *scene, const struct findings *findings, const struct member *member)
{
    const struct member_group *group = member->group;
    struct processor_share share = share_of(scene, member);
    if (!is_stopped(&share, QUOTA_PART))
        return false;
    for (size_t i = 0; i < group->count; i++) {
        struct processor_share other = share_of(scene, &group->members[i]);
        if (&group->members[i] != member && is_stopped(&other, QUOTA_PART))
            return false;
    }
    return holds_up(scene, member) >= SLOW_PART || (!findings->count && is_stopped(&share, QUOTA_GROUP));
}

static void judge(struct scene *scene, struct findings *findings, const struct member *member)
{
    struct processor_share share = share_of(scene, member);
    bool starved = share_is_starved_whole(scene, member) && !only_waits(scene, member),
         slow = finding_names(findings, FINDING_SLOW, member) && share_is_short(&share);
    bool quota = is_stopped(&share, QUOTA_PART);
    if (!starved && slow)
        starved = quota || !share_is_crowded_out(scene, member);
    if ((starved || (quota && is_held_back(scene, findings, member))) && !told(findings, member))
        report(scene, findings, member, part_of_others(scene, member, share_part(&share)), waiters_of(scene, member));
}

/* ---- A group that all ranks of a machine are in, as a container ---- */

/* Is the quota used up for this process as for the first of its group? */
static bool shares_quota(const struct scene *scene, const struct member *member, const struct member *first)
{
    struct processor_share share = share_of(scene, member);
    return is_stopped(&share, QUOTA_GROUP) && *member->facts->group &&
           strcmp(member->facts->group, first->facts->group) == 0 &&
           memcmp(member->box->header.boot_id, first->box->header.boot_id, sizeof first->box->header.boot_id) == 0;
}

/* Nobody comes last where all are stopped at once. */
static void judge_group(struct scene *scene, struct findings *findings, const struct member *first)
{
    struct rank_list list = {0};
    struct processor_share share = share_of(scene, first);
    const struct member_group *group = first->group;
    for (size_t i = 0; i < group->count; i++) {
        if (!shares_quota(scene, &group->members[i], first))
            continue;
        if (&group->members[i] < first)
            return; /* an earlier member has told of the group */
        list_member(&list, &group->members[i]);
    }
    if (list.count < 2)
        return;
    struct finding *finding = finding_add(findings, FINDING_STARVED, LIKELY, first);
    finding->victims = group->count;
    say(finding,
        "ranks%s get too few processors: the quota of their control group %s was used up for %s of the last %s",
        list_text(&list), first->facts->group, phrase_time(share.throttled).text, phrase_time(share.time).text);
    prove_system(scene, finding, first);
    snprintf(finding->remedy, sizeof finding->remedy,
             "raise the quota (cpu.max, --cpus, limits.cpu), or start fewer ranks there: a rank that waits uses "
             "processors, too");
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
    size_t found = findings->count;
    for (size_t i = 0; i < snapshot->now.count && found == 0; i++) {
        const struct member *member = in_largest(&scene, i);
        if (member && member->group->count > 1 && shares_quota(&scene, member, member))
            judge_group(&scene, findings, member);
    }
    findings->steps += scene.steps;
    scene_close(&scene);
}
