/* SPDX-License-Identifier: Apache-2.0 */
/* Lots: the calls of a group for each GPU are issued by a thread of their own, if one can be had, as most of the time is the driver's. */
#include "api/group.h"

#include "base/error.h"
#include "fabric/crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOTS  16 /* a group for more devices is issued by its caller alone */
#define AHEAD 2  /* collectives by which one rank's calls may be ahead of another's, if one thread issues both: of each up to 24 messages a pair */
#define SHARE 32 /* messages of a pair in one operation; the fabric's board has places for more */

/* All calls for one GPU, in their order. */
struct lot {
    int device;
    tutti_result_t result;
    char sentence[1024]; /* of a failure */
};

struct lots {
    struct record *record;
    size_t records;
    struct lot lot[LOTS];
    int count;
};

static bool is_call(const struct record *record)
{
    return record->kind == RECORD_COLLECTIVE || record->kind == RECORD_P2P;
}

/* ---- Streams ------------------------------------------------------------------------------------------------------- */

static struct record *find_leader(struct record *first, const struct record *record)
{
    while (!is_call(first) || first->comm != record->comm)
        first++;
    return first;
}

static bool is_new(const struct record *leader, const struct record *record)
{
    const struct record *other = leader;
    while (other->leader != leader || other->stream != record->stream)
        other++;
    return other == record;
}

/*
 * A communicator's calls of a group are one operation on all their streams, as NCCL has it: they are issued on the first one's stream, which
 * comes behind what is on the others before, and these behind it at the end. Peers may have put the same calls on streams in another way.
 */
static void find_leaders(struct record *record, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct record *one = &record[i];
        if (!is_call(one) || !comm_joins_streams(one->comm))
            continue;
        one->leader = i && record[i - 1].leader && record[i - 1].comm == one->comm ? record[i - 1].leader : find_leader(record, one);
        one->leader->last = one;
        one->beside = one->stream != one->leader->stream && is_new(one->leader, one);
        one->leader->joins = one->leader->joins || one->beside;
    }
}

static tutti_stream_t stream_of(const struct record *record)
{
    return record->leader ? record->leader->stream : record->stream;
}

/* The leader's stream comes behind the others, or, where they part, these behind it. */
static tutti_result_t order_streams(const struct record *leader, bool part)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (const struct record *record = leader; record <= leader->last && result == TUTTI_SUCCESS; record++)
        if (record->leader == leader && record->beside)
            result = comm_follow(leader->comm, part ? record->stream : leader->stream, part ? leader->stream : record->stream);
    return result;
}

/* ---- One lot ------------------------------------------------------------------------------------------------------- */

static bool goes_with(const struct record *record, const struct record *first)
{
    return record->comm == first->comm && record->kind == RECORD_P2P && record->share == first->share && stream_of(record) == stream_of(first);
}

/* Where records of another communicator, or another share, begin: arrange() has put them together. */
static struct record *end_of_share(struct record *first, struct record *end)
{
    struct record *record = first;
    while (record != end && record->comm->id == first->comm->id && record->share == first->share)
        record++;
    return record;
}

/* All sends and receives on this communicator, as one operation. Of other lots' records nothing else is read. */
static tutti_result_t issue_p2p(struct record *first, struct record *last)
{
    struct record *end = end_of_share(first, last);
    bool few = end - first <= FEW;
    struct p2p_item some[FEW] = {0}, *items = few ? some : calloc((size_t)(end - first), sizeof *items);
    int count = 0;
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a group of %td calls", end - first);
    for (struct record *record = first; record != end; record++) {
        if (!goes_with(record, first))
            continue;
        items[count++] = record->item;
        record->kind = RECORD_DONE;
    }
    tutti_result_t result = comm_p2p(first->comm, items, count, stream_of(first));
    if (!few)
        free(items);
    return result;
}

static tutti_result_t issue_call(struct record *record, struct record *end)
{
    if (record->kind == RECORD_P2P)
        return issue_p2p(record, end);
    if (record->kind != RECORD_COLLECTIVE)
        return TUTTI_SUCCESS;
    record->kind = RECORD_DONE;
    return comm_collective(record->comm, &record->call, record->counts, stream_of(record));
}

