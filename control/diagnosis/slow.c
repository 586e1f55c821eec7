/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: the rank that the others wait for, call after call. Collectives bring ranks together: the last to come makes
 * the others wait, and each wait is measured where it happens. Ranks whose clocks compare tell by when they came. Other
 * ranks tell by how long the call took: the last to come is through first (C4 section 3.1: durations of the receivers).
 */
#include "diagnosis/slow.h"

#include "diagnosis/hidden.h"
#include "diagnosis/overlap.h"
#include "diagnosis/rules.h"
#include "diagnosis/share.h"
#include "diagnosis/stage.h"
#include "diagnosis/system.h"
#include "diagnosis/thresholds.h"
#include "diagnosis/phrase.h"

#include <stdlib.h>
#include <string.h>

/* ---- Calls that all ranks remember ---- */

/* One collective, with the times at which the ranks came to it. */
struct slow_meeting {
    size_t came;
    bool rooted;              /* one rank has what the others want, or wants what they have: not all wait for all */
    int64_t last;             /* nanoseconds since the first that is compared; durations are negative */
    double sum;               /* of all ranks; times from outside could overflow integers */
    size_t who;               /* member that came last */
    double spent, spent_last; /* in the call: by all ranks, by the last rank */
};

struct meetings {
    struct slow_meeting *calls;
    uint64_t first, base; /* sequence number of calls[0]; time 0 */
    size_t count;
    bool by_time; /* the ranks' clocks compare; else durations of calls count */
};

/* How many of the newest calls are compared, and when a rank that holds them up is slow. */
struct slow_rule {
    uint64_t last;
    uint64_t longest; /* a longer wait does not count */
    size_t held;
    double part;
};

static const struct slow_rule always = {SLOW_LAST, UINT64_MAX, SLOW_CALLS, SLOW_PART};
/* As a loader that runs dry now and then. */
static const struct slow_rule now_and_then = {WIRE_BOX_OPS, SLOW_STALL_NS, SLOW_STALLS, SLOW_STALLED};

struct slow_tally {
    size_t held;     /* calls that this rank held up */
    uint64_t waited; /* average of the other ranks' waits in these calls, without the longest */
    uint64_t longest;
    double squares; /* of these waits */
};

/* Finds the numbers that every rank has called. False: they are too few, or some rank makes none. */
static bool common_calls(const struct member_group *group, uint64_t last, struct meetings *meetings)
{
    uint64_t from = 0, to = UINT64_MAX;
    meetings->base = UINT64_MAX;
    meetings->by_time = group->one_clock;
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox_comm *comm = group->members[i].comm;
        uint64_t oldest = UINT64_MAX;
        if (!group->members[i].has_newest || comm->state != WIRE_COMM_OPEN)
            return false;
        for (size_t j = 0; j < comm->op_count && oldest == UINT64_MAX; j++)
            if (comm->ops[j].collective < WIRE_SEND) {
                oldest = comm->ops[j].seq;
                meetings->base = comm->ops[j].begin < meetings->base ? comm->ops[j].begin : meetings->base;
                meetings->by_time =
                    meetings->by_time && !comm->ops[j].device; /* a GPU's clock compares with no other */
            }
        from = oldest > from ? oldest : from;
        to = group->members[i].newest < to ? group->members[i].newest : to;
    }
    if (to < from || to - from + 1 < SLOW_CALLS)
        return false;
    meetings->first = to - from < last ? from : to - last + 1;
    meetings->count = (size_t)(to - meetings->first + 1);
    return true;
}

static void come(struct slow_meeting *meeting, size_t who, int64_t value, double spent)
{
    if (!meeting->came++ || value > meeting->last) {
        meeting->last = value;
        meeting->who = who;
        meeting->spent_last = spent;
    }
    meeting->sum += (double)value;
    meeting->spent += spent;
}

static bool is_rooted(int collective)
{
    return collective == WIRE_BROADCAST || collective == WIRE_REDUCE || collective == WIRE_GATHER ||
           collective == WIRE_SCATTER;
}

