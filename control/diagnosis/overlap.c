/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that compute while their collectives are under way. A call that lasts long tells nothing there: the program may
 * not have asked for its end so far. Ranks stay one behind the other, by as much as they compute, and nobody waits.
 */
#include "diagnosis/overlap.h"

#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>

/* The process's collectives in the latest time. */
static bool is_collective_of_late(const struct blackbox *box, const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND && !op->device && op->begin <= box->now && box->now - op->begin < OVERLAP_NS;
}

/* Does this process often begin a collective while another one is under way? */
static bool overlaps(struct scene *scene, const struct blackbox *box)
{
    size_t count, under_way = 0;
    const struct blackbox_op **calls = process_calls(box, is_collective_of_late, &count);
    uint64_t over = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = calls[i]->state == WIRE_OP_DONE ? calls[i]->end : box->now;
        under_way += calls[i]->begin < over;
        over = end > over ? end : over;
    }
    scene->steps += count;
    free(calls);
    return count >= OVERLAP_CALLS && (double)under_way >= OVERLAP_PART * (double)count;
}

/* How many calls a process has made in its latest time, which ends with its newest call: a pause after that says
 * nothing. */
struct overlap_pace {
    double calls, all;
    uint64_t window, since, newest;
};

/* The latest time is one in which `least` calls are usual, if the black box remembers them. */
static struct overlap_pace pace_of(const struct blackbox *box, double least)
{
    struct overlap_pace pace = {
        .all = (double)box->counters[WIRE_COUNTER_OPERATIONS], .window = OVERLAP_NS, .since = box->now};
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        uint64_t last = comm->op_count ? comm->ops[comm->op_count - 1].begin : 0;
        pace.since = comm->opened && comm->opened < pace.since ? comm->opened : pace.since;
        pace.newest = last > pace.newest && last <= box->now ? last : pace.newest;
    }
    uint64_t life = pace.newest > pace.since ? pace.newest - pace.since : 0;
    double usual = pace.all > 0 ? least * (double)life / pace.all : 0;
    if (usual > (double)pace.window)
        pace.window = usual < (double)life ? (uint64_t)usual : life;
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        uint64_t first = comm->op_count ? comm->ops[0].begin : pace.newest;
        if (comm->op_count && comm->ops[0].position > 0 && first < pace.newest && pace.newest - first < pace.window)
            pace.window = pace.newest - first;
    }
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            pace.calls += box->comms[i].ops[j].begin + pace.window >= pace.newest;
    return pace;
}

/* Calls a nanosecond before the latest time; 0: too little is known. */
static double rate_before(const struct overlap_pace *pace)
{
    bool known = pace->newest > pace->since && pace->newest - pace->since > pace->window && pace->all > pace->calls &&
                 pace->calls >= OVERLAP_CALLS;
    return known ? (pace->all - pace->calls) / (double)(pace->newest - pace->since - pace->window) : 0;
}

/* Calls a nanosecond in the quickest part of the life, which has this length. */
static double rate_at_best(const struct blackbox *box, uint64_t length)
{
    const struct blackbox_sample *all = box->samples;
    double best = 0;
    for (size_t to = 1, from = 0; to < box->sample_count; to++) {
        while (from + 1 < to && all[to].at - all[from + 1].at >= length)
            from++;
        double time = (double)(all[to].at - all[from].at), calls = (double)(all[to].calls - all[from].calls);
        if (all[to].at - all[from].at >= length && calls > best * time)
            best = calls / time;
    }
    return best;
}

bool overlap_was_faster(const struct blackbox *box)
{
    const struct overlap_pace pace = pace_of(box, 0);
    return pace.calls < OVERLAP_SLOWER * rate_before(&pace) * (double)pace.window;
}

bool overlap_hides_waits(struct scene *scene, const struct member_group *group)
{
    bool overlap = false, slower = true;
    for (size_t i = 0; i < group->count; i++) {
        overlap = overlap || overlaps(scene, group->members[i].box);
        slower = slower && overlap_was_faster(group->members[i].box);
    }
    return overlap && !slower;
}

/* Few requests at random differ little now and then: of twelve in 1 of 100 cases by half of their mean, of 22 never. */
struct overlap_waits overlap_waits_of(size_t count, double sum, double squares)
{
    double mean = count ? sum / (double)count : 0,
           variance = mean > 0 ? squares / (double)count / (mean * mean) - 1 : 1;
    double most = count > 2 && count < WORK_ENOUGH ? (WORK_ENOUGH - 2.0) / ((double)count - 2) : 1;
    return (struct overlap_waits){mean, variance * most};
}

/*
 * Were there clearly more calls a nanosecond in another time, of this length? The rate of n requests in a time t is off
 * by chance: its variance is n / t^2 times the relative variance of what lies between two of them.
 */
static bool is_slower(const struct overlap_pace *pace, double rate, double time, const struct overlap_waits *waits)
{
    double window = (double)pace->window, calls_of_one = pace->calls * waits->mean / window;
    if (pace->calls >= WORK_SLOWER * rate * window || calls_of_one <= 0)
        return pace->calls < WORK_SLOWER * rate * window;
    double now = 1 / waits->mean, then = rate / calls_of_one;
    double variance = waits->variance * (now / window + then / time);
    return (then - now) * (then - now) > WORK_CHANCE * WORK_CHANCE * variance;
}

/* Requests come at random: WORK_CALLS of them are compared with those before, and with those of the quickest time. */
static bool was_quicker(const struct blackbox *box, const struct overlap_waits *waits)
{
    const struct overlap_pace pace = pace_of(box, WORK_CALLS);
    uint64_t length = pace.window > WORK_NS ? pace.window : WORK_NS;
    double before = rate_before(&pace), life = (double)(pace.newest - pace.since);
    return (before > 0 && is_slower(&pace, before, life - (double)pace.window, waits)) ||
           is_slower(&pace, rate_at_best(box, length), (double)length, waits);
}

bool overlap_waits_for_work(struct scene *scene, const struct member *member, const struct overlap_waits *waits)
{
    const struct processor_share share = share_of(scene, member);
    bool sleeps = share.time && (double)share.ran < WORK_PART * (double)share.time &&
                  ((double)share.delayed < SHORT_PART * (double)share.time || share_is_crowded_out(scene, member));
    return sleeps && waits->variance >= WORK_VARIES * WORK_VARIES && !was_quicker(member->box, waits);
}
