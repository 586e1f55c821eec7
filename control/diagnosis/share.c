/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of a process between two looks, and that of others on its machine. */
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

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
 * Linux counts a wait for a processor when the wait is over; a part may lie before the first look. A thread that was
 * ready at both looks and never ran was ready all the time. A thread that hardly ran was, too, if its counted waits are
 * long: else it slept, and had just been woken at both looks.
 */
static uint64_t delay_of(const struct thread_facts *now, const struct thread_facts *then, uint64_t time)
{
    uint64_t ran = now->ran - then->ran < time ? now->ran - then->ran : time, delayed = now->delayed - then->delayed;
    bool waited = !ran || (double)delayed >= WAITED_PART * (double)time;
    bool throughout = now->ready && then->ready && (double)ran < HARDLY_RAN * (double)time && waited;
    return throughout || delayed > time - ran ? time - ran : delayed;
}

struct processor_share share_of(const struct scene *scene, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    struct processor_share share = {0};
    if (!member->box->alive || !now->at || !before || !before->at || now->at < before->at + STARVED_LOOK_NS)
        return share;
    share.time = share.least = now->at - before->at;
    if (before->throttled && now->throttled > before->throttled)
        share.throttled = now->throttled - before->throttled;
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

double share_part(const struct processor_share *share)
{
    return share->time ? (double)share->delayed / (double)share->time : 0;
}

bool share_is_starved(const struct processor_share *share)
{
    return share->time && share_part(share) >= STARVED_PART && share->delayed > share->ran;
}

bool share_is_short(const struct processor_share *share)
{
    return share->time && ((share_part(share) >= SHORT_PART && share->delayed > share->ran) ||
                           (double)share->throttled >= QUOTA_PART * (double)share->time);
}

bool share_computes(const struct processor_share *share)
{
    double time = (double)share->time, ran = (double)share->ran;
    return time > 0 && (ran >= COMPUTES_PART * time ||
                        (ran >= COMPUTES_LEAST * time && ran + (double)share->delayed >= WOULD_COMPUTE * time));
}

bool share_hardly_runs(const struct processor_share *share)
{
    return (double)share->ran < TAKES_PART * (double)share->time;
}

double share_least(const struct processor_share *share)
{
    return share->time ? (double)share->least / (double)share->time : 0;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* ---- Crowded machines ---- */

/* The processor time of a process, with its machine. */
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

/* Sets for each process the median of its machine: containers share its processors. */
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
        struct processor_share share = member ? share_of(scene, member) : (struct processor_share){0};
        if (share.time)
            all[count++] = (struct crowded){member->box->header.boot_id, {share_part(&share), share_least(&share)}, i};
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
 * A rank that waits in the library gives its processor away again and again, and that thread is ready to run meanwhile.
 * One thread alone says little, so all threads must lack processors, and those of other processes must not.
 */
bool share_is_starved_whole(struct scene *scene, const struct member *member)
{
    const struct processor_share share = share_of(scene, member);
    return share_is_starved(&share) && share_least(&share) >= LEAST_PART &&
           share_least(&share) >= STARVED_TIMES * crowd_of(scene, member)->least;
}

bool share_is_crowded_out(struct scene *scene, const struct member *member)
{
    const struct processor_share share = share_of(scene, member);
    return !share_is_starved_whole(scene, member) && share_part(&share) < STARVED_TIMES * crowd_of(scene, member)->part;
}

bool share_lacks_all(struct scene *scene, const struct member *member)
{
    return crowd_of(scene, member)->part >= SHORT_PART && share_is_crowded_out(scene, member);
}