static uint64_t end_of(const struct ends *ends, const struct blackbox_op *op)
{
    for (size_t i = ends_first_from(ends, op->begin); i < ends->count && ends->calls[i]->begin == op->begin; i++)
        if (ends->calls[i] == op)
            return ends->end[i];
    return op->end;
}

/* How long a rank was in a call and could do nothing else: a program that begins another call meanwhile does not wait
 * so far. */
static uint64_t blocked(const struct ends *ends, uint64_t came, uint64_t end)
{
    size_t after = ends_first_from(ends, end);
    uint64_t since = after && ends->calls[after - 1]->begin > came ? ends->calls[after - 1]->begin : came;
    return end > since ? end - since : 0;
}

/* Adds when this rank came to each call: a call that waits in the queue comes when the one before it is over. */
static void add_member(struct scene *scene, const struct member_group *group, size_t who, struct meetings *meetings)
{
    const struct blackbox_comm *comm = group->members[who].comm;
    uint64_t over = 0, seen = meetings->first;
    const struct ends *ends = scene_ends(scene, group->members[who].process);
    scene->steps += comm->op_count;
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        uint64_t came = op->begin > over ? op->begin : over, end = op->device ? op->end : end_of(ends, op);
        over = op->end > over ? op->end : over;
        if (op->collective >= WIRE_SEND || op->seq < seen || op->seq - meetings->first >= meetings->count ||
            came < meetings->base)
            continue;
        seen = op->seq + 1;
        if (op->state != WIRE_OP_DONE || op->result || (op->device && !op->gpu_end)) /* its kernels tell the end */
            continue;
        int64_t took = end > came ? (int64_t)(end - came) : 0;
        uint64_t waits = call_waits_from(op);
        double spent = (double)blocked(ends, came > waits ? came : waits, end);
        if (op->device) {
            took = (int64_t)((op->gpu_end - op->gpu_begin) & INT64_MAX);
            spent = (double)device_held(ends, comm, op);
            scene->steps += comm->op_count;
        }
        int64_t value = meetings->by_time ? (int64_t)(came - meetings->base) : -took;
        come(&meetings->calls[op->seq - meetings->first], who, value, spent);
        meetings->calls[op->seq - meetings->first].rooted = is_rooted(op->collective);
    }
}

/* ---- The last rank ---- */

/* The wait of the other ranks, which is no longer than their call: the root of a broadcast waits for nobody. */
static uint64_t others_wait(const struct slow_meeting *meeting, size_t ranks)
{
    double late = (double)meeting->last * (double)ranks - meeting->sum, spent = meeting->spent - meeting->spent_last;
    double sum = late < spent ? late : spent;
    return sum > 0 ? (uint64_t)(sum / (double)(ranks - 1)) : 0;
}

static bool recent(const struct member_group *group, const struct meetings *meetings,
                   const struct slow_meeting *meeting)
{
    const struct blackbox *box = group->members->box;
    if (!box->alive || !meetings->by_time)
        return true;
    return box->now < meetings->base + (uint64_t)meeting->last + SLOW_WINDOW_NS;
}

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The median pause from the end of a call on its GPU to the begin of the next, by that GPU's clock. 0: unknown. */
static uint64_t usual_pause(const struct blackbox_comm *comm)
{
    uint64_t *pauses = calloc(comm->op_count + 1, sizeof *pauses), over = 0;
    size_t count = 0;
    for (size_t i = 0; pauses && i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        if (over && op->gpu_begin > over)
            pauses[count++] = op->gpu_begin - over;
        over = op->gpu_end;
    }
    if (count)
        qsort(pauses, count, sizeof *pauses, by_number);
    uint64_t median = count ? pauses[count / 2] : 0;
    free(pauses);
    return median;
}

