/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who makes the others wait. In each communicator, every rank that stands still names the rank that it waits for;
 * following the names ends at a rank that waits for nobody of this communicator: it is dead, or not here, or behind (it
 * has called fewer operations), or stuck in another communicator, which then has a verdict of its own. (ICCL section 6:
 * operation counts; NCCLX section 7.3: what is stuck behind another collective is not the cause.)
 */
#include "trace.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_RANKS 16

enum ending { NOT_STUCK, STILL, DEAD, ABSENT, BEHIND, AHEAD, BUSY, CIRCLE, BROKEN };

static const char *const kinds[] = {
    [STILL] = "still", [DEAD] = "dead", [ABSENT] = "absent", [BEHIND] = "behind",
    [AHEAD] = "ahead", [BUSY] = "busy", [CIRCLE] = "circle", [BROKEN] = "failed",
};

/* A rank, what it is in, and where following the waits from it ends. */
struct rank_state {
    struct view_member member;
    const struct blackbox_op *op; /* not done */
    uint64_t newest;              /* collective, by number; 0 with has_newest false */
    bool has_newest, dead, stuck;
    enum ending ending;
    int culprit; /* rank where the chain ends */
};

struct group {
    struct rank_state *ranks;
    size_t count;
    const struct view_set *set;
    uint64_t stuck; /* threshold */
};

struct report {
    struct view_finding *items;
    size_t count;
};

/* ---- Facts about each rank ---- */

static void find_newest(struct rank_state *rank)
{
    const struct blackbox_comm *comm = rank->member.comm;
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].collective < WIRE_SEND && (!rank->has_newest || comm->ops[i].seq > rank->newest)) {
            rank->newest = comm->ops[i].seq;
            rank->has_newest = true;
        }
    if (comm->newest_unrecorded > rank->newest) {
        rank->newest = comm->newest_unrecorded;
        rank->has_newest = true;
    }
}

static bool stands_still(const struct blackbox *box, const struct blackbox_op *op, uint64_t threshold)
{
    return op && (!box->alive || box->now >= view_since(op) + threshold);
}

/* Where all are dead, those who went with the last are not the cause: they were ended together. */
static void find_dead(struct group *group)
{
    bool someone_lives = false;
    uint64_t last = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct blackbox *box = group->ranks[i].member.box;
        someone_lives = someone_lives || box->alive;
        last = box->now > last ? box->now : last;
    }
    for (size_t i = 0; i < group->count; i++) {
        struct rank_state *rank = &group->ranks[i];
        const struct blackbox *box = rank->member.box;
        rank->dead =
            !box->alive && rank->member.comm->state == WIRE_COMM_OPEN && (someone_lives || box->now + NS_PER_S < last);
    }
}

static void find_facts(struct group *group, const struct view_member *members)
{
    for (size_t i = 0; i < group->count; i++) {
        struct rank_state *rank = &group->ranks[i];
        *rank = (struct rank_state){.member = members[i], .culprit = -1};
        find_newest(rank);
        if (members[i].comm->state != WIRE_COMM_CLOSED)
            rank->op = view_current(members[i].comm);
    }
    find_dead(group);
    for (size_t i = 0; i < group->count; i++) {
        struct rank_state *rank = &group->ranks[i];
        rank->stuck = !rank->dead && stands_still(rank->member.box, rank->op, group->stuck);
    }
}

