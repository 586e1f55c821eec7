/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that compute while their collectives are under way. A call that lasts long tells nothing there: the program may
 * not have asked for its end so far. Ranks stay one behind the other, by as much as they compute, and nobody waits.
 *
 * Ranks that wait for requests. They are told from slow ones by the past of the job, and by how much their pauses
 * differ.
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

/* The latest time is one in which WORK_CALLS are usual, if the black box remembers them. */
static struct overlap_pace pace_of(const struct blackbox *box)
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
    double usual = pace.all > 0 ? WORK_CALLS * (double)life / pace.all : 0;
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
    const struct overlap_pace pace = pace_of(box);
    double before = OVERLAP_SLOWER * rate_before(&pace), best = SLOWED_PART * rate_at_best(box, WORK_NS);
    return pace.calls < (before > best ? before : best) * (double)pace.window;
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
    const struct overlap_pace pace = pace_of(box);
    uint64_t length = pace.window > WORK_NS ? pace.window : WORK_NS;
    double before = rate_before(&pace), life = (double)(pace.newest - pace.since);
    return (before > 0 && is_slower(&pace, before, life - (double)pace.window, waits)) ||
           is_slower(&pace, rate_at_best(box, length), (double)length, waits);
}

/* Long pauses of one rank, each before a call of one kind. */
struct stalls {
    size_t count, apart; /* calls from one to the next, by which steps are counted; 0: their numbers differ */
    size_t first, last;  /* calls of the process */
    uint64_t shortest, longest;
};

static bool is_like(const struct blackbox_op *a, const struct blackbox_op *b)
{
    return a->collective == b->collective && a->count == b->count && a->root == b->root;
}

/* The pause before this call; 0: none, or one that may be a checkpoint. `over`: the end of the calls before. */
static uint64_t pause_before(const struct ends *ends, size_t at, uint64_t *over)
{
    uint64_t begin = ends->calls[at]->begin, pause = *over && begin > *over ? begin - *over : 0;
    *over = ends->end[at] > *over ? ends->end[at] : *over;
    return pause < SLOW_STALL_NS ? pause : 0;
}

/* The call behind the longest pause; NULL: there is none. */
static const struct blackbox_op *behind_longest(const struct ends *ends, uint64_t *longest)
{
    const struct blackbox_op *behind = NULL;
    uint64_t over = 0;
    *longest = 0;
    for (size_t i = 0; i < ends->count; i++) {
        uint64_t pause = pause_before(ends, i, &over);
        behind = pause > *longest ? ends->calls[i] : behind;
        *longest = pause > *longest ? pause : *longest;
    }
    return behind;
}

/* The box has a group of two messages as a group, or has the messages by themselves. */
static bool is_like_stall(const struct blackbox_op *op, const struct blackbox_op *behind)
{
    return is_like(op, behind) || (op->collective >= WIRE_SEND && behind->collective >= WIRE_SEND);
}

/* What counts steps where a rank stalls before messages. An exchange has one receive, if it is no group in the box. */
enum step_mark { MARK_COLLECTIVE, MARK_RECEIVED, MARK_SENT };

static enum step_mark mark_of(const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND ? MARK_COLLECTIVE : op->collective == WIRE_SEND ? MARK_SENT : MARK_RECEIVED;
}

/* The first of these kinds of which there are calls. */
static enum step_mark mark_of_all(const struct ends *ends)
{
    enum step_mark first = MARK_SENT;
    for (size_t i = 0; i < ends->count; i++)
        first = mark_of(ends->calls[i]) < first ? mark_of(ends->calls[i]) : first;
    return first;
}

/* The pauses that take at least half of the longest one. */
static struct stalls stalls_of(const struct ends *ends)
{
    struct stalls stalls = {0};
    const struct blackbox_op *behind = behind_longest(ends, &stalls.longest);
    enum step_mark mark = mark_of_all(ends);
    bool messages = behind && behind->collective >= WIRE_SEND;
    uint64_t over = 0;
    stalls.shortest = stalls.longest;
    for (size_t i = 0, apart = 0; i < ends->count && behind; i++) {
        uint64_t pause = pause_before(ends, i, &over);
        apart += messages ? mark_of(ends->calls[i]) == mark : is_like(ends->calls[i], behind);
        if (!is_like_stall(ends->calls[i], behind) || 2 * pause < stalls.longest)
            continue;
        stalls.apart = stalls.count < 2 || apart == stalls.apart ? apart : 0;
        stalls.first = stalls.count++ ? stalls.first : i;
        stalls.last = i;
        stalls.shortest = pause < stalls.shortest ? pause : stalls.shortest;
        apart = 0;
    }
    return stalls;
}

/* The chance that this number of pauses agree so well, if each may have any length up to the longest one. */
static double chance_of(const struct stalls *stalls)
{
    double apart = 1 - (double)stalls->shortest / (double)stalls->longest, chance = 1;
    for (size_t i = 1; i < stalls->count; i++)
        chance *= apart;
    return chance;
}

/* Does the rank stall for one time in each n-th step, though the job has made clearly more calls a second before? So
 * does a loader that runs dry. Requests come at random, or after other numbers of steps. */
static bool stalls_evenly(struct scene *scene, const struct member *member)
{
    const struct ends *ends = scene_ends(scene, member->process);
    const struct stalls stalls = stalls_of(ends);
    scene->steps += 2 * ends->count;
    if (stalls.count < SLOW_STALLS || !stalls.apart || chance_of(&stalls) > WORK_AGREES)
        return false;
    double time = (double)(ends->calls[stalls.last]->begin - ends->calls[stalls.first]->begin);
    return (double)(stalls.last - stalls.first) < WORK_SLOWER * rate_at_best(member->box, OVERLAP_NS) * time;
}

bool overlap_waits_for_work(struct scene *scene, const struct member *member, const struct overlap_waits *waits)
{
    const struct processor_share share = share_of(scene, member);
    bool sleeps = share.time && (double)share.ran < WORK_PART * (double)share.time &&
                  ((double)share.delayed < SHORT_PART * (double)share.time || share_is_crowded_out(scene, member));
    return sleeps && waits->variance >= WORK_VARIES * WORK_VARIES && !was_quicker(member->box, waits) &&
           !stalls_evenly(scene, member);
}