/* Is the GPU late, or does a peer or the network keep it? Long pauses on the GPU are the program's own work. */
static void prove_pauses(struct finding *finding, const struct member_group *group, const struct member *member)
{
    uint64_t mine = usual_pause(member->comm), others = 0;
    for (size_t i = 0; i < group->count; i++) {
        uint64_t pause = &group->members[i] == member ? 0 : usual_pause(group->members[i].comm);
        others = pause > others ? pause : others;
    }
    if (mine && others)
        prove(finding, "its GPU begins a call %s after the end of the one before it, the others' %s at most",
              phrase_time(mine).text, phrase_time(others).text);
}

static void report(struct scene *scene, struct findings *findings, const struct member_group *group, size_t who,
                   const struct slow_tally *tally, const struct slow_tally *all)
{
    const struct member *member = &group->members[who];
    const struct processor_share share = share_of(scene, member);
    struct finding *finding = finding_add(findings, FINDING_SLOW, LIKELY, member);
    finding->victims = group->count - 1;
    say_who(finding, member);
    say(finding,
        " was last in %zu of the last %zu calls of communicator %s in which ranks waited; they waited %s for it on "
        "average",
        tally->held, all->held, phrase_name(member->comm), phrase_time(tally->waited / (tally->held - 1)).text);
    prove_pauses(finding, group, member);
    if (share.time)
        prove(finding, "process %u used %s of processor in the last %s; a thread of it had to wait %s for one",
              member->box->header.pid, phrase_time(share.ran).text, phrase_time(share.time).text,
              phrase_time(share.delayed).text);
    prove_system(scene, finding, member);
    prove_stage(finding, member->box);
}

/* ---- Late because of other calls ---- */

/* How long this operation was under way within a window. */
static double overlap(const struct ends *ends, const struct blackbox_op *op, uint64_t from, uint64_t to)
{
    uint64_t over = op->end ? op->end : end_of(ends, op);
    uint64_t begin = op->begin > from ? op->begin : from, end = over < to ? over : to;
    return op->state == WIRE_OP_DONE && end > begin ? (double)(end - begin) : 0;
}

static bool is_over(const struct ends *ends, const struct blackbox_op *op, uint64_t time)
{
    return op->state == WIRE_OP_DONE && (op->end ? op->end : end_of(ends, op)) <= time;
}

/* All ranks had to come to this meeting before any was through. */
static bool has_joined(const struct member_group *group, const struct meetings *meetings, size_t at)
{
    const struct slow_meeting *meeting = &meetings->calls[at];
    return meeting->came == group->count && !meeting->rooted;
}

/* The time from which this rank's calls count before a meeting: the last rank came to the meeting before, if that is
 * known. */
static uint64_t since_meeting(const struct member_group *group, const struct meetings *meetings, size_t before,
                              uint64_t otherwise)
{
    const struct slow_meeting *meeting = &meetings->calls[before];
    bool known = meetings->by_time && meeting->came == group->count;
    return known ? meetings->base + (uint64_t)meeting->last : otherwise;
}

/*
 * Adds how long a rank was in these calls before it came to each meeting. The calls are of another communicator, or of
 * this one, as a broadcast that reaches the rank late. A call that is under way over several meetings counts before
 * each of them. Meetings and calls are sorted by time, so each is looked at once, or while it is under way.
 */
static void add_inside(const struct member *member, const struct member *calls, const struct ends *ends,
                       const struct meetings *meetings, double *inside)
{
    const struct blackbox_comm *comm = member->comm, *in = calls->comm;
    const struct blackbox_op *last = NULL;
    size_t next = 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        if (op->collective >= WIRE_SEND)
            continue;
        bool counts = last && op->seq > meetings->first && op->seq - meetings->first < meetings->count;
        size_t number = counts ? (size_t)(op->seq - meetings->first) : 0;
        uint64_t from = last ? last->begin : 0, over = last && in == comm ? end_of(ends, last) : 0;
        uint64_t until = over > op->begin ? over : op->begin; /* a call waits behind the one before it */
        if (counts && (in == comm || has_joined(member->group, meetings, number - 1)))
            from = since_meeting(member->group, meetings, number - 1, last->end > from ? last->end : from);
        double sum = 0, all = until > from ? (double)(until - from) : 0;
        for (size_t j = next; j < in->op_count && in->ops[j].begin < op->begin; j++)
            sum += overlap(ends, &in->ops[j], from, until);
        while (next < in->op_count && in->ops[next].begin < op->begin && is_over(ends, &in->ops[next], op->begin))
            next++;
        inside[number] += !counts ? 0 : sum < all ? sum : all; /* calls under way beside each other */
        last = op;
    }
}

