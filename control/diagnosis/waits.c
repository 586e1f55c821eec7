/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank that each rank waits for, across communicators. A rank that runs an operation names the rank that it waits
 * for. A rank that has not come to its operation, or has not called, waits for its process's operation elsewhere.
 * (NCCLX section 7.3: what has not started waits for what runs on that rank.) Each rank waits for one rank at most, so
 * that following the names ends at a rank or in a circle.
 */
#include "diagnosis/waits.h"

#include "wire/way.h"

#include <stddef.h>

/* ---- The rank that a GPU waits for, by the others' calls: the GPU does not name it ---- */

/* `member` has called the collective that `waiter` is in: has its GPU, unlike the waiter's, not come to it? Copy
 * engines do not say where they are. */
static bool lags(const struct member *member, const struct blackbox_op *waiter)
{
    const struct blackbox_op *op = member->op;
    if (!op || !op->device)
        return false;
    if (op->collective >= WIRE_SEND || op->seq < waiter->seq)
        return true;
    const struct way_row *way = way_named(op->algorithm);
    bool kernel = !way || way->means == WAY_BY_KERNEL;
    return op->seq == waiter->seq && op->state == WIRE_OP_ENQUEUED && waiter->state == WIRE_OP_RUNNING && kernel;
}

static int first_without_box(struct member_group *group)
{
    int rank = 0;
    for (size_t i = 0; i < group->count && group->members[i].comm->rank <= rank; i++)
        rank = group->members[i].comm->rank + 1;
    return rank < group->members->comm->nranks ? rank : -1;
}

/* A dead rank; else the one furthest behind, if it has not called; else one without a box; else one whose GPU is
 * behind; else -1. */
static int missing_in_collective(struct scene *scene, struct member_group *group, const struct blackbox_op *op)
{
    if (group->first_dead)
        return group->first_dead->comm->rank;
    if (!member_has_called(group->behind, op))
        return group->behind->comm->rank;
    int absent = first_without_box(group);
    scene->steps += group->count;
    for (size_t i = 0; absent < 0 && i < group->count; i++)
        if (lags(&group->members[i], op))
            return group->members[i].comm->rank;
    return absent;
}

/* Keeps the last answer: most ranks of a group are in the same operation, and their answer is the same. */
static int asked_in_collective(struct scene *scene, struct member_group *group, const struct blackbox_op *op)
{
    if (group->asked != (int)op->state || group->asked_seq != op->seq)
        group->answer = missing_in_collective(scene, group, op);
    group->asked = (int)op->state;
    group->asked_seq = op->seq;
    return group->answer;
}

static bool is_message(const struct blackbox_op *op)
{
    return op->collective >= WIRE_SEND;
}

static bool talks_with(const struct blackbox_op *op, int peer)
{
    return is_message(op) && peer < 32 && (op->sends_to | op->recvs_from) >> peer & 1;
}

/* The place behind a collective of this number; 0: it is not remembered. */
static size_t place_after(const struct blackbox_comm *comm, uint64_t seq)
{
    for (size_t i = comm->op_count; i-- > 0;)
        if (!is_message(&comm->ops[i]) && comm->ops[i].seq == seq)
            return i + 1;
    return 0;
}

/* From where this rank's messages compare with the other's: the last collective that both have called, or all that is
 * remembered. Black boxes do not forget at the same place. */
static size_t compares_from(const struct member *member, const struct member *other)
{
    uint64_t last = member->newest < other->newest ? member->newest : other->newest;
    bool both = member->has_newest && other->has_newest && place_after(other->comm, last);
    return both ? place_after(member->comm, last) : 0;
}

/* Counts the operations in which one rank remembers that it sends to the other, or that the other receives. */
static size_t messages(const struct member *from, const struct member *to, bool as_sender)
{
    const struct member *one = as_sender ? from : to, *other = as_sender ? to : from;
    const struct blackbox_comm *comm = one->comm;
    int peer = other->comm->rank;
    size_t count = 0;
    for (size_t i = compares_from(one, other); i < comm->op_count && peer < 32; i++)
        count += is_message(&comm->ops[i]) && (as_sender ? comm->ops[i].sends_to : comm->ops[i].recvs_from) >> peer & 1;
    return count;
}

