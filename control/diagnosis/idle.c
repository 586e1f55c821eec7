/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rule: all ranks of a communicator are outside of calls. Nobody waits for anybody, so no rank can be named: all may
 * read from one file system that stands still, or the job has nothing to do. A note says for how long, and what was
 * usual.
 */
#include "diagnosis/rules.h"

#include "diagnosis/phrase.h"
#include "diagnosis/thresholds.h"

struct idle_time {
    uint64_t now;     /* the shortest time outside of calls of any process */
    uint64_t longest; /* the longest pause of any process before */
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

/* False: a rank is in a call, has said that it pauses, or has left. */
static bool group_is_idle(struct scene *scene, const struct member_group *group, struct idle_time *time)
{
    *time = (struct idle_time){.now = UINT64_MAX};
    if (group->count < 2 || group->count < (size_t)group->members->comm->nranks)
        return false;
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox *box = group->members[i].box;
        uint64_t idle = process_is_idle(box);
        scene->steps += group->members[i].comm->op_count;
        if (!idle || !box->alive || group->members[i].comm->state != WIRE_COMM_OPEN || box->expected_until > box->now)
            return false;
        time->now = idle < time->now ? idle : time->now;
        for (size_t j = 0; j < box->pause_count; j++)
            time->longest = box->pauses[j].longest > time->longest ? box->pauses[j].longest : time->longest;
    }
    return time->now >= IDLE_NS && time->now / IDLE_TIMES >= time->longest;
}

/* Of the largest communicator: others of the same processes are as idle. */
void rule_idle(struct scene *scene, struct findings *findings)
{
    const struct member_group *largest = NULL;
    struct idle_time time, found = {0};
    for (size_t i = 0; i < scene->group_count && !findings->count; i++)
        if ((!largest || scene->groups[i].count > largest->count) && group_is_idle(scene, &scene->groups[i], &time)) {
            largest = &scene->groups[i];
            found = time;
        }
    if (!largest)
        return;
    struct finding *finding = finding_add_rank(findings, FINDING_IDLE, largest->members->comm, -1);
    say(finding, "all %zu ranks of communicator %s are outside of calls for %s; ", largest->count,
        phrase_name(largest->members->comm), phrase_time(found.now).text);
    if (found.longest)
        say(finding, "the longest pause before was %s", phrase_time(found.longest).text);
    else
        say(finding, "no pause before was longer than a quarter of a second");
}
