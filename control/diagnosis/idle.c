/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: all ranks of a communicator are outside of calls. Nobody waits for anybody, so no rank can be named: all may
 * read from one file system that stands still. The job stands still, which is a fault, unless a rank works, has said
 * that it pauses, or has paused so before. A note says the same of a job in which a rank works.
 */
#include "diagnosis/launcher.h"
#include "diagnosis/patience.h"
#include "diagnosis/rules.h"
#include "diagnosis/share.h"

#include "diagnosis/phrase.h"
#include "diagnosis/thresholds.h"

#include <stdlib.h>

struct idle_time {
    uint64_t now;     /* the shortest time outside of calls of any process */
    uint64_t longest; /* the longest pause of any process before */
    bool stands;      /* no rank works, or is away as before */
};

/* The time since the last call of this process was over, in whatever communicator; 0: the process is in a call. */
static uint64_t process_is_idle(const struct blackbox *box)
{
    uint64_t last = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++) {
            const struct blackbox_op *op = &box->comms[i].ops[j];
            if (op->state != WIRE_OP_DONE)
                return 0;
            uint64_t end = op->end > op->begin ? op->end : op->begin;
            last = end > last ? end : last;
        }
    return last && box->now > last ? box->now - last : 0;
}

/* For each process. NULL: no memory. */
static uint64_t *idle_times(struct scene *scene)
{
    const struct look *look = &scene->snapshot->now;
    uint64_t *idle = calloc(look->count + 1, sizeof *idle);
    for (size_t i = 0; idle && i < look->count; i++) {
        idle[i] = process_is_idle(look->boxes[i]);
        for (size_t j = 0; j < look->boxes[i]->comm_count; j++)
            scene->steps += look->boxes[i]->comms[j].op_count;
    }
    return idle;
}

/* In the kernel at both looks, where no signal reaches it. */
static bool is_blocked(const struct scene *scene, const struct member *member)
{
    const struct process_facts *before = facts_before(scene, member);
    return member->facts->state == PROCESS_BLOCKED && before && before->state == PROCESS_BLOCKED;
}

/* The process computes, moves files, gets pages from a disk, or is away as before; or nothing is known about that. */
static bool may_return(const struct scene *scene, const struct member *member)
{
    const struct process_facts *now = member->facts, *before = facts_before(scene, member);
    const struct victim alone = {member, member, FINDING_BEHIND, member->process, 0};
    const struct absence absence = absence_of(scene, &alone);
    const struct processor_share share = share_of(scene, member);
    bool unknown = !share.time && !is_blocked(scene, member);
    return unknown || absence.why != ABSENCE_UNUSUAL || absence.moved >= MOVES_BYTES || now->faults > before->faults ||
           share_computes(&share);
}

/* False: a rank is in a call, has said that it pauses, or has left. */
static bool group_is_idle(const struct scene *scene, const struct member_group *group, const uint64_t *idle,
                          struct idle_time *time)
{
    uint64_t least = IDLE_NS;
    *time = (struct idle_time){.now = UINT64_MAX, .stands = true};
    if (group->count < 2 || group->count < (size_t)group->members->comm->nranks)
        return false;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        const struct blackbox *box = member->box;
        uint64_t away = idle[member->process];
        if (away < PAUSE_SHORT_NS || !box->alive || member->comm->state != WIRE_COMM_OPEN ||
            box->expected_until > box->now)
            return false;
        time->now = away < time->now ? away : time->now;
        time->stands = time->stands && !may_return(scene, member);
        least = is_blocked(scene, member) ? PAUSE_SHORT_NS : least;
        for (size_t j = 0; j < box->pause_count; j++)
            time->longest = box->pauses[j].longest > time->longest ? box->pauses[j].longest : time->longest;
    }
    if (time->stands && least < IDLE_NS) /* none was away for half as long before */
        return true;
    return time->now >= IDLE_NS && time->now / IDLE_TIMES >= time->longest;
}

/* ---- A launcher that is stopped ---- */

/* The parent of this member, stopped at both looks, while all ranks of its group are outside of calls; 0: none. */
static uint32_t stopped_launcher(const struct scene *scene, const struct member_group *group, const uint64_t *idle,
                                 uint64_t *time)
{
    uint32_t found = 0;
    *time = UINT64_MAX;
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        uint64_t away = idle[member->process];
        if (!member->box->alive || away < scene->snapshot->stuck || away == 0)
            return 0;
        *time = away < *time ? away : *time;
        found = launcher_stopped(scene, member) ? launcher_stopped(scene, member) : found;
    }
    return found;
}

static bool tell_launcher(const struct scene *scene, struct findings *findings, const uint64_t *idle)
{
    for (size_t i = 0; i < scene->group_count; i++) {
        uint64_t time;
        uint32_t launcher = stopped_launcher(scene, &scene->groups[i], idle, &time);
        if (!launcher)
            continue;
        struct finding *finding =
            launcher_add(findings, scene->groups[i].members->comm, launcher, scene->groups[i].count);
        say(finding,
            ", and all %zu ranks of communicator %s are outside of calls for %s: they may wait until it reads what "
            "they "
            "print",
            scene->groups[i].count, phrase_name(scene->groups[i].members->comm), phrase_time(time).text);
        return true;
    }
    return false;
}

/* Ranks that waited in the kernel at both looks, as all do whose file system stands still. */
static size_t prove_kernel(const struct scene *scene, struct finding *finding, const struct member_group *group)
{
    struct rank_list list = {0};
    const char *where = "";
    for (size_t i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        if (!is_blocked(scene, member))
            continue;
        list_member(&list, member);
        where = *where ? where : member->facts->detail;
    }
    size_t count = list.count;
    if (count)
        prove(finding, "rank%s%s wait%s in the kernel (state D), for a disk, a network file system or a device%s%s",
              count == 1 ? "" : "s", list_text(&list), count == 1 ? "s" : "", *where ? ", in " : "", where);
    return count;
}

static void report(const struct scene *scene, struct findings *findings, const struct member_group *group,
                   const struct idle_time *time)
{
    struct finding *finding =
        finding_add_rank(findings, time->stands ? FINDING_OUTSIDE : FINDING_IDLE, group->members->comm, -1);
    finding->victims = time->stands ? group->count : 0;
    say(finding, "%sall %zu ranks of communicator %s are outside of calls for %s; ",
        time->stands ? "nothing gets on: " : "", group->count, phrase_name(group->members->comm),
        phrase_time(time->now).text);
    if (time->longest)
        say(finding, "the longest pause before was %s", phrase_time(time->longest).text);
    else
        say(finding, "no pause before was longer than a quarter of a second");
    if (prove_kernel(scene, finding, group) && time->stands)
        finding->confidence = LIKELY;
    if (time->stands)
        prove(finding, "no rank computes, moves files, or has said that it pauses");
}

static bool has_fault(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (!finding_is_note(findings->items[i].kind))
            return true;
    return false;
}

/* Of the largest communicator: others of the same processes are as idle. Notes on the past of a rank hide nothing. */
void rule_idle(struct scene *scene, struct findings *findings)
{
    const struct member_group *largest = NULL;
    struct idle_time time, found = {0};
    uint64_t *idle = has_fault(findings) ? NULL : idle_times(scene);
    bool told = idle && tell_launcher(scene, findings, idle);
    for (size_t i = 0; idle && !told && i < scene->group_count; i++)
        if ((!largest || scene->groups[i].count > largest->count) &&
            group_is_idle(scene, &scene->groups[i], idle, &time)) {
            largest = &scene->groups[i];
            found = time;
        }
    free(idle);
    if (largest)
        report(scene, findings, largest, &found);
}