/* Is there a message of which this peer's end is missing? */
static bool owes(const struct member *peer, const struct member *at)
{
    return messages(peer, at, true) < messages(peer, at, false) || messages(at, peer, false) < messages(at, peer, true);
}

/* Elsewhere: in another call. */
enum suspicion { HAS_COME, LAGS, HAS_LEFT, IDLES, ELSEWHERE, OWES, OWES_ELSEWHERE, LOST };

/* How surely is the missing part of a send, receive or group this peer's? A peer without a box may have done its part
 * and left. */
static enum suspicion suspect(const struct member *peer, const struct member *at)
{
    if (!peer)
        return HAS_LEFT;
    if (peer->dead)
        return LOST;
    if (!peer->op)
        return owes(peer, at) ? OWES : IDLES;
    if (!peer->op->device || !talks_with(peer->op, at->comm->rank))
        return owes(peer, at) ? OWES_ELSEWHERE : ELSEWHERE;
    return peer->op->state == WIRE_OP_ENQUEUED && at->op->state == WIRE_OP_RUNNING ? LAGS : HAS_COME;
}

static int missing_in_messages(const struct member *at)
{
    enum suspicion most = HAS_COME;
    int found = -1;
    for (int peer = 0; peer < 32 && peer < at->comm->nranks; peer++) {
        bool partner = peer != at->comm->rank && talks_with(at->op, peer);
        enum suspicion how = partner ? suspect(scene_find(at->group, peer), at) : HAS_COME;
        if (how > most) {
            most = how;
            found = peer;
        }
    }
    return found;
}

/* ---- One step ---- */

/* -1: nobody, or unknown. */
static int waited_for(struct scene *scene, const struct member *at)
{
    if (at->op->device)
        return at->op->collective < WIRE_SEND ? asked_in_collective(scene, at->group, at->op) : missing_in_messages(at);
    return at->op->wait_since && at->op->state == WIRE_OP_RUNNING ? at->op->wait_peer : -1;
}

/* Both were issued, and neither is known to have begun: the GPU comes first to the one that was issued first. */
static bool comes_before(const struct blackbox_op *one, const struct blackbox_op *other)
{
    return one->device && other->device && other->state == WIRE_OP_ENQUEUED && one->begin < other->begin;
}

/* The communicator that keeps this rank from calling, or from coming to what it has called. */
static struct member *busy_with(struct scene *scene, const struct member *at)
{
    for (struct member *other = scene->of_process[at->process]; other; other = other->sibling) {
        scene->steps++;
        if (other == at || !other->stuck || other->comm->id == at->comm->id)
            continue;
        if (!at->stuck && (other->op->state == WIRE_OP_RUNNING || other->op->device))
            return other;
        if (at->stuck && at->op->state != WIRE_OP_RUNNING && other->op->state == WIRE_OP_RUNNING)
            return other;
        if (at->stuck && comes_before(other->op, at->op))
            return other;
    }
    return NULL;
}

/* Is a tracer holding the process? One that only looks on stops it for moments. */
static bool is_held(const struct scene *scene, const struct member *at)
{
    const struct process_facts *before = facts_before(scene, at);
    return at->facts->state == PROCESS_TRACED && (!before || before->state == PROCESS_TRACED);
}

/* A process that was let go between the looks and has not moved since counts, too: it stood still because it was
 * stopped. */
static bool is_stopped(const struct scene *scene, const struct member *at)
{
    const struct process_facts *before = facts_before(scene, at);
    return at->facts->state == PROCESS_STOPPED || (before && before->state == PROCESS_STOPPED && !at->moved);
}

static bool ends_here(const struct scene *scene, struct member *at)
{
    if (at->dead)
        at->ending = member_is_replaced(at) ? FINDING_REPLACED : FINDING_DEAD;
    else if (at->box->alive && is_stopped(scene, at))
        at->ending = FINDING_STOPPED;
    else if (at->box->alive && is_held(scene, at))
        at->ending = FINDING_TRACED;
    else if (at->comm->state == WIRE_COMM_FAILED || at->comm->state == WIRE_COMM_ABORTED)
        at->ending = FINDING_FAILED;
    else
        return false;
    return true;
}

