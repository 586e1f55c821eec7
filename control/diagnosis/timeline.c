/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moments of a process. Calls and segments are spans, each with a meaning. Where several spans hold, the first by
 * enum moment counts; outside of calls only the network does. A rank in a collective waits for the last one to come,
 * which is through as soon as all have come (C4 section 3.1). So the rank waits for the time by which its call is
 * longer. No clocks of two hosts are compared.
 */
#include "diagnosis/timeline.h"

#include "diagnosis/flows.h"

#include <stdlib.h>

/* ---- Calls of a group ---- */

static uint64_t over(const struct blackbox_op *op)
{
    return op->end > op->begin ? op->end : op->begin;
}

static bool is_collective(const struct blackbox_op *op)
{
    return op->collective < WIRE_SEND;
}

static int by_seq(const void *left, const void *right)
{
    uint64_t a = ((const struct timeline_call *)left)->seq, b = ((const struct timeline_call *)right)->seq;
    return a < b ? -1 : a > b;
}

/* The last rank is unknown where a rank has not finished a call, or does not remember it. */
bool timeline_calls_open(const struct member_group *group, struct timeline_calls *calls)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < group->count; i++)
        count += group->members[i].comm->op_count;
    struct timeline_call *items = calloc(count + 1, sizeof *items);
    *calls = (struct timeline_calls){items, 0};
    if (!items)
        return false;
    count = 0;
    for (size_t i = 0; i < group->count; i++)
        for (size_t j = 0; j < group->members[i].comm->op_count; j++) {
            const struct blackbox_op *op = &group->members[i].comm->ops[j];
            if (is_collective(op) && op->state == WIRE_OP_DONE)
                items[count++] = (struct timeline_call){op->seq, over(op) - op->begin, 0};
        }
    qsort(items, count, sizeof *items, by_seq);
    for (size_t i = 0, end; i < count; i = end) {
        struct timeline_call one = items[i];
        for (end = i; end < count && items[end].seq == one.seq; end++)
            one.shortest = items[end].shortest < one.shortest ? items[end].shortest : one.shortest;
        if (end - i == (size_t)group->members->comm->nranks)
            items[kept++] = one;
    }
    calls->count = kept;
    return true;
}

struct timeline_call *timeline_call_find(const struct timeline_calls *calls, uint64_t seq)
{
    const struct timeline_call key = {.seq = seq};
    return calls->count ? bsearch(&key, calls->items, calls->count, sizeof key, by_seq) : NULL;
}

/* ---- Spans ---- */

/* A moment from which something holds, or no longer holds. */
struct timeline_edge {
    uint64_t at;
    enum moment moment; /* MOMENT_PROGRAM: in a call */
    int change;
};

struct edges {
    struct timeline_edge *items;
    size_t count;
    uint64_t from, to;
};

static void add(struct edges *edges, enum moment moment, uint64_t begin, uint64_t end)
{
    begin = begin < edges->from ? edges->from : begin;
    end = end > edges->to ? edges->to : end;
    if (begin >= end)
        return;
    edges->items[edges->count++] = (struct timeline_edge){begin, moment, 1};
    edges->items[edges->count++] = (struct timeline_edge){end, moment, -1};
}

static void add_call(struct edges *edges, const struct timeline_calls *calls, const struct blackbox_op *op)
{
    uint64_t end = op->state == WIRE_OP_DONE ? over(op) : edges->to;
    const struct timeline_call *call = is_collective(op) ? timeline_call_find(calls, op->seq) : NULL;
    add(edges, MOMENT_PROGRAM, op->begin, end);
    if (call && op->state == WIRE_OP_DONE && end - op->begin > call->shortest)
        add(edges, MOMENT_LATE, op->begin, end - call->shortest);
}

static void add_segment(struct edges *edges, const struct blackbox_segment *segment)
{
    uint64_t ready = segment->ready, credit = segment->credit, posted = segment->posted;
    uint64_t both = ready > credit ? ready : credit;
    if (!posted)
        return;
    add(edges, MOMENT_NETWORK, posted, segment->completed ? segment->completed : edges->to);
    if (!ready || !credit)
        return;
    add(edges, MOMENT_STARVED, both, posted);
    add(edges, MOMENT_RECEIVER, ready, credit < posted ? credit : posted);
    add(edges, MOMENT_SENDER, credit, ready < posted ? ready : posted);
}

const struct member *timeline_receiver(const struct scene *scene, const struct blackbox *box,
                                       const struct blackbox_lane *lane)
{
    for (size_t i = 0; i < lane->segment_count; i++) {
        struct member_group *group = scene_group(scene, lane->segments[i].comm);
        const struct member *peer = group ? scene_find(group, (int)lane->segments[i].peer) : NULL;
        if (peer)
            return same_host(box, peer->box) ? NULL : peer;
    }
    return NULL;
}

