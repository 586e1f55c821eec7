/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that stands still and may get on by itself: a finding names it later, if it does not. */
#include "diagnosis/patience.h"

#include "diagnosis/lanes.h"
#include "diagnosis/launcher.h"
#include "diagnosis/share.h"
#include "diagnosis/thresholds.h"

#include <string.h>

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
    return victim->end->box->alive && !victim->end->box->pause_count &&
           (double)member_waited(victim->member) < PAUSE_TIMES * (double)longest_pause(victim->end->comm);
}

bool only_starved(const struct scene *scene, const struct victim *witness)
{
    const struct processor_share share = share_of(scene, witness->end);
    return (witness->ending == FINDING_BEHIND ||
            ((witness->ending == FINDING_STILL || witness->ending == FINDING_UNREAD) && share_hardly_runs(&share))) &&
           share_is_starved(&share);
}

/* The last time that this rank did something in this communicator. */
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

/* The newest call of a process, in any communicator, and when it was seen last. */
static const struct blackbox_op *newest_call(const struct scene *scene, const struct member *end, uint64_t *sign)
{
    const struct blackbox_op *newest = NULL;
    *sign = 0;
    for (const struct member *at = scene->of_process[end->process]; at; at = at->sibling) {
        uint64_t last = last_sign(at);
        *sign = last > *sign ? last : *sign;
        for (size_t i = 0; i < at->comm->op_count; i++)
            if (!newest || at->comm->ops[i].begin > newest->begin)
                newest = &at->comm->ops[i];
    }
    return newest;
}

static bool is_behind(const struct blackbox_pause *pause, const struct blackbox_op *op)
{
    return op && pause->before == op->collective && pause->before_count == op->count;
}

/* Earlier pauses of at least half the length of this one. */
static bool was_so_before(const struct blackbox *box, const struct blackbox_op *newest, struct absence *absence)
{
    bool same = false;
    for (size_t i = 0; i < box->pause_count; i++) {
        const struct blackbox_pause *pause = &box->pauses[i];
        if (PAUSE_TIMES * (double)pause->longest <= (double)absence->away)
            continue;
        bool behind = is_behind(pause, newest);
        absence->times += pause->count;
        absence->longest = pause->longest;
        absence->like = behind || !same ? pause : absence->like;
        same = same || behind;
    }
    return same || absence->times >= PAUSE_OFTEN;
}

/* For how long others may wait for this process while it computes. A process that has made many calls has shown how
 * long it stays outside of them. One that has just begun may compile. Boxes of early writers have no samples, and count
 * no pauses; others count no short ones. */
static uint64_t computing_limit(const struct blackbox *box)
{
    if (!box->header.samples || box->counters[WIRE_COUNTER_OPERATIONS] < PAUSE_CALLS)
        return PAUSE_BUSY_NS;
    double longest = box->pause_count ? PAUSE_FAR_TIMES * (double)box->pauses[box->pause_count - 1].longest : 0;
    uint64_t limit = longest < (double)PAUSE_BUSY_NS ? (uint64_t)longest : PAUSE_BUSY_NS;
    return limit > PAUSE_FAR_NS ? limit : PAUSE_FAR_NS;
}

static bool is_busy(const struct scene *scene, const struct victim *victim, struct absence *absence)
{
    const struct member *end = victim->end;
    const struct process_facts *now = end->facts, *before = facts_before(scene, end);
    const struct processor_share share = share_of(scene, end);
    if (before && before->moved && now->moved > before->moved)
        absence->moved = now->moved - before->moved;
    if (absence->away >= PAUSE_BUSY_NS)
        return false;
    uint64_t waited = victim->member->op ? member_waited(victim->member) : 0;
    return absence->moved >= MOVES_BYTES || (share_computes(&share) && waited < computing_limit(end->box));
}

struct absence absence_of(const struct scene *scene, const struct victim *victim)
{
    const struct member *end = victim->end;
    const struct blackbox *box = end->box;
    struct absence absence = {ABSENCE_UNUSUAL};
    uint64_t sign;
    const struct blackbox_op *newest = newest_call(scene, end, &sign);
    absence.away = sign && box->now > sign ? box->now - sign : member_waited(victim->member);
    if (!box->alive || victim->ending != FINDING_BEHIND)
        return absence;
    if (box->expected_until > box->now)
        absence.why = ABSENCE_SAID;
    else if (was_so_before(box, newest, &absence))
        absence.why = ABSENCE_USUAL;
    else if (is_busy(scene, victim, &absence))
        absence.why = ABSENCE_BUSY;
    for (size_t i = 0; absence.why == ABSENCE_UNUSUAL && i < box->pause_count; i++) {
        absence.longest = box->pauses[i].longest;
        absence.times += box->pauses[i].count;
    }
    return absence;
}

