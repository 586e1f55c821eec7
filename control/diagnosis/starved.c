/* SPDX-License-Identifier: Apache-2.0 */
/* Rule: a process that is ready to run and has no processor, while those that it works with wait for it. */
#include "diagnosis/scene.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/words.h"

#include <stdlib.h>
#include <string.h>

static const struct thread_facts *find_thread(const struct process_facts *facts, uint32_t number)
{
    for (size_t i = 0; i < facts->thread_count && i < FACTS_THREADS; i++)
        if (facts->threads[i].number == number)
            return &facts->threads[i];
    return NULL;
}

/*
 * Being ready is counted when it is over, perhaps for a time before the first look. Who was so at both looks and never
 * ran in between was so all the time; so was who hardly ran, if what is counted says that it had to wait for that. One
 * that slept and had just been woken at both looks is ready, too.
 */
static uint64_t delay_of(const struct thread_facts *now, const struct thread_facts *then, uint64_t time)
{
    uint64_t ran = now->ran - then->ran < time ? now->ran - then->ran : time, delayed = now->delayed - then->delayed;
    bool waited = !ran || (double)delayed >= WAITED_PART * (double)time;
    bool throughout = now->ready && then->ready && (double)ran < HARDLY_RAN * (double)time && waited;
    return throughout || delayed > time - ran ? time - ran : delayed;
}