static tutti_result_t issue(struct record *record, struct record *end)
{
    const struct record *leader = record->leader;
    bool joins = leader && leader->joins;
    tutti_result_t result = joins && record == leader ? order_streams(leader, false) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = issue_call(record, end);
    if (result == TUTTI_SUCCESS && joins && record == leader->last)
        result = order_streams(leader, true);
    return result;
}

/* A lot ends with the first call that fails. */
static void issue_record(struct lots *lots, struct record *record)
{
    struct lot *lot = &lots->lot[record->lot];
    if (!group_goes_on(lot->result))
        return;
    lot->result = group_worse(lot->result, issue(record, lots->record + lots->records));
    if (lot->result != TUTTI_SUCCESS)
        snprintf(lot->sentence, sizeof lot->sentence, "%s", error_last());
}

/* The calls of a set of lots, in their order: one for one GPU may have to wait for an earlier one for another. */
static void issue_set(struct lots *lots, uint32_t set)
{
    for (size_t i = 0; i < lots->records; i++) {
        int lot = lots->record[i].lot;
        if (lot >= 0 && set >> lot & 1)
            issue_record(lots, &lots->record[i]);
    }
}

/* By a member of the crew. */
static void issue_lot(void *argument, int index)
{
    issue_set(argument, 1u << index);
}

/* ---- All lots ------------------------------------------------------------------------------------------------------ */

/* LOTS: there are too many. */
static int find_lot(struct lots *lots, int device)
{
    int i = 0;
    while (i < lots->count && lots->lot[i].device != device)
        i++;
    if (i == lots->count && i < LOTS) {
        lots->lot[i].device = device;
        lots->lot[i].result = TUTTI_SUCCESS;
        lots->count++;
    }
    return i;
}

/* Returns whether several threads may issue them: false if there are some that the caller must issue itself. */
static bool divide(struct lots *lots)
{
    bool any_thread = true;
    for (size_t i = 0; i < lots->records; i++) {
        struct record *record = &lots->record[i];
        struct fabric *fabric = is_call(record) ? record->comm->fabric : NULL;
        any_thread = any_thread && (!is_call(record) || (fabric && fabric_any_thread(fabric, record->stream)));
        record->lot = fabric ? find_lot(lots, fabric_device(fabric)) : -1;
        if (record->lot == LOTS) {
            lots->count = 0;
            return false;
        }
    }
    return any_thread;
}

/* ---- Order --------------------------------------------------------------------------------------------------------- */

/* 0: collectives, and what is no call. */
static uint64_t turn_of(const struct record *record)
{
    return record->kind == RECORD_P2P ? record->comm->id | 1 : 0;
}

static int order_of(uint64_t first, uint64_t second)
{
    return (first > second) - (first < second);
}

static int by_turn(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    int order = order_of(turn_of(x), turn_of(y));
    order = order ? order : order_of(x->share, y->share);
    return order ? order : order_of(x->place, y->place);
}

/* Messages from the same rank to the same other one are together. */
static int by_pair(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    int order = order_of(x->kind == RECORD_P2P, y->kind == RECORD_P2P);
    order = order ? order : order_of((uintptr_t)x->comm, (uintptr_t)y->comm);
    order = order ? order : order_of((uint64_t)x->item.peer * 2 + x->item.sends, (uint64_t)y->item.peer * 2 + y->item.sends);
    return order ? order : order_of(x->place, y->place);
}

/*
 * One rank's calls may wait when a peer's have not come for so many messages, and the peer's may be this very thread's. So no operation has
 * more of one pair; both ends divide them alike.
 */
static void share_out(struct record *record, size_t count)
{
    size_t first = 0;
    qsort(record, count, sizeof *record, by_pair);
    for (size_t i = 0; i < count; i++) {
        const struct record *of = &record[first];
        if (of->comm != record[i].comm || of->item.peer != record[i].item.peer || of->item.sends != record[i].item.sends || of->kind != record[i].kind)
            first = i;
        record[i].share = record[i].kind == RECORD_P2P ? (i - first) / SHARE : 0;
        record[i].number = i - first;
    }
}

