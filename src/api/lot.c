/* SPDX-License-Identifier: Apache-2.0 */
/* Lots: the calls of a group for each GPU are issued by a thread of their own, if one can be had, as most of the time is the driver's. */
#include "api/group.h"

#include "base/error.h"
#include "fabric/crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOTS 16 /* a group for more devices is issued by its caller alone */

/* All calls for one GPU, in their order. */
struct lot {
    int device;
    tutti_result_t result;
    char sentence[256]; /* of a failure */
};

struct lots {
    struct record *record;
    size_t records;
    struct lot lot[LOTS];
    int count;
};

/* ---- One lot ------------------------------------------------------------------------------------------------------- */

/* All sends and receives on this communicator and stream, as one operation. Of other lots' records nothing else is read. */
static tutti_result_t issue_p2p(struct record *leader, const struct record *end)
{
    bool few = end - leader <= FEW;
    struct p2p_item some[FEW] = {0}, *items = few ? some : calloc((size_t)(end - leader), sizeof *items);
    int count = 0;
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a group of %td calls", end - leader);
    for (struct record *record = leader; record != end; record++) {
        if (record->comm != leader->comm || record->kind != RECORD_P2P || record->stream != leader->stream)
            continue;
        items[count++] = record->item;
        record->kind = RECORD_DONE;
    }
    tutti_result_t result = comm_p2p(leader->comm, items, count, leader->stream);
    if (!few)
        free(items);
    return result;
}

static tutti_result_t issue(struct record *record, const struct record *end)
{
    if (record->kind == RECORD_P2P)
        return issue_p2p(record, end);
    if (record->kind != RECORD_COLLECTIVE)
        return TUTTI_SUCCESS;
    record->kind = RECORD_DONE;
    return comm_collective(record->comm, &record->call, record->counts, record->stream);
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

static bool is_call(const struct record *record)
{
    return record->kind == RECORD_COLLECTIVE || record->kind == RECORD_P2P;
}

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

/* False: all calls are for one GPU, or there are some that the caller must issue itself. */
static bool divide(struct lots *lots)
{
    for (size_t i = 0; i < lots->records; i++) {
        struct record *record = &lots->record[i];
        struct fabric *fabric = is_call(record) ? record->comm->fabric : NULL;
        if (is_call(record) && (!fabric || !fabric_any_thread(fabric, record->stream)))
            return false;
        record->lot = fabric ? find_lot(lots, fabric_device(fabric)) : -1;
        if (record->lot == LOTS)
            return false;
    }
    return lots->count > 1;
}

static tutti_result_t issue_in_order(struct record *record, const struct record *end)
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
    if (count < 2 || !divide(&lots))
        return issue_in_order(record, record + count);
    uint32_t handed = crew_hand(issue_lot, &lots, lots.count);
    issue_set(&lots, ~handed);
    crew_await(handed);
    const struct lot *lot = find_cause(&lots);
    return lot ? error_note(lot->result, "%s", lot->sentence) : TUTTI_SUCCESS;
}