/*
 * The process does something in some communicator: it is on its way to where it is waited for, perhaps after a late
 * message. It may go on elsewhere for ever, so a long wait names it all the same.
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

/* A rank that sleeps outside of calls may do so for a moment, as behind a small file or a request. */
static bool is_short_pause(const struct scene *scene, const struct victim *witness)
{
    uint64_t stuck = scene->snapshot->stuck, longest = stuck > PAUSE_SHORT_NS ? stuck : PAUSE_SHORT_NS;
    uint64_t patience = PAUSE_SHORT_TIMES * stuck < longest ? PAUSE_SHORT_TIMES * stuck : longest;
    const struct process_facts *now = witness->end->facts;
    return witness->ending == FINDING_BEHIND && (now->state == PROCESS_SLEEPS || now->state == PROCESS_RUNS) &&
           !launcher_stopped(scene, witness->end) && member_waited(witness->member) < patience;
}

/* A message is late and not lost if the latest message between the two was slow, too: the whole interface may be. Or if
 * one was under way for half as long: a lossy network is slow now and then. Where lanes are down, less is waited. */
static bool is_late(const struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end, *peer = end->next;
    double stuck = (double)scene->snapshot->stuck;
    if ((witness->ending != FINDING_UNREAD && witness->ending != FINDING_CIRCLE) || !peer ||
        ((double)member_waited(witness->member) > LATE_DOWN * stuck &&
         lanes_down(end, peer) + lanes_down(peer, end) >= LOST_LANES))
        return false;
    uint64_t longest = 0, there = lanes_took(end, peer, &longest), back = lanes_took(peer, end, &longest);
    return (double)(there > back ? there : back) > LATE_PART * stuck ||
           (double)member_waited(witness->member) < PAUSE_TIMES * (double)longest;
}

static bool on_one_host(const struct member *a, const struct member *b)
{
    return strcmp(a->box->header.host, b->box->header.host) == 0;
}

/* Are ranks of other hosts in the call in which this circle stands? Their lanes may have lost what it waits for. */
static bool has_other_hosts(const struct member *end)
{
    for (size_t i = 0; i < end->group->count; i++)
        if (!on_one_host(end, &end->group->members[i]))
            return true;
    return false;
}

/* Is the message under way by an adapter of RDMA? Within a host it may be, too. */
static bool by_adapter(const struct member *end, const struct member *peer)
{
    for (size_t i = 0; i < end->box->lane_count; i++)
        if (end->box->lanes[i].peer_pid == peer->box->header.pid && strcmp(end->box->lanes[i].transport, "verbs") == 0)
            return true;
    return !on_one_host(end, peer);
}

/* Lanes to another host that die say so after 2 s of silence, adapters of RDMA later. */
static bool may_be_cut(const struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end, *peer = end->next;
    uint64_t waited = member_waited(witness->member), stuck = scene->snapshot->stuck;
    if (witness->ending == FINDING_CIRCLE)
        return waited < stuck + CIRCLE_NS && has_other_hosts(end);
    return witness->ending == FINDING_UNREAD && peer && by_adapter(end, peer) && waited < stuck + CUT_NS;
}

/* Kernels report their waits when they are asked, and on a crowded machine not at once. While another GPU has not been
 * seen to come to this call either, the missing one may be that GPU. */
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

/* A rank that has its data, or that names nobody, may get on when its turn comes, if its machine has no processors for
 * most of the job. */
static bool waits_for_its_turn(struct scene *scene, const struct victim *witness)
{
    return (witness->ending == FINDING_STILL || witness->ending == FINDING_UNREAD) &&
           share_lacks_all(scene, witness->end);
}

/* Boxes are read one after another. Since the waiting rank's was read, the other one has come to this call or to a
 * later one: the job may have gone on. Messages do not tell that. */
static bool has_gone_on_since(const struct victim *witness)
{
    const struct member *end = witness->end, *waiter = witness->member;
    bool compare = witness->ending == FINDING_BEHIND && end->box->alive && end != waiter && waiter->op &&
                   end->group == waiter->group && end->group->one_clock;
    for (size_t i = 0; compare && i < end->comm->op_count; i++) {
        const struct blackbox_op *op = &end->comm->ops[i];
        if (op->collective < WIRE_SEND && op->seq >= waiter->op->seq &&
            (op->begin > waiter->box->now || op->end > waiter->box->now))
            return true;
    }
    return false;
}

bool may_get_on(struct scene *scene, const struct victim *witness)
{
    const struct member *end = witness->end;
    if (has_gone_on_since(witness))
        return true;
    if (!end->box->alive || !end->box->now || /* a dump without times */
        (double)member_waited(witness->member) > MOVING_TIMES * (double)scene->snapshot->stuck)
        return false;
    return is_on_its_way(scene, witness) || is_short_pause(scene, witness) || is_late(scene, witness) ||
           may_be_cut(scene, witness) || is_open(witness) || waits_for_its_turn(scene, witness) ||
           (only_starved(scene, witness) && share_is_crowded_out(scene, end));
}
