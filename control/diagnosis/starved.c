/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: a process that is ready to run and has no processor, while those that it works with wait for it. */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/words.h"

#include <stdlib.h>

static const struct thread_facts *find_thread(const struct process_facts *facts, uint32_t number)
{
    for (size_t i = 0; i < facts->thread_count && i < FACTS_THREADS; i++)
        if (facts->threads[i].number == number)
            return &facts->threads[i];
    return NULL;
}

/* Being ready is counted when it is over, perhaps for a time before the first look. Who was so at both looks and hardly
 * ran in between was so all the time. */
static uint64_t delay_of(const struct thread_facts *now, const struct thread_facts *then, uint64_t time)
{
    uint64_t ran = now->ran - then->ran < time ? now->ran - then->ran : time, delayed = now->delayed - then->delayed;
    bool throughout = now->ready && then->ready && (double)ran < HARDLY_RAN * (double)time;
    return throughout || delayed > time - ran ? time - ran : delayed;
}

struct share share_of(const struct scene *scene, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    struct share share = {0};
    if (!member->box->alive || !now->at || !before || !before->at || now->at < before->at + STARVED_LOOK_NS)
        return share;
    share.time = now->at - before->at;
    for (size_t i = 0; i < now->thread_count && i < FACTS_THREADS; i++) {
        const struct thread_facts *mine = &now->threads[i], *then = find_thread(before, mine->number);
        if (!then || mine->ran < then->ran || mine->delayed < then->delayed)
            continue;
        uint64_t delayed = delay_of(mine, then, share.time);
        share.ran += mine->ran - then->ran;
        share.delayed = delayed > share.delayed ? delayed : share.delayed;
    }
    return share;
}

static double part_of(const struct share *share)
{
    return share->time ? (double)share->delayed / (double)share->time : 0;
}

bool is_starved(const struct share *share)
{
    return share->time && part_of(share) >= STARVED_PART && share->delayed > share->ran;
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
        count += &member->group->members[i] != member && member->group->members[i].op &&
                 member->group->members[i].end->process == member->process;
    scene->steps += member->group->count;
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
    struct share share = share_of(scene, member);
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
        word_time(share.time).text, word_time(share.delayed).text, word_time(share.ran).text);
    prove(finding, "the processes that it works with were ready without one for %.0f %% of the time, it for %.0f %%",
          100 * median, 100 * part_of(&share));
    if (slow)
        prove(finding, "%s", was.sentence);
    else
        prove(finding, "%zu of %zu ranks wait for it", waiters, member->group->count - 1);
}

static void find_starved(struct scene *scene, struct findings *findings, struct group *group)
{
    double *parts = calloc(2 * group->count, sizeof *parts), *sorted = parts ? parts + group->count : NULL;
    for (size_t i = 0; parts && i < group->count; i++) {
        struct share share = share_of(scene, &group->members[i]);
        sorted[i] = parts[i] = part_of(&share);
    }
    if (parts)
        qsort(sorted, group->count, sizeof *sorted, by_size);
    for (size_t i = 0; parts && i < group->count; i++) {
        const struct member *member = &group->members[i];
        struct share share = share_of(scene, member);
        double median = median_without(sorted, group->count, parts[i]);
        bool alone = parts[i] >= STARVED_TIMES * median || is_slow(findings, member);
        if (!is_starved(&share) || !alone || told(findings, member))
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