static void find_next(struct scene *scene, struct member *at)
{
    at->awaited = at->stuck ? waited_for(scene, at) : -1;
    if (ends_here(scene, at))
        return;
    at->next = busy_with(scene, at);
    at->ending = FINDING_BEHIND; /* a rank that waits nowhere has not done what the others wait for */
    if (at->next || !at->stuck)
        return;
    at->ending = FINDING_STILL;
    if (at->awaited < 0)
        return;
    at->next = scene_find(at->group, at->awaited);
    at->ending = FINDING_ABSENT;
}

/* ---- Circles ---- */

/*
 * The peer has sent what this rank waits for, as it waits in a later round of the same operation. Either this rank does
 * not take the data, or they were lost.
 */
static bool does_not_take(const struct member *at)
{
    const struct blackbox_op *mine = at->op, *theirs = at->next->op;
    return at->next->group == at->group && theirs && mine->seq == theirs->seq &&
           mine->collective == theirs->collective && mine->collective < WIRE_SEND &&
           mine->wait_slice == theirs->wait_slice && mine->wait_round < theirs->wait_round;
}

static bool has_ended(const struct blackbox_comm *comm, const struct blackbox_op *op)
{
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].seq == op->seq && comm->ops[i].collective < WIRE_SEND)
            return comm->ops[i].state == WIRE_OP_DONE;
    return false;
}

/* The same, of a peer that is in a later operation of that communicator, or that has ended this one and is in none. */
static bool was_passed(const struct member *at)
{
    const struct blackbox_op *mine = at->op, *theirs = at->next->op;
    if (at->next->group != at->group || !mine || mine->collective >= WIRE_SEND || mine->device)
        return false;
    return theirs ? theirs->collective < WIRE_SEND && mine->seq < theirs->seq : has_ended(at->next->comm, mine);
}

/* The two ends of one message wait for each other: the message is on its way, or lost. */
static bool does_not_arrive(const struct member *at)
{
    const struct member *from = at->next;
    return from->next == at && from->group == at->group && at->op && from->op && at->op->collective == WIRE_RECV &&
           from->op->collective == WIRE_SEND && at->op->bytes == from->op->bytes;
}

/* This rank waits for a message, or for word about its own. The peer may have sent that, and gone on to where it waits
 * now. */
static bool may_be_sent(const struct member *at)
{
    return at->next->group == at->group && at->op &&
           (at->op->collective == WIRE_RECV || at->op->collective == WIRE_SEND);
}

/* The member of the circle that stands for all: the one to blame, if there is one, else that of the lowest rank. */
static struct member *name_circle(struct scene *scene, struct member *from)
{
    struct member *late = NULL, *unheard = NULL, *passed = NULL, *first = from, *at = from;
    bool one_group = true, one_late = true, lost = false;
    do {
        one_group = one_group && at->group == from->group;
        first = at < first ? at : first;
        lost = lost || may_be_sent(at);
        if (does_not_take(at)) {
            one_late = one_late && (!late || late->op->wait_round != at->op->wait_round);
            late = !late || at->op->wait_round < late->op->wait_round ? at : late;
        }
        unheard = does_not_arrive(at) ? at : unheard;
        passed = was_passed(at) && (!passed || at < passed) ? at : passed;
        scene->steps++;
        at = at->next;
    } while (at != from);
    late = late ? late : unheard;
    struct member *named = passed ? passed : late && one_group && one_late ? late : first;
    named->ending = passed || named == late ? FINDING_UNREAD : one_group || lost ? FINDING_CIRCLE : FINDING_ORDER;
    return named;
}

static void resolve(struct scene *scene, struct member *from)
{
    struct member *at = from;
    while (at->mark == UNSEEN) {
        at->mark = WALKED;
        scene->steps++;
        if (at->next)
            at = at->next;
    }
    struct member *end = at->mark == RESOLVED ? at->end : at->next ? name_circle(scene, at) : at;
    for (at = from; at->mark == WALKED; at = at->next ? at->next : at) {
        at->mark = RESOLVED;
        at->end = end;
    }
}

void scene_follow(struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++)
        find_next(scene, &scene->members[i]);
    for (size_t i = 0; i < scene->count; i++)
        resolve(scene, &scene->members[i]);
}
