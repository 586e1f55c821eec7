/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the members of groups that no dump names, as those of Gloo. A dump tells that its own rank is in a group, by a
 * call there. The first group has all known ranks. Others have the ranks whose dumps show a call; a rank that has made
 * none is not missed.
 *
 * A call of Gloo that has failed looks as one that is over. Where a member has not made that call, it is not over.
 */
#include "dumps/dumps.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define WORLD "default_pg" /* what PyTorch calls the group that init_process_group made */

#define LATER_NS (2 * NS_PER_S) /* dumps of a running job differ by this time */

struct joined {
    struct blackbox_comm *comm;
    uint64_t now; /* when its dump was written; 0: nobody knows */
};

static int by_id_and_rank(const void *left, const void *right)
{
    const struct blackbox_comm *a = ((const struct joined *)left)->comm, *b = ((const struct joined *)right)->comm;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static size_t gather(struct blackbox *const *boxes, size_t count, struct joined *members)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < boxes[i]->comm_count; j++)
            if (boxes[i]->comms[j].undeclared) {
                if (members)
                    members[found] = (struct joined){&boxes[i]->comms[j], boxes[i]->now};
                found++;
            }
    return found;
}

/* Turns ranks among all into ranks in the group, but for the group that has all. */
static void settle(struct joined *members, size_t count, int ranks)
{
    bool world = strcmp(members->comm->name, WORLD) == 0;
    for (size_t i = 0; i < count; i++) {
        struct blackbox_comm *comm = members[i].comm;
        comm->nranks = world ? ranks : (int)count;
        comm->rank = world ? comm->rank : (int)i;
        comm->undeclared = false;
    }
}

/* ---- Calls that have failed ---- */

static uint64_t newest(const struct blackbox_comm *comm)
{
    uint64_t most = 0;
    for (size_t i = 0; i < comm->op_count; i++)
        if (comm->ops[i].collective < WIRE_SEND && comm->ops[i].seq > most)
            most = comm->ops[i].seq;
    return most;
}

/* Can no rank be through before all have called? */
static bool needs_all(const struct blackbox_op *op)
{
    switch (op->collective) {
    case WIRE_ALLREDUCE:
    case WIRE_ALLGATHER:
    case WIRE_REDUCE_SCATTER:
    case WIRE_BARRIER:
        return true;
    default:
        return false;
    }
}

static void find_failed(struct joined *members, size_t count)
{
    const struct joined *least = members;
    for (size_t i = 1; i < count; i++)
        least = newest(members[i].comm) < newest(least->comm) ? &members[i] : least;
    uint64_t last = newest(least->comm);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < members[i].comm->op_count; j++) {
            struct blackbox_op *op = &members[i].comm->ops[j];
            bool later = !least->now || least->now >= op->begin + LATER_NS;
            if (op->state == WIRE_OP_DONE && !op->end && op->count && needs_all(op) && op->seq > last && later)
                op->state = WIRE_OP_ENQUEUED;
        }
}

/* ---- Dumps of one rank ---- */

static uint64_t last_call(const struct blackbox *box)
{
    uint64_t last = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            last = box->comms[i].ops[j].begin > last ? box->comms[i].ops[j].begin : last;
    return last;
}

static bool is_recorded(const struct blackbox *box)
{
    return strcmp(box->header.library, DUMP_RECORDER) == 0;
}

static bool same_rank(const struct blackbox *a, const struct blackbox *b)
{
    return is_recorded(a) && is_recorded(b) && a->header.start_time == b->header.start_time;
}

static int by_rank_and_age(const void *left, const void *right)
{
    const struct blackbox *a = *(struct blackbox *const *)left, *b = *(struct blackbox *const *)right;
    int libraries = strcmp(a->header.library, b->header.library);
    uint64_t mine = last_call(a), theirs = last_call(b);
    if (libraries)
        return libraries;
    if (a->header.start_time != b->header.start_time)
        return a->header.start_time < b->header.start_time ? -1 : 1;
    return mine != theirs ? (mine > theirs ? -1 : 1) : strcmp(a->path, b->path);
}

void dump_drop_older(struct blackbox **boxes, size_t *count)
{
    size_t kept = 0;
    bool any = false;
    for (size_t i = 0; i < *count; i++)
        any = any || is_recorded(boxes[i]);
    if (any)
        qsort(boxes, *count, sizeof(struct blackbox *), by_rank_and_age);
    for (size_t i = 0; i < *count; i++)
        if (kept && same_rank(boxes[kept - 1], boxes[i]))
            blackbox_free(boxes[i]);
        else
            boxes[kept++] = boxes[i];
    *count = kept;
}

bool dump_join(struct blackbox *const *boxes, size_t count)
{
    size_t found = gather(boxes, count, NULL);
    struct joined *members = found ? calloc(found, sizeof *members) : NULL;
    int ranks = 0;
    if (!members)
        return !found;
    gather(boxes, count, members);
    for (size_t i = 0; i < found; i++)
        ranks = members[i].comm->rank >= ranks ? members[i].comm->rank + 1 : ranks;
    qsort(members, found, sizeof *members, by_id_and_rank);
    for (size_t i = 0, end; i < found; i = end) {
        for (end = i; end < found && members[end].comm->id == members[i].comm->id;)
            end++;
        settle(members + i, end - i, ranks);
        find_failed(members + i, end - i);
    }
    free(members);
    return true;
}
