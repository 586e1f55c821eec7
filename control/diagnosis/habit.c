/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All calls of a process, in whatever communicators, in the order in which it made them. The calls before a call are
 * looked for at earlier places. One and the same call may have followed at all of these. If another call follows now,
 * the program has left out a call, has made one twice, or goes another way.
 */
#include "diagnosis/habit.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>

static int by_begin(const void *left, const void *right)
{
    const struct habit_call *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->comm->id != b->comm->id)
        return a->comm->id < b->comm->id ? -1 : 1;
    return a->op->position < b->op->position ? -1 : a->op->position > b->op->position;
}

static bool are_send_and_receive(const struct blackbox_op *one, const struct blackbox_op *other)
{
    return (one->collective == WIRE_SEND && other->collective == WIRE_RECV) ||
           (one->collective == WIRE_RECV && other->collective == WIRE_SEND);
}

/* A group of which these two may be the messages; NULL: none is remembered. */
static const struct blackbox_op *group_of(const struct habit_call *one, const struct habit_call *other)
{
    if (one->comm != other->comm || !are_send_and_receive(one->op, other->op))
        return NULL;
    for (size_t i = 0; i < one->comm->op_count; i++)
        if (one->comm->ops[i].collective == WIRE_GROUP && one->comm->ops[i].bytes == one->op->bytes + other->op->bytes)
            return &one->comm->ops[i];
    return NULL;
}

/* Puts groups instead of their messages. Returns how many calls there are. */
static size_t join_messages(struct scene *scene, struct habit_call *calls, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++, kept++) {
        const struct blackbox_op *group = i + 1 < count ? group_of(&calls[i], &calls[i + 1]) : NULL;
        calls[kept] = calls[i];
        if (!group)
            continue;
        calls[kept].op = group;
        scene->steps += calls[kept].comm->op_count;
        i++;
    }
    return kept;
}

/* The latest calls. NULL: none, or no memory. */
static struct habit_call *calls_of(struct scene *scene, const struct member *member, size_t *count)
{
    size_t most = 0, all = 0;
    for (const struct member *at = scene->of_process[member->process]; at; at = at->sibling)
        most += at->comm->op_count;
    struct habit_call *calls = most ? calloc(most, sizeof *calls) : NULL;
    for (const struct member *at = scene->of_process[member->process]; calls && at; at = at->sibling)
        for (size_t i = 0; i < at->comm->op_count; i++)
            calls[all++] = (struct habit_call){at->comm, &at->comm->ops[i], at->comm->ops[i].begin};
    if (calls)
        qsort(calls, all, sizeof *calls, by_begin);
    scene->steps += all;
    *count = join_messages(scene, calls, all);
    return calls;
}

static bool same(const struct habit_call *a, const struct habit_call *b)
{
    const struct blackbox_op *one = a->op, *other = b->op;
    return a->comm == b->comm && one->collective == other->collective && one->count == other->count &&
           one->type == other->type && one->root == other->root &&
           (one->collective != WIRE_GROUP || one->bytes == other->bytes);
}

/* How many calls before the one are the same as those before the other? */
static size_t same_before(const struct habit_call *calls, size_t one, size_t other, size_t first)
{
    size_t length = 0;
    while (length < HABIT_CALLS && length + first < one && same(&calls[one - length - 1], &calls[other - length - 1]))
        length++;
    return length;
}

/* Is the call at this place unlike those that followed the same calls before? */
static bool is_broken(struct scene *scene, const struct habit_call *calls, size_t at, struct habit *habit)
{
    size_t first = at > HABIT_LOOKS ? at - HABIT_LOOKS : 0, longest = 0, usual = 0;
    for (size_t i = first; i < at; i++) {
        size_t length = same_before(calls, i, at, first);
        longest = length > longest ? length : longest;
    }
    scene->steps += at - first;
    if (longest < HABIT_LEAST)
        return false;
    *habit = (struct habit){.made = calls[at], .before = calls[at - 1]};
    for (size_t i = first; i < at; i++) {
        if (3 * same_before(calls, i, at, first) < longest)
            continue;
        if (same(&calls[i], &calls[at]) || (habit->times && !same(&calls[i], &habit->usual)))
            return false;
        habit->usual = calls[i];
        habit->times++;
        usual = i;
    }
    habit->skips = same(&calls[usual + 1], &calls[at]);
    habit->how = same(&calls[at], &calls[at - 1]) ? HABIT_TWICE : habit->skips ? HABIT_LEFT_OUT : HABIT_OTHER;
    return habit->times >= HABIT_TIMES;
}

/* A process may have gone on for some calls, which did not wait for others: the first that is odd counts. */
bool habit_broken(struct scene *scene, const struct member *member, struct habit *habit)
{
    size_t count;
    struct habit_call *calls = calls_of(scene, member, &count);
    bool broken = false;
    for (size_t back = count < HABIT_BACK ? count : HABIT_BACK; back > 0 && !broken; back--)
        broken = is_broken(scene, calls, count - back, habit);
    free(calls);
    return broken;
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The median time from one of the first `count` calls that are like this one to the next; 0: there is none. */
static uint64_t usual_gap(const struct habit_call *calls, size_t count, const struct habit_call *like)
{
    uint64_t *gaps = calloc(count + 1, sizeof *gaps), last = 0;
    size_t found = 0;
    for (size_t i = 0; gaps && i < count; i++)
        if (same(&calls[i], like)) {
            if (last)
                gaps[found++] = calls[i].begin - last;
            last = calls[i].begin;
        }
    if (found)
        qsort(gaps, found, sizeof *gaps, by_number);
    uint64_t median = found ? gaps[found / 2] : 0;
    free(gaps);
    return median;
}

/* Does the time agree with what was done? */
static bool is_untimely(const struct habit_call *calls, size_t count, size_t at, const struct habit *habit)
{
    const struct habit_call *like = habit->how == HABIT_TWICE ? &habit->made : &habit->usual;
    double usual = (double)usual_gap(calls, at, like);
    size_t before = at, after = at;
    while (before > 0 && !same(&calls[before - 1], like))
        before--;
    while (after < count && !same(&calls[after], like))
        after++;
    if (!before || after == count || usual <= 0 || habit->how == HABIT_OTHER)
        return false;
    double gap = (double)(calls[after].begin - calls[before - 1].begin);
    return habit->how == HABIT_TWICE ? gap < HABIT_SOON * usual : gap > HABIT_LATE * usual;
}

bool habit_broken_between(struct scene *scene, const struct member *member, uint64_t from, uint64_t to,
                          struct habit *habit)
{
    size_t count;
    struct habit_call *calls = calls_of(scene, member, &count);
    bool broken = false;
    for (size_t i = 1; i < count && calls[i].begin <= to && !broken; i++) {
        if (calls[i].begin <= from || !is_broken(scene, calls, i, habit))
            continue;
        broken = is_untimely(calls, count, i, habit);
        if (!broken && habit->how == HABIT_TWICE && habit->skips) {
            habit->how = HABIT_LEFT_OUT;
            broken = is_untimely(calls, count, i, habit);
        }
    }
    free(calls);
    return broken;
}