struct share share_of(const struct scene *scene, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    struct share share = {0};
    if (!member->box->alive || !now->at || !before || !before->at || now->at < before->at + STARVED_LOOK_NS)
        return share;
    share.time = share.least = now->at - before->at;
    for (size_t i = 0; i < now->thread_count && i < FACTS_THREADS; i++) {
        const struct thread_facts *mine = &now->threads[i], *then = find_thread(before, mine->number);
        if (!then || mine->ran < then->ran || mine->delayed < then->delayed)
            continue;
        uint64_t delayed = delay_of(mine, then, share.time);
        bool active = mine->ran > then->ran || (mine->ready && then->ready);
        share.ran += mine->ran - then->ran;
        share.delayed = delayed > share.delayed ? delayed : share.delayed;
        share.least = active && delayed < share.least ? delayed : share.least;
        share.active += active;
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

bool hardly_runs(const struct share *share)
{
    return (double)share->ran < TAKES_PART * (double)share->time;
}

static double least_of(const struct share *share)
{
    return share->time ? (double)share->least / (double)share->time : 0;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* ---- Crowded machines ---- */

/* What a process had, with its machine. */
struct crowded {
    const uint8_t *boot;
    struct crowd had;
    size_t process;
};

static bool same_machine(const struct crowded *a, const struct crowded *b)
{
    return memcmp(a->boot, b->boot, sizeof((struct wire_box_header *)0)->boot_id) == 0;
}

static int by_machine_and_part(const void *left, const void *right)
{
    const struct crowded *a = left, *b = right;
    int boots = memcmp(a->boot, b->boot, sizeof((struct wire_box_header *)0)->boot_id);
    return boots ? boots : by_size(&a->had.part, &b->had.part);
}

static int by_machine_and_least(const void *left, const void *right)
{
    const struct crowded *a = left, *b = right;
    int boots = memcmp(a->boot, b->boot, sizeof((struct wire_box_header *)0)->boot_id);
    return boots ? boots : by_size(&a->had.least, &b->had.least);
}

/* Of each process the median of all of its machine: containers share its processors. */
static void set_medians(struct scene *scene, struct crowded *all, size_t count, bool least)
{
    if (count)
        qsort(all, count, sizeof *all, least ? by_machine_and_least : by_machine_and_part);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && same_machine(&all[end], &all[i]);)
            end++;
        const struct crowd *middle = &all[i + (end - i - 1) / 2].had;
        for (size_t j = i; j < end && end - i > 1; j++)
            if (least)
                scene->crowds[all[j].process].least = middle->least;
            else
                scene->crowds[all[j].process].part = middle->part;
    }
}

static bool measure_crowds(struct scene *scene)
{
    size_t count = 0, most = scene->snapshot->now.count;
    struct crowded *all = calloc(most + 1, sizeof *all);
    scene->crowds = calloc(most + 1, sizeof *scene->crowds);
    for (size_t i = 0; all && scene->crowds && i < most; i++) {
        const struct member *member = scene->of_process[i];
        struct share share = member ? share_of(scene, member) : (struct share){0};
        if (share.time)
            all[count++] = (struct crowded){member->box->header.boot_id, {part_of(&share), least_of(&share)}, i};
    }
    if (all && scene->crowds) {
        set_medians(scene, all, count, false);
        set_medians(scene, all, count, true);
    }
    scene->steps += most;
    free(all);
    return scene->crowds != NULL;
}

static const struct crowd *crowd_of(struct scene *scene, const struct member *member)
{
    static const struct crowd none;
    return scene->crowds || measure_crowds(scene) ? &scene->crowds[member->process] : &none;
}

/*
 * All of its threads lack processors, others' on its machine do not. A rank that waits in the library gives its
 * processor away again and again, and that thread is ready to run meanwhile: one thread alone says little.
 */
static bool is_starved_whole(struct scene *scene, const struct member *member)
{
    const struct share share = share_of(scene, member);
    return is_starved(&share) && least_of(&share) >= LEAST_PART &&
           least_of(&share) >= STARVED_TIMES * crowd_of(scene, member)->least;
}

bool is_crowded_out(struct scene *scene, const struct member *member)
{
    const struct share share = share_of(scene, member);
    return !is_starved_whole(scene, member) && part_of(&share) < STARVED_TIMES * crowd_of(scene, member)->part;
}

/* ---- Who is starved ---- */

/* Of those that one works with: all of the sorted but itself. */
static double median_without(const double *sorted, size_t count, double part)
{
    size_t middle = (count - 1) / 2;
    return part <= sorted[middle] && middle + 1 < count ? sorted[middle + 1] : sorted[middle];
}

/* How many of its group wait for it just now, directly or not, in whatever communicator. */
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

/* Of those that this one works with. */
static double part_of_others(const struct scene *scene, const struct member *member, double part)
{
    const struct group *group = member->group;
    double *parts = calloc(group->count, sizeof *parts), median;
    for (size_t i = 0; parts && i < group->count; i++) {
        struct share share = share_of(scene, &group->members[i]);
        parts[i] = part_of(&share);
    }
    if (parts)
        qsort(parts, group->count, sizeof *parts, by_size);
    median = parts ? median_without(parts, group->count, part) : 1;
    free(parts);
    return median;
}

/* One of each process: in its largest communicator. */
static const struct member *in_largest(const struct scene *scene, size_t process)
{
    const struct member *most = scene->of_process[process];
    for (const struct member *at = most; at; at = at->sibling)
        most = at->group->count > most->group->count ? at : most;
    return most;
}

/* It waits itself, and has one thread that is ready meanwhile, as the library's sleeps: that says nothing. */
static bool only_waits(const struct scene *scene, const struct member *member)
{
    const struct share share = share_of(scene, member);
    for (const struct member *at = scene->of_process[member->process]; at && share.active < 2; at = at->sibling)
        if (at->op && at->end->process != member->process)
            return true;
    return false;
}

static void judge(struct scene *scene, struct findings *findings, const struct member *member)
{
    struct share share = share_of(scene, member);
    bool starved = is_starved_whole(scene, member) && !only_waits(scene, member),
         slow = is_slow(findings, member) && is_starved(&share);
    if ((starved || (slow && !is_crowded_out(scene, member))) && !told(findings, member))
        report(scene, findings, member, part_of_others(scene, member, part_of(&share)), waiters_of(scene, member));
}

static bool has_hang(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (finding_is_hang(findings->items[i].kind))
            return true;
    return false;
}

/*
 * Who waits for whom just now, however short: a starved rank moves now and then, so it never stands still for long.
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
