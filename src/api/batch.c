/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: most of the time of a call is the driver's. So the calls of a group for each GPU are issued by a thread of
 * their own, if one can be had. */
#include "api/group.h"

#include "base/error.h"
#include "engine/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 16 /* a group for more devices is issued by its caller alone */
/* Collectives by which one rank's calls may be ahead of another's, if one thread issues both: of each up to 24 messages
 * a pair. */
#define AHEAD   2
#define PORTION 32 /* messages of a pair in one operation; the executor's mailbox has places for more */
#define RUN     64 /* collectives that are handed to an executor at once */

#define ALL_BATCHES UINT32_MAX /* also where the entries are not divided */

/* All calls for one GPU, in their order. */
struct batch {
    int device;
    tutti_result_t result;
    char sentence[1024]; /* of a failure */
};

struct batches {
    struct entry *entry;
    size_t entries;
    struct batch batch[BATCHES];
    int count;
};

static bool is_call(const struct entry *entry)
{
    return entry->kind == ENTRY_COLLECTIVE || entry->kind == ENTRY_P2P;
}

/* ---- Streams ---- */

static struct entry *find_leader(struct entry *first, const struct entry *entry)
{
    while (!is_call(first) || first->comm != entry->comm)
        first++;
    return first;
}

static bool is_new(const struct entry *leader, const struct entry *entry)
{
    const struct entry *other = leader;
    while (other->leader != leader || other->stream != entry->stream)
        other++;
    return other == entry;
}

/*
 * A communicator's calls of a group are one operation on all their streams, as NCCL has it: they are issued on the
 * first one's stream, which comes behind what is on the others before, and these behind it at the end. Peers may have
 * put the same calls on streams in another way.
 */
static void find_leaders(struct entry *entry, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct entry *one = &entry[i];
        if (!is_call(one) || !comm_joins_streams(one->comm))
            continue;
        one->leader =
            i && entry[i - 1].leader && entry[i - 1].comm == one->comm ? entry[i - 1].leader : find_leader(entry, one);
        one->leader->last = one;
        one->beside = one->stream != one->leader->stream && is_new(one->leader, one);
        one->leader->joins = one->leader->joins || one->beside;
    }
}

static tutti_stream_t stream_of(const struct entry *entry)
{
    return entry->leader ? entry->leader->stream : entry->stream;
}

/* The leader's stream comes behind the others, or, where they part, these behind it. */
static tutti_result_t order_streams(const struct entry *leader, bool part)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (const struct entry *entry = leader; entry <= leader->last && result == TUTTI_SUCCESS; entry++)
        if (entry->leader == leader && entry->beside)
            result =
                comm_follow(leader->comm, part ? entry->stream : leader->stream, part ? leader->stream : entry->stream);
    return result;
}

/* ---- One batch ---- */

static bool goes_with(const struct entry *entry, const struct entry *first)
{
    return entry->comm == first->comm && entry->kind == ENTRY_P2P && entry->portion == first->portion &&
           stream_of(entry) == stream_of(first);
}

/* Where entries of another communicator, or another portion, begin: arrange() has put them together. */
static struct entry *end_of_portion(struct entry *first, struct entry *end)
{
    struct entry *entry = first;
    while (entry != end && entry->comm->id == first->comm->id && entry->portion == first->portion)
        entry++;
    return entry;
}

/* All sends and receives on this communicator, as one operation. Of other batches' entries nothing else is read. */
static tutti_result_t issue_p2p(struct entry *first, struct entry *last)
{
    struct entry *end = end_of_portion(first, last);
    bool few = end - first <= FEW;
    struct p2p_item some[FEW] = {0}, *items = few ? some : calloc((size_t)(end - first), sizeof *items);
    int count = 0;
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a group of %td calls", end - first);
    for (struct entry *entry = first; entry != end; entry++) {
        if (!goes_with(entry, first))
            continue;
        items[count++] = entry->item;
        entry->kind = ENTRY_DONE;
    }
    tutti_result_t result = comm_p2p(first->comm, items, count, stream_of(first));
    if (!few)
        free(items);
    return result;
}

/* Of the batches of a set, or of all where there are none. */
static bool is_in(const struct entry *entry, uint32_t set)
{
    return set == ALL_BATCHES || (entry->batch >= 0 && set >> entry->batch & 1);
}

/*
 * Collectives of one communicator on one stream, with nothing of the set's in between: the executor gets them at once.
 */
static tutti_result_t issue_run(struct entry *first, struct entry *end, uint32_t set)
{
    struct executor_call run[RUN];
    int count = 0;
    for (struct entry *entry = first; entry != end && count < RUN; entry++) {
        if (!is_in(entry, set))
            continue;
        if (entry->comm != first->comm || entry->kind != ENTRY_COLLECTIVE || stream_of(entry) != stream_of(first))
            break;
        run[count++] =
            (struct executor_call){&entry->call, &entry->note, entry->counts, !entry->leader || entry->leader == entry};
        entry->kind = ENTRY_DONE;
    }
    return comm_collectives(first->comm, run, count, stream_of(first));
}