/*
 * Collectives come first, then messages, communicator by communicator. A rank has messages with some others only, and may have called them
 * before or behind a collective that its peers have called at another place: each in its own order, they would wait for one another.
 */
static void arrange(struct record *record, size_t count)
{
    bool in_order = true, collectives = false;
    for (size_t i = 0; i < count; i++) {
        record[i].place = i;
        collectives = collectives || record[i].kind == RECORD_COLLECTIVE;
        in_order = in_order && (!i || turn_of(&record[i - 1]) <= turn_of(&record[i]));
    }
    bool few = count <= 2 * AHEAD || (!collectives && count <= SHARE); /* nothing to share out, nor to count */
    if (!few)
        share_out(record, count);
    if (!in_order || !few)
        qsort(record, count, sizeof *record, by_turn);
}

/* Some rank's call that must come before this one, as a rank's may wait for it, has no place yet. */
static bool must_wait(const struct lots *lots, const struct record *record)
{
    if (record->kind != RECORD_COLLECTIVE || record->number < AHEAD)
        return false;
    for (const struct record *other = lots->record; other != lots->record + lots->records; other++)
        if (other->kind == RECORD_COLLECTIVE && other->place == SIZE_MAX && other->number == record->number - AHEAD &&
            other->comm->id == record->comm->id)
            return true;
    return false;
}

static int by_place(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    return order_of(x->place, y->place);
}

/* Collectives that came GPU after GPU: none gets far ahead of its peers'. In each lot they stay in order. Messages, behind them, are shared out. */
static void interleave(struct lots *lots)
{
    size_t placed = 0, before = SIZE_MAX, count = 0;
    for (; count < lots->records && lots->record[count].kind != RECORD_P2P; count++)
        lots->record[count].place = SIZE_MAX;
    while (placed < count) {
        bool stuck = placed == before; /* not all ranks have the same calls: that fails, or waits, elsewhere */
        uint32_t waiting = 0;
        before = placed;
        for (struct record *record = lots->record; record != lots->record + count; record++) {
            uint32_t lot = record->lot >= 0 ? 1u << record->lot : 0;
            if (record->place != SIZE_MAX || waiting & lot)
                continue;
            if (!stuck && lot && must_wait(lots, record)) /* host memory's wait for nobody when they are issued */
                waiting |= lot;
            else
                record->place = placed++;
        }
    }
    qsort(lots->record, count, sizeof *lots->record, by_place);
}

static tutti_result_t issue_in_order(struct record *record, struct record *end)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (; record != end && group_goes_on(result); record++)
        result = group_worse(result, issue(record, end));
    return result;
}

/* When one lot fails others may hear of it while they are issued: theirs is a remote error, its own says why. NULL: none has failed; no call on a GPU is ever still in progress. */
static const struct lot *find_cause(const struct lots *lots)
{
    const struct lot *cause = NULL;
    for (const struct lot *lot = lots->lot; lot != lots->lot + lots->count; lot++)
        if (!group_goes_on(lot->result) && (!cause || cause->result == TUTTI_REMOTE_ERROR))
            cause = lot;
    return cause;
}

tutti_result_t lot_issue_all(struct record *record, size_t count)
{
    struct lots lots;
    lots.record = record;
    lots.records = count;
    lots.count = 0;
    arrange(record, count);
    bool any_thread = count > 1 && divide(&lots);
    if (lots.count > 1 && count > 2 * AHEAD)
        interleave(&lots);
    if (count > 1)
        find_leaders(record, count);
    if (!any_thread || lots.count < 2)
        return issue_in_order(record, record + count);
    uint32_t handed = crew_hand(issue_lot, &lots, lots.count);
    issue_set(&lots, ~handed);
    crew_await(handed);
    const struct lot *lot = find_cause(&lots);
    return lot ? error_note(lot->result, "%s", lot->sentence) : TUTTI_SUCCESS;
}