static struct rank_state *find_rank(const struct group *group, int rank)
{
    size_t low = 0, high = group->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (group->ranks[middle].member.comm->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < group->count && group->ranks[low].member.comm->rank == rank ? &group->ranks[low] : NULL;
}

/* The communicator in which this process stands still, if it is not `comm`. */
static const struct blackbox_comm *stuck_elsewhere(const struct group *group, const struct view_member *member)
{
    for (size_t i = 0; i < member->box->comm_count; i++) {
        const struct blackbox_comm *other = &member->box->comms[i];
        const struct blackbox_op *op = other->state == WIRE_COMM_CLOSED ? NULL : view_current(other);
        bool begun = op && (op->state == WIRE_OP_RUNNING || op->device);
        if (other->id != member->comm->id && begun && stands_still(member->box, op, group->stuck))
            return other;
    }
    return NULL;
}

/* The communicator that keeps this rank's GPU from coming to its operation. */
static const struct blackbox_comm *busy_with(const struct group *group, const struct rank_state *rank)
{
    const struct blackbox_comm *other = stuck_elsewhere(group, &rank->member);
    if (!rank->stuck)
        return other;
    bool has_come = !rank->op->device || rank->op->state == WIRE_OP_RUNNING;
    return other && !has_come && view_current(other)->state == WIRE_OP_RUNNING ? other : NULL;
}

/* ---- Whom a GPU waits for: nobody says it, the others' calls tell ---- */

static bool has_called(const struct rank_state *rank, const struct blackbox_op *op)
{
    return rank->has_newest && rank->newest >= op->seq;
}

/* `rank` has called the collective that `waiter` is in: has its GPU, other than the waiter's, not come to it? Copy engines do not say
 * where they are. */
static bool lags(const struct rank_state *rank, const struct blackbox_op *waiter)
{
    const struct blackbox_op *op = rank->op;
    if (!op || !op->device)
        return false;
    if (op->collective >= WIRE_SEND || op->seq < waiter->seq)
        return true;
    bool kernel = strcmp(op->algorithm, "copy") != 0 && strcmp(op->algorithm, "copy_chain") != 0;
    return op->seq == waiter->seq && op->state == WIRE_OP_ENQUEUED && waiter->state == WIRE_OP_RUNNING && kernel;
}

/* A dead rank; one that has not called, the one that is furthest behind; one without a box; one whose GPU is behind; or -1. */
static int missing_in_collective(const struct group *group, const struct rank_state *at)
{
    const struct rank_state *behind = NULL, *lagging = NULL;
    for (size_t i = 0; i < group->count; i++) {
        const struct rank_state *rank = &group->ranks[i];
        if (rank == at)
            continue;
        if (rank->dead)
            return rank->member.comm->rank;
        if (!has_called(rank, at->op) && (!behind || rank->newest < behind->newest))
            behind = rank;
        if (!lagging && has_called(rank, at->op) && lags(rank, at->op))
            lagging = rank;
    }
    for (int rank = 0; !behind && rank < at->member.comm->nranks; rank++)
        if (!find_rank(group, rank))
            return rank;
    behind = behind ? behind : lagging;
    return behind ? behind->member.comm->rank : -1;
}

static bool talks_with(const struct blackbox_op *op, int peer)
{
    return peer < 32 && (op->sends_to | op->recvs_from) >> peer & 1;
}

/* Operations in which a rank, as far as it remembers, sends to another. */
static size_t messages(const struct rank_state *from, const struct rank_state *to, bool as_sender)
{
    const struct blackbox_comm *comm = as_sender ? from->member.comm : to->member.comm;
    int other = as_sender ? to->member.comm->rank : from->member.comm->rank;
    size_t count = 0;
    for (size_t i = 0; i < comm->op_count && other < 32; i++)
        count += (as_sender ? comm->ops[i].sends_to : comm->ops[i].recvs_from) >> other & 1;
    return count;
}

/* Is there a message of which this peer's end is not there? */
static bool owes(const struct rank_state *peer, const struct rank_state *at)
{
    return messages(peer, at, true) < messages(peer, at, false) || messages(at, peer, false) < messages(at, peer, true);
}

enum suspicion { HAS_COME, LAGS, HAS_LEFT, IDLES, OWES, ELSEWHERE, LOST };

/* How surely is this peer the one whose part of a send, receive or group is missing? Without a box it may have done it and left. */
static enum suspicion suspect(const struct rank_state *peer, const struct rank_state *at)
{
    if (!peer)
        return HAS_LEFT;
    if (peer->dead)
        return LOST;
    if (!peer->op)
        return owes(peer, at) ? OWES : IDLES;
    if (!peer->op->device || !talks_with(peer->op, at->member.comm->rank))
        return ELSEWHERE;
    return peer->op->state == WIRE_OP_ENQUEUED && at->op->state == WIRE_OP_RUNNING ? LAGS : HAS_COME;
}

static int missing_in_messages(const struct group *group, const struct rank_state *at)
{
    enum suspicion most = HAS_COME;
    int found = -1;
    for (int peer = 0; peer < 32 && peer < at->member.comm->nranks; peer++) {
        bool partner = peer != at->member.comm->rank && talks_with(at->op, peer);
        enum suspicion how = partner ? suspect(find_rank(group, peer), at) : HAS_COME;
        if (how > most) {
            most = how;
            found = peer;
        }
    }
    return found;
}

/* ---- Chains ---- */

/* -1: nobody, as far as can be told. */
static int waited_for(const struct group *group, const struct rank_state *at)
{
    if (at->op->device)
        return at->op->collective < WIRE_SEND ? missing_in_collective(group, at) : missing_in_messages(group, at);
    return at->op->wait_since && at->op->state == WIRE_OP_RUNNING ? at->op->wait_peer : -1;
}

static enum ending judge(const struct group *group, const struct rank_state *rank, const struct blackbox_op *waited)
{
    if (rank->dead)
        return DEAD;
    if (rank->member.comm->state == WIRE_COMM_FAILED || rank->member.comm->state == WIRE_COMM_ABORTED)
        return BROKEN;
    if (busy_with(group, rank))
        return BUSY;
    if (rank->stuck)
        return STILL;
    bool collective = waited->collective < WIRE_SEND;
    return collective && rank->has_newest && rank->newest >= waited->seq ? AHEAD : BEHIND;
}

static void follow(const struct group *group, struct rank_state *from)
{
    struct rank_state *at = from;
    for (size_t steps = 0; steps <= group->count; steps++) {
        int peer = waited_for(group, at);
        struct rank_state *next = peer < 0 ? NULL : find_rank(group, peer);
        from->culprit = peer < 0 ? at->member.comm->rank : peer;
        from->ending = peer < 0 ? judge(group, at, from->op) : ABSENT;
        if (!next)
            return;
        from->ending = judge(group, next, from->op);
        if (!next->stuck || from->ending != STILL)
            return;
        at = next;
    }
    from->ending = CIRCLE;
    from->culprit = -1;
}

/* ---- Sentences ---- */

static void say(struct view_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct view_finding *finding, const char *format, ...)
{
    size_t used = strlen(finding->text);
    va_list args;
    va_start(args, format);
    vsnprintf(finding->text + used, sizeof finding->text - used, format, args);
    va_end(args);
}

static struct view_finding *add(struct report *report, uint64_t comm, int rank, const char *kind)
{
    struct view_finding *more = realloc(report->items, (report->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    report->items = more;
    more[report->count] = (struct view_finding){.comm = comm, .rank = rank, .kind = kind};
    return &more[report->count++];
}

/* Does the chain of this rank end as that of `waiter`, and not in itself? */
static bool goes_with(const struct rank_state *rank, const struct rank_state *waiter)
{
    return rank->stuck && rank->ending == waiter->ending && rank->culprit == waiter->culprit &&
           rank->member.comm->rank != waiter->culprit;
}

static size_t count_with(const struct group *group, const struct rank_state *waiter)
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++)
        count += goes_with(&group->ranks[i], waiter);
    return count;
}

/* "ranks 0 1 2" */
static void say_ranks(struct view_finding *finding, const struct group *group, const struct rank_state *waiter)
{
    size_t count = count_with(group, waiter), named = 0;
    say(finding, count == 1 ? "rank" : "ranks");
    for (size_t i = 0; i < group->count && named < SHOWN_RANKS; i++)
        if (goes_with(&group->ranks[i], waiter)) {
            say(finding, " %d", group->ranks[i].member.comm->rank);
            named++;
        }
    if (count > named)
        say(finding, " and %zu more", count - named);
}

static void say_where(struct view_finding *finding, const struct rank_state *waiter)
{
    const struct blackbox_comm *comm = waiter->member.comm;
    uint64_t now = waiter->member.box->now, since = view_since(waiter->op);
    say(finding, " in %s of communicator %s", view_call(waiter->op).text, *comm->name ? comm->name : "(no name)");
    if (now > since)
        say(finding, ", for %s", view_time(now - since).text);
}

static void say_last(struct view_finding *finding, const struct rank_state *rank, uint64_t now)
{
    const struct blackbox_comm *comm = rank->member.comm;
    if (!comm->op_count) {
        say(finding, "; it has called nothing yet");
        return;
    }
    const struct blackbox_op *last = &comm->ops[comm->op_count - 1];
    say(finding, "; its last: %s, %s", view_call(last).text, view_op_state(last));
    if (last->end && now > last->end)
        say(finding, " %s ago", view_time(now - last->end).text);
}

static void say_culprit(struct view_finding *finding, const struct group *group, const struct rank_state *waiter)
{
    const struct rank_state *rank = find_rank(group, waiter->culprit);
    if (!rank) {
        say(finding, "rank %d (no black box here: on another host, not traced, or never started)", waiter->culprit);
        return;
    }
    say(finding, "rank %d (pid %u%s)", waiter->culprit, rank->member.box->header.pid,
        rank->member.box->alive ? "" : ", dead");
    if (waiter->ending == BEHIND && waiter->op->collective < WIRE_SEND)
        say(finding, " has not called %s and", view_call(waiter->op).text);
    else if (waiter->ending == AHEAD)
        say(finding, " has called %s itself but", view_call(waiter->op).text);
    else if (waiter->ending == BUSY)
        say(finding, " is stuck in another communicator and");
    else if (waiter->ending == BROKEN)
        say(finding, " has given up the communicator (%s) and", rank->member.comm->sentence);
    else if (waiter->ending == STILL && rank->op && rank->op->device && rank->op->state == WIRE_OP_ENQUEUED)
        say(finding, *rank->op->algorithm ? ", whose GPU has not been seen to come to %s," : " has not returned from its call of %s and",
            view_call(rank->op).text);
}

static void say_after(struct view_finding *finding, const struct group *group, const struct rank_state *waiter)
{
    const struct rank_state *rank = find_rank(group, waiter->culprit);
    if (!rank)
        return;
    const struct blackbox_comm *other = waiter->ending == BUSY ? busy_with(group, rank) : NULL;
    if (other)
        say(finding, "; see communicator %s, where it is in %s", *other->name ? other->name : "(no name)",
            view_call(view_current(other)).text);
    else if (waiter->ending == BEHIND || waiter->ending == AHEAD || waiter->ending == DEAD)
        say_last(finding, rank, waiter->member.box->now);
}

static void describe(struct report *report, const struct group *group, const struct rank_state *waiter)
{
    struct view_finding *finding = add(report, waiter->member.comm->id, waiter->culprit, kinds[waiter->ending]);
    if (!finding)
        return;
    if (waiter->ending == CIRCLE) {
        say_ranks(finding, group, waiter);
        say(finding, " wait for each other");
    } else {
        say_culprit(finding, group, waiter);
        bool others = count_with(group, waiter);
        say(finding, others ? " is waited for by " : " stands still and names no rank that it waits for,");
        if (others)
            say_ranks(finding, group, waiter);
    }
    say_where(finding, waiter);
    say_after(finding, group, waiter);
}

/* ---- Calls that do not fit together ---- */

static const struct blackbox_op *find_seq(const struct blackbox_comm *comm, uint64_t seq)
{
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].seq == seq && comm->ops[i].collective < WIRE_SEND)
            return &comm->ops[i];
    return NULL;
}

