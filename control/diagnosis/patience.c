/* SPDX-License-Identifier: Apache-2.0 */
/* Who stands still, and may get on by itself: named later, if it does not. */
#include "diagnosis/patience.h"

#include "diagnosis/lanes.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

uint64_t longest_pause(const struct blackbox_comm *comm)
{
    uint64_t longest = 0;
    for (size_t i = 1; i < comm->op_count; i++) {
        const struct blackbox_op *last = &comm->ops[i - 1];
        uint64_t over = last->end > last->begin ? last->end : last->begin, next = comm->ops[i].begin;
        longest = next > over && next - over > longest ? next - over : longest;
    }
    return longest;
}

bool may_come_yet(const struct victim *victim)
{
    return victim->end->box->alive &&
           (double)member_waited(victim->member) < PAUSE_TIMES * (double)longest_pause(victim->end->comm);
}

bool only_starved(const struct scene *scene, const struct victim *witness)
{
    const struct processor_share share = share_of(scene, witness->end);
    return (witness->ending == FINDING_BEHIND ||
            ((witness->ending == FINDING_STILL || witness->ending == FINDING_UNREAD) && share_hardly_runs(&share))) &&
           share_is_starved(&share);
}

/* When this rank was last seen to do something in this communicator. */
static uint64_t last_sign(const struct member *member)
{
    const struct blackbox_comm *comm = member->comm;
    uint64_t last = member->op ? blackbox_since(member->op) : 0;
    for (size_t i = 0; i < comm->op_count; i++) {
        uint64_t over = comm->ops[i].end > comm->ops[i].begin ? comm->ops[i].end : comm->ops[i].begin;
        last = over > last ? over : last;
    }
    return last;
}

/*
 * Its process does something in any communicator: it is on its way to where it is waited for, as after a message that
 * came late. Whom others have waited for many times as long is named all the same: it may go on elsewhere for ever.
 */
static bool is_on_its_way(const struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end;
    uint64_t stuck = scene->snapshot->stuck;
    if (witness->ending != FINDING_BEHIND)
        return false;
    for (const struct member *at = scene->of_process[end->process]; at; at = at->sibling)
        if (at->moved || at->box->now < last_sign(at) + stuck)
            return true;
    return false;
}

/* What was on its way between the two for long before may be late again, and is not lost: all that uses a slow
 * interface is. */
static bool is_late(const struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end, *peer = end->next;
    double stuck = (double)scene->snapshot->stuck;
    if ((witness->ending != FINDING_UNREAD && witness->ending != FINDING_CIRCLE) || !peer)
        return false;
    uint64_t there = lanes_last(end, peer), back = lanes_last(peer, end);
    return (double)(there > back ? there : back) > LATE_PART * stuck;
}

/* Kernels say that they wait when they are asked, and on a crowded machine not at once: as long as another GPU has not
 * been seen to come to this call either, it may be that one. */
static bool is_open(const struct victim *witness)
{
    const struct member *end = witness->end;
    if (witness->ending != FINDING_STILL || !end->op || !end->op->device || end->op->state != WIRE_OP_ENQUEUED)
        return false;
    for (size_t i = 0; i < end->group->count; i++) {
        const struct member *other = &end->group->members[i];
        if (other != end && other->op && other->op->device && other->op->state == WIRE_OP_ENQUEUED &&
            other->op->seq == end->op->seq)
            return true;
    }
    return false;
}

bool may_get_on(struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end;
    if (!end->box->alive || !end->box->now || /* a dump without times */
        (double)member_waited(witness->member) > MOVING_TIMES * (double)scene->snapshot->stuck)
        return false;
    return is_on_its_way(scene, witness) || is_late(scene, witness) || is_open(witness) ||
           (only_starved(scene, witness) && share_is_crowded_out(scene, end));
}