static tutti_result_t issue_call(struct entry *entry, struct entry *end, uint32_t set)
{
    if (entry->kind == ENTRY_P2P)
        return issue_p2p(entry, end);
    return entry->kind == ENTRY_COLLECTIVE ? issue_run(entry, end, set) : TUTTI_SUCCESS;
}

/* With what goes with it: the other entries of a run, or of one operation, are done then. */
static tutti_result_t batch_issue(struct entry *entry, struct entry *end, uint32_t set)
{
    const struct entry *leader = entry->leader;
    bool joins = leader && leader->joins;
    tutti_result_t result = joins && entry == leader ? order_streams(leader, false) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = issue_call(entry, end, set);
    if (result == TUTTI_SUCCESS && joins && entry == leader->last)
        result = order_streams(leader, true);
    return result;
}

/* A batch ends with the first call that fails. */
static void issue_entry(struct batches *batches, struct entry *entry, uint32_t set)
{
    struct batch *batch = &batches->batch[entry->batch];
    if (!group_goes_on(batch->result))
        return;
    batch->result = group_worse(batch->result, batch_issue(entry, batches->entry + batches->entries, set));
    if (batch->result != TUTTI_SUCCESS)
        snprintf(batch->sentence, sizeof batch->sentence, "%s", error_last());
}

/* The calls of a set of batches, in their order: one for one GPU may have to wait for an earlier one for another. */
static void issue_set(struct batches *batches, uint32_t set)
{
    for (size_t i = 0; i < batches->entries; i++) {
        if (is_in(&batches->entry[i], set))
            issue_entry(batches, &batches->entry[i], set);
    }
}

/* By a worker thread. */
static void issue_batch(void *argument, int index)
{
    issue_set(argument, 1u << index);
}

/* ---- All batches ---- */

/* LOTS: there are too many. */
static int find_batch(struct batches *batches, int device)
{
    int i = 0;
    while (i < batches->count && batches->batch[i].device != device)
        i++;
    if (i == batches->count && i < BATCHES) {
        batches->batch[i].device = device;
        batches->batch[i].result = TUTTI_SUCCESS;
        batches->count++;
    }
    return i;
}

/* Returns whether several threads may issue them: false if there are some that the caller must issue itself. */
static bool divide(struct batches *batches)
{
    bool any_thread = true;
    for (size_t i = 0; i < batches->entries; i++) {
        struct entry *entry = &batches->entry[i];
        int device = is_call(entry) ? comm_device(entry->comm) : TUTTI_HOST;
        any_thread = any_thread && (!is_call(entry) || comm_any_thread(entry->comm, entry->stream));
        entry->batch = device == TUTTI_HOST ? -1 : find_batch(batches, device);
        if (entry->batch == BATCHES) {
            batches->count = 0;
            return false;
        }
    }
    return any_thread;
}

/* ---- Order ---- */

/* 0: collectives, and what is no call. */
static uint64_t turn_of(const struct entry *entry)
{
    return entry->kind == ENTRY_P2P ? entry->comm->id | 1 : 0;
}

static int order_of(uint64_t first, uint64_t second)
{
    return (first > second) - (first < second);
}

static int by_turn(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = order_of(turn_of(x), turn_of(y));
    order = order ? order : order_of(x->portion, y->portion);
    return order ? order : order_of(x->place, y->place);
}

/* Messages from the same rank to the same other one are together. */
static int by_pair(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = order_of(x->kind == ENTRY_P2P, y->kind == ENTRY_P2P);
    order = order ? order : order_of((uintptr_t)x->comm, (uintptr_t)y->comm);
    order = order ? order
                  : order_of((uint64_t)x->item.peer * 2 + x->item.sends, (uint64_t)y->item.peer * 2 + y->item.sends);
    return order ? order : order_of(x->place, y->place);
}

/* Most groups are in order, and entries are long. */
static void put_in_order(struct entry *entry, size_t count, int (*compare)(const void *, const void *))
{
    for (size_t i = 1; i < count; i++)
        if (compare(&entry[i - 1], &entry[i]) > 0) {
            qsort(entry, count, sizeof *entry, compare);
            return;
        }
}

/*
 * One rank's calls may wait while PORTION messages have no call of the peer's yet, and the peer's calls may be this
 * very thread's. So no operation has more messages of one pair. Both ends divide them alike.
 */
static void deal_out(struct entry *entry, size_t count)
{
    size_t first = 0;
    put_in_order(entry, count, by_pair);
    for (size_t i = 0; i < count; i++) {
        const struct entry *of = &entry[first];
        if (of->comm != entry[i].comm || of->item.peer != entry[i].item.peer || of->item.sends != entry[i].item.sends ||
            of->kind != entry[i].kind)
            first = i;
        entry[i].portion = entry[i].kind == ENTRY_P2P ? (i - first) / PORTION : 0;
        entry[i].number = i - first;
    }
}