static bool differ(const struct blackbox_op *a, const struct blackbox_op *b)
{
    bool counts = a->collective != WIRE_ALLTOALLV && a->count != b->count;
    return a->collective != b->collective || a->type != b->type || a->op != b->op || a->root != b->root || counts;
}

static void say_op(struct view_finding *finding, const struct rank_state *rank, const struct blackbox_op *op)
{
    say(finding, "rank %d (pid %u) called %s %" PRIu64 " %s %s", rank->member.comm->rank, rank->member.box->header.pid,
        blackbox_collective_name(op->collective), op->count, blackbox_type_name(op->type), blackbox_op_name(op->op));
    if (op->root >= 0)
        say(finding, " root %d", op->root);
}

/* The first call about which two ranks disagree: looked for among what the first rank remembers. */
static void find_mismatch(struct report *report, const struct group *group)
{
    const struct blackbox_comm *first = group->ranks[0].member.comm;
    for (size_t i = 0; i < first->op_count; i++) {
        const struct blackbox_op *mine = &first->ops[i];
        for (size_t j = 1; mine->collective < WIRE_SEND && j < group->count; j++) {
            const struct blackbox_op *other = find_seq(group->ranks[j].member.comm, mine->seq);
            if (!other || !differ(mine, other))
                continue;
            struct view_finding *finding = add(report, first->id, -1, "mismatch");
            if (!finding)
                return;
            say(finding, "call #%" PRIu64 " of communicator %s is not the same on all ranks: ", mine->seq, first->name);
            say_op(finding, &group->ranks[0], mine);
            say(finding, ", ");
            say_op(finding, &group->ranks[j], other);
            return;
        }
    }
}