/* Sums over all communicators of its process. After a broadcast or reduction ranks are as late as they were before. */
static void sum_inside(struct scene *scene, const struct member *member, const struct meetings *meetings,
                       double *inside)
{
    const struct ends *ends = scene_ends(scene, member->process);
    memset(inside, 0, meetings->count * sizeof *inside);
    for (const struct member *at = scene->of_process[member->process]; at; at = at->sibling) {
        scene->steps += member->comm->op_count + at->comm->op_count;
        add_inside(member, at, ends, meetings, inside);
    }
    for (size_t i = 1; i < meetings->count; i++)
        inside[i] += has_joined(member->group, meetings, i - 1) ? 0 : inside[i - 1];
}

/*
 * Did this rank wait itself before most of the calls that it held up? It was in other calls for longer than the others,
 * by half of what they waited for it. A stage of a pipeline does so when its messages come late.
 */
static bool came_from_calls(struct scene *scene, const struct member_group *group, size_t who,
                            const struct meetings *meetings)
{
    double *mine = calloc(3 * meetings->count, sizeof *mine);
    if (!mine)
        return false;
    double *others = mine + meetings->count, *one = others + meetings->count, late = 0, explained = 0;
    for (size_t i = 0; i < group->count; i++) {
        sum_inside(scene, &group->members[i], meetings, one);
        for (size_t j = 0; j < meetings->count; j++)
            *(i == who ? &mine[j] : &others[j]) += one[j];
    }
    for (size_t j = 0; j < meetings->count; j++) {
        const struct slow_meeting *meeting = &meetings->calls[j];
        double waited =
            meeting->came == group->count && meeting->who == who ? (double)others_wait(meeting, group->count) : 0;
        double longer = mine[j] - others[j] / (double)(group->count - 1);
        if (waited < (double)SLOW_WAIT_NS)
            continue;
        late += waited;
        explained += longer > waited / 2 ? waited : 0;
    }
    free(mine);
    return explained > late / 2;
}

/* The rank lacks processors as all on its machine do, and comes late by no more than some turns of other processes: the
 * load is to blame, and no rank. */
static bool only_lacks_turns(struct scene *scene, const struct member *member, const struct slow_tally *tally)
{
    const struct processor_share share = share_of(scene, member);
    return tally->waited < SLOW_TURNS_NS * (tally->held - 1) && share_part(&share) >= SHORT_PART && !share.throttled &&
           share_is_crowded_out(scene, member);
}

/* ---- Verdict ---- */

/* Leaves out the longest wait: one long pause, as of a process that was stopped, makes no rank slow. */
static void add_wait(struct slow_tally *tally, uint64_t waited)
{
    uint64_t longest = waited > tally->longest ? waited : tally->longest;
    tally->waited += tally->longest + waited - longest;
    tally->longest = longest;
    tally->squares += (double)waited * (double)waited;
    tally->held++;
}

/* The time between the first call and the last one that are compared, by the clock of one rank. */
static uint64_t meetings_span(const struct member_group *group, const struct meetings *meetings)
{
    const struct blackbox_comm *comm = group->members->comm;
    uint64_t from = UINT64_MAX, to = 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        const struct blackbox_op *op = &comm->ops[i];
        if (op->collective >= WIRE_SEND || op->seq < meetings->first || op->seq - meetings->first >= meetings->count)
            continue;
        from = op->begin < from ? op->begin : from;
        to = op->begin > to ? op->begin : to;
    }
    return to > from ? to - from : 0;
}