/*
 * Collectives come first, then messages, communicator by communicator. A rank has messages with some others only, and
 * may have called them before or behind a collective that its peers have called at another place: each in its own
 * order, they would wait for one another.
 */
static void arrange(struct entry *entry, size_t count)
{
    bool collectives = false;
    for (size_t i = 0; i < count; i++) {
        entry[i].place = i;
        collectives = collectives || entry[i].kind == ENTRY_COLLECTIVE;
    }
    if (count > 2 * AHEAD && (collectives || count > PORTION)) /* there is something to share out, or to count */
        deal_out(entry, count);
    put_in_order(entry, count, by_turn);
}

/* Some rank's call that must come before this one, as a rank's may wait for it, has no place yet. */
static bool must_wait(const struct batches *batches, const struct entry *entry)
{
    if (entry->kind != ENTRY_COLLECTIVE || entry->number < AHEAD)
        return false;
    for (const struct entry *other = batches->entry; other != batches->entry + batches->entries; other++)
        if (other->kind == ENTRY_COLLECTIVE && other->place == SIZE_MAX && other->number == entry->number - AHEAD &&
            other->comm->id == entry->comm->id)
            return true;
    return false;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return order_of(x->place, y->place);
}

/* Collectives that came GPU after GPU: none gets far ahead of its peers'. In each batch they stay in order. Messages,
 * behind them, are dealt out in portions. */
static void interleave(struct batches *batches)
{
    size_t placed = 0, before = SIZE_MAX, count = 0;
    for (; count < batches->entries && batches->entry[count].kind != ENTRY_P2P; count++)
        batches->entry[count].place = SIZE_MAX;
    while (placed < count) {
        bool stuck = placed == before; /* not all ranks have the same calls: that fails, or waits, elsewhere */
        uint32_t waiting = 0;
        before = placed;
        for (struct entry *entry = batches->entry; entry != batches->entry + count; entry++) {
            uint32_t batch = entry->batch >= 0 ? 1u << entry->batch : 0;
            if (entry->place != SIZE_MAX || waiting & batch)
                continue;
            if (!stuck && batch && must_wait(batches, entry)) /* host memory's wait for nobody when they are issued */
                waiting |= batch;
            else
                entry->place = placed++;
        }
    }
    qsort(batches->entry, count, sizeof *batches->entry, by_place);
}

/* The caller may free all buffers of a group that failed. What a failed communicator has got of the group on host
 * memory ends first. */
static void await_issued(const struct entry *first, const struct entry *end)
{
    struct tutti_comm *latest = NULL;
    struct error_saved saved;
    error_save(&saved);
    for (const struct entry *entry = first; entry != end; entry++) {
        struct tutti_comm *comm = entry->kind == ENTRY_DONE ? entry->comm : NULL;
        if (comm && comm != latest && comm_device(comm) == TUTTI_HOST && atomic_load(&comm->team->failed))
            comm_wait(comm, false);
        latest = comm ? comm : latest;
    }
    error_restore(&saved);
}

static tutti_result_t issue_in_order(struct entry *first, struct entry *end)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (struct entry *entry = first; entry != end && group_goes_on(result); entry++)
        result = group_worse(result, batch_issue(entry, end, ALL_BATCHES));
    if (!group_goes_on(result))
        await_issued(first, end);
    return result;
}

/* When one batch fails others may hear of it while they are issued: theirs is a remote error, its own says why. NULL:
 * none has failed; no call on a GPU is ever still in progress. */
static const struct batch *find_cause(const struct batches *batches)
{
    const struct batch *cause = NULL;
    for (const struct batch *batch = batches->batch; batch != batches->batch + batches->count; batch++)
        if (!group_goes_on(batch->result) && (!cause || cause->result == TUTTI_REMOTE_ERROR))
            cause = batch;
    return cause;
}

tutti_result_t batch_issue_all(struct entry *entry, size_t count)
{
    struct batches batches;
    batches.entry = entry;
    batches.entries = count;
    batches.count = 0;
    arrange(entry, count);
    bool any_thread = count > 1 && divide(&batches);
    if (batches.count > 1 && count > 2 * AHEAD)
        interleave(&batches);
    if (count > 1)
        find_leaders(entry, count);
    if (!any_thread || batches.count < 2)
        return issue_in_order(entry, entry + count);
    uint32_t handed = workers_hand(issue_batch, &batches, batches.count);
    issue_set(&batches, ~handed & ((1u << batches.count) - 1));
    workers_await(handed);
    const struct batch *batch = find_cause(&batches);
    return batch ? error_note(batch->result, "%s", batch->sentence) : TUTTI_SUCCESS;
}