/* ---- All ---- */

static bool said_before(const struct group *group, size_t index)
{
    const struct rank_state *rank = &group->ranks[index];
    for (size_t i = 0; i < index; i++)
        if (group->ranks[i].stuck && group->ranks[i].ending == rank->ending && group->ranks[i].culprit == rank->culprit)
            return true;
    return false;
}

static void judge_group(struct report *report, struct group *group, const struct view_member *members)
{
    find_facts(group, members);
    for (size_t i = 0; i < group->count; i++)
        if (group->ranks[i].stuck)
            follow(group, &group->ranks[i]);
    find_mismatch(report, group);
    for (size_t i = 0; i < group->count; i++)
        if (group->ranks[i].stuck && !said_before(group, i))
            describe(report, group, &group->ranks[i]);
}

struct view_finding *view_verdict(const struct view_options *options, const struct view_set *set, size_t *count)
{
    struct report report = {0};
    size_t total;
    struct view_member *members = view_members(set, &total);
    struct group group = {.ranks = calloc(total + 1, sizeof *group.ranks), .set = set, .stuck = options->stuck};
    for (size_t at = 0; members && group.ranks && at < total; at += group.count) {
        group.count = view_group(members, total, at);
        judge_group(&report, &group, members + at);
    }
    free(group.ranks);
    free(members);
    *count = report.count;
    return report.items;
}