/* Sums all waits, those for each member, and the time that all of it took. */
static struct slow_tally count_waits(const struct member_group *group, const struct meetings *meetings,
                                     uint64_t longest, struct slow_tally *tallies, uint64_t *took)
{
    struct slow_tally all = {0};
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < meetings->count; i++) {
        const struct slow_meeting *meeting = &meetings->calls[i];
        if (meeting->came != group->count || !recent(group, meetings, meeting))
            continue;
        first = meeting->last < first ? meeting->last : first;
        last = meeting->last > last ? meeting->last : last;
        uint64_t waited = others_wait(meeting, group->count);
        if (waited < SLOW_WAIT_NS || waited > longest)
            continue;
        add_wait(&all, waited);
        add_wait(&tallies[meeting->who], waited);
    }
    *took = !meetings->by_time ? meetings_span(group, meetings) : last > first ? (uint64_t)(last - first) : 0;
    return all;
}

static void note_work(struct findings *findings, const struct member_group *group, size_t who,
                      const struct slow_tally *tally)
{
    const struct member *member = &group->members[who];
    struct finding *finding = finding_add(findings, FINDING_AWAY, LIKELY, member);
    finding->victims = group->count - 1;
    say_who(finding, member);
    say(finding,
        " was last in %zu calls of communicator %s, after times that differ much, %s on average, as since the job "
        "began: it may wait for requests",
        tally->held, phrase_name(member->comm), phrase_time(tally->waited / (tally->held - 1)).text);
}

static void judge(struct scene *scene, struct findings *findings, const struct member_group *group,
                  const struct meetings *meetings, const struct slow_rule *rule)
{
    uint64_t took;
    struct slow_tally *tallies = calloc(group->count, sizeof *tallies);
    struct slow_tally all =
        tallies ? count_waits(group, meetings, rule->longest, tallies, &took) : (struct slow_tally){0};
    for (size_t i = 0; all.held && i < group->count; i++) {
        const struct slow_tally *mine = &tallies[i];
        if (mine->held >= rule->held && (double)mine->waited >= SLOW_SHARE * (double)all.waited && took &&
            (double)mine->waited >= rule->part * (double)took && !came_from_calls(scene, group, i, meetings) &&
            !only_lacks_turns(scene, &group->members[i], mine) && !overlap_hides_waits(scene, group)) {
            const struct overlap_waits waits =
                overlap_waits_of(mine->held, (double)(mine->waited + mine->longest), mine->squares);
            if (overlap_waits_for_work(scene, &group->members[i], &waits))
                note_work(findings, group, i, mine);
            else
                report(scene, findings, group, i, mine, &all);
        }
    }
    free(tallies);
}

/* A rank has waited too long to call that slow, in any communicator, though the cause is still unknown. */
static bool stands_still(const struct scene *scene, const struct member_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        for (const struct member *at = scene->of_process[group->members[i].process]; at; at = at->sibling)
            if (at->stuck)
                return true;
    return false;
}

/* False: there are too few calls to compare, or no memory. */
static bool open_meetings(struct scene *scene, const struct member_group *group, uint64_t last,
                          struct meetings *meetings)
{
    *meetings = (struct meetings){0};
    if (group->count < 2 || stands_still(scene, group) || !common_calls(group, last, meetings))
        return false;
    meetings->calls = calloc(meetings->count, sizeof *meetings->calls);
    for (size_t i = 0; meetings->calls && i < group->count; i++)
        add_member(scene, group, i, meetings);
    return meetings->calls != NULL;
}

static void find_slow(struct scene *scene, struct findings *findings, const struct member_group *group,
                      const struct slow_rule *rule)
{
    struct meetings meetings;
    if (!open_meetings(scene, group, rule->last, &meetings))
        return;
    judge(scene, findings, group, &meetings, rule);
    free(meetings.calls);
}

void slow_shares(struct scene *scene, const struct member_group *group, double *shares)
{
    struct meetings meetings;
    uint64_t took = 0;
    if (!open_meetings(scene, group, always.last, &meetings))
        return;
    struct slow_tally *tallies = calloc(group->count, sizeof *tallies);
    if (tallies)
        count_waits(group, &meetings, always.longest, tallies, &took);
    for (size_t i = 0; tallies && took && i < group->count; i++)
        if (tallies[i].held && !came_from_calls(scene, group, i, &meetings))
            shares[i] = (double)tallies[i].waited / (double)took;
    free(tallies);
    free(meetings.calls);
}