/* ---- What is remembered whole ---- */

static void later(uint64_t *from, uint64_t at)
{
    *from = at > *from ? at : *from;
}

static void find_bounds(const struct scene *scene, const struct blackbox *box, struct timeline *timeline)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < box->comm_count; i++) {
        const struct blackbox_comm *comm = &box->comms[i];
        for (size_t j = 0; j < comm->op_count; j++) {
            first = comm->ops[j].begin < first ? comm->ops[j].begin : first;
            later(&last, over(&comm->ops[j]));
        }
        if (comm->op_count && comm->ops->position)
            later(&timeline->from, comm->ops->begin);
    }
    for (size_t i = 0; i < box->lane_count; i++) {
        const struct blackbox_lane *lane = &box->lanes[i];
        if (!timeline_receiver(scene, box, lane))
            continue;
        timeline->lanes = true;
        if (lane->segments->position)
            later(&timeline->from, lane->segments->posted);
    }
    later(&timeline->from, first);
    timeline->to = box->alive ? box->now : last;
    if (first == UINT64_MAX || timeline->from >= timeline->to)
        timeline->from = timeline->to = 0;
}

/* ---- Moments ---- */

static int by_time(const void *left, const void *right)
{
    const struct timeline_edge *a = left, *b = right;
    return a->at < b->at ? -1 : a->at > b->at;
}

static enum moment what(const int held[MOMENTS])
{
    if (held[MOMENT_NETWORK])
        return MOMENT_NETWORK;
    if (!held[MOMENT_PROGRAM])
        return MOMENT_PROGRAM;
    for (enum moment moment = MOMENT_LATE; moment < MOMENT_WAITS; moment++)
        if (held[moment])
            return moment;
    return MOMENT_WAITS;
}

static bool sweep(struct edges *edges, struct timeline *timeline)
{
    int held[MOMENTS] = {0};
    struct atom *atoms = timeline->atoms = calloc(edges->count + 1, sizeof *atoms);
    if (!atoms)
        return false;
    qsort(edges->items, edges->count, sizeof *edges->items, by_time);
    atoms[timeline->count++] = (struct atom){timeline->from, MOMENT_PROGRAM};
    for (size_t i = 0; i < edges->count;) {
        uint64_t at = edges->items[i].at;
        for (; i < edges->count && edges->items[i].at == at; i++)
            held[edges->items[i].moment] += edges->items[i].change;
        enum moment moment = what(held);
        if (atoms[timeline->count - 1].begin == at)
            atoms[timeline->count - 1].moment = moment;
        else if (atoms[timeline->count - 1].moment != moment)
            atoms[timeline->count++] = (struct atom){at, moment};
    }
    return true;
}

bool timeline_open(const struct scene *scene, const struct timeline_calls *calls, size_t process,
                   struct timeline *timeline)
{
    const struct blackbox *box = scene->snapshot->now.boxes[process];
    size_t spans = 0;
    *timeline = (struct timeline){0};
    find_bounds(scene, box, timeline);
    if (timeline->from == timeline->to)
        return true;
    for (size_t i = 0; i < box->comm_count; i++)
        spans += 2 * box->comms[i].op_count;
    for (size_t i = 0; i < box->lane_count; i++)
        spans += 4 * box->lanes[i].segment_count;
    struct edges edges = {calloc(2 * spans + 1, sizeof *edges.items), 0, timeline->from, timeline->to};
    for (const struct member *at = scene->of_process[process]; edges.items && at; at = at->sibling)
        for (size_t i = 0; i < at->comm->op_count; i++)
            add_call(&edges, &calls[at->group - scene->groups], &at->comm->ops[i]);
    for (size_t i = 0; edges.items && i < box->lane_count; i++)
        if (timeline_receiver(scene, box, &box->lanes[i]))
            for (size_t j = 0; j < box->lanes[i].segment_count; j++)
                add_segment(&edges, &box->lanes[i].segments[j]);
    bool fine = edges.items && sweep(&edges, timeline);
    free(edges.items);
    return fine;
}

/* The last atom that begins at `at` or before. */
static size_t find_atom(const struct timeline *timeline, uint64_t at)
{
    size_t low = 0, high = timeline->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (timeline->atoms[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void timeline_add(const struct timeline *timeline, uint64_t from, uint64_t to, uint64_t ns[MOMENTS])
{
    later(&from, timeline->from);
    to = to < timeline->to ? to : timeline->to;
    for (size_t i = from < to ? find_atom(timeline, from) : timeline->count; i < timeline->count; i++) {
        uint64_t end = i + 1 < timeline->count ? timeline->atoms[i + 1].begin : timeline->to;
        if (timeline->atoms[i].begin >= to)
            return;
        end = end < to ? end : to;
        ns[timeline->atoms[i].moment] += end > from ? end - from : 0;
        later(&from, end);
    }
}