/* ---- Effects: a rank is late in one communicator because it waited in another ---- */

static bool is_victim(const struct scene *scene, const struct finding *finding, uint64_t process)
{
    const struct member_group *group = scene_group(scene, finding->culprit.comm);
    for (size_t i = 0; group && finding->culprit.process != process && i < group->count; i++)
        if (process_key(group->members[i].box) == process)
            return true;
    return false;
}

/* The time that this process has been in receives from another. */
static uint64_t in_receives(const struct scene *scene, const struct member *member, uint64_t sender)
{
    uint64_t sum = 0;
    for (const struct member *at = scene->of_process[member->process]; at; at = at->sibling) {
        uint64_t over = 0;
        for (size_t i = 0; i < at->comm->op_count; i++) {
            const struct blackbox_op *op = &at->comm->ops[i];
            uint64_t from = op->begin > over ? op->begin : over;
            over = op->end > over ? op->end : over;
            bool whole = op->collective == WIRE_RECV && op->state == WIRE_OP_DONE && op->root >= 0 && op->end > from;
            const struct member *peer = whole ? scene_find(at->group, op->root) : NULL;
            sum += peer && process_key(peer->box) == sender ? op->end - from : 0;
        }
    }
    return sum;
}

/* A stage of a pipeline is late because the messages of `other` come late; `other` waits less for those that come
 * back. */
static bool waits_for_messages(const struct scene *scene, const struct finding *finding, const struct finding *other)
{
    struct member_group *group = scene_group(scene, finding->culprit.comm),
                        *others = scene_group(scene, other->culprit.comm);
    const struct member *at = group ? scene_find(group, finding->culprit.rank) : NULL;
    const struct member *to = others ? scene_find(others, other->culprit.rank) : NULL;
    if (!at || !to)
        return false;
    uint64_t there = in_receives(scene, at, process_key(to->box)), back = in_receives(scene, to, process_key(at->box));
    return there > SLOW_CALLS * SLOW_WAIT_NS && there > 2 * back;
}

/* A process may be slow in several communicators: the one where most ranks wait for it has the finding. */
static bool is_effect(const struct scene *scene, const struct findings *findings, size_t from, size_t at)
{
    const struct finding *finding = &findings->items[at];
    for (size_t i = from; i < findings->count; i++) {
        const struct finding *other = &findings->items[i];
        bool same = other->culprit.process == finding->culprit.process;
        if (i != at && same && (other->victims > finding->victims || (other->victims == finding->victims && i < at)))
            return true;
        /* two that blame each other's ranks: the smaller communicator is nearer to the cause */
        if (i != at && !same && is_victim(scene, other, finding->culprit.process) &&
            (other->victims < finding->victims || !is_victim(scene, finding, other->culprit.process)))
            return true;
        if (i != at && !same && waits_for_messages(scene, finding, other))
            return true;
    }
    return false;
}

static void drop_effects(struct scene *scene, struct findings *findings, size_t from)
{
    bool effects[FINDINGS_MOST] = {false};
    size_t kept = from;
    for (size_t i = from; i < findings->count; i++)
        effects[i] = is_effect(scene, findings, from, i);
    for (size_t i = from; i < findings->count; i++)
        if (!effects[i])
            findings->items[kept++] = findings->items[i];
    findings->count = kept;
}

/* Ranks are late because of a hang or slow lanes, where one was found. */
void rule_slow(struct scene *scene, struct findings *findings)
{
    size_t from = findings->count;
    if (from)
        return;
    for (size_t i = 0; i < scene->group_count; i++)
        find_slow(scene, findings, &scene->groups[i], &always);
    for (size_t i = 0; i < scene->group_count && findings->count == from; i++)
        find_slow(scene, findings, &scene->groups[i], &now_and_then);
    drop_effects(scene, findings, from);
}
