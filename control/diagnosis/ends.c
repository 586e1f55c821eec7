/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks share processors, a call may last though the black box has no end of it: the clock is read seldom there.
 * Calls of one kind have the same code behind them. So a call without an end is taken to have lasted until the longest
 * gap that was behind one of them. It lasted twice as long as they do on average at most: a rank that stalls between
 * two calls is in none. Where no call of a kind has an end, all of them were over at once.
 */
#include "diagnosis/ends.h"

#include <stdlib.h>

#define KINDS_MOST 64  /* calls of further kinds have no gap */
#define KINDS_ROOM 128 /* a power of two */
#define ENDS_TIMES 2.0 /* times the average of its kind: a call without an end lasted no longer */

struct ends_kind {
    const struct blackbox_op *like;
    uint64_t gap; /* the longest from an end that is known to the next call */
    double took;  /* sum of the calls whose ends are known, */
    size_t timed; /* and their number */
};

/* A kind stands in the first free place from its own on. */
struct ends_kinds {
    struct ends_kind kind[KINDS_ROOM];
    size_t count;
};

static bool is_like(const struct blackbox_op *a, const struct blackbox_op *b)
{
    return a->collective == b->collective && a->count == b->count && a->root == b->root;
}

static struct ends_kind *kind_of(struct ends_kinds *kinds, const struct blackbox_op *op)
{
    uint64_t key = op->count * 31 + (uint64_t)(uint32_t)op->collective * 7 + (uint64_t)(uint32_t)op->root;
    for (key = (key * 0x9e3779b97f4a7c15ull) >> 57;; key++) {
        struct ends_kind *kind = &kinds->kind[key % KINDS_ROOM];
        if (kind->like && is_like(kind->like, op))
            return kind;
        if (!kind->like && kinds->count == KINDS_MOST)
            return NULL;
        if (kind->like)
            continue;
        kind->like = op;
        kinds->count++;
        return kind;
    }
}

static int by_begin(const void *left, const void *right)
{
    const struct blackbox_op *a = *(const struct blackbox_op *const *)left,
                             *b = *(const struct blackbox_op *const *)right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

const struct blackbox_op **process_calls(const struct blackbox *box, call_is_wanted *wanted, size_t *count)
{
    size_t most = 0;
    *count = 0;
    for (size_t i = 0; i < box->comm_count; i++)
        most += box->comms[i].op_count;
    const struct blackbox_op **calls = most ? calloc(most, sizeof *calls) : NULL;
    for (size_t i = 0; calls && i < box->comm_count; i++)
        for (size_t j = 0; j < box->comms[i].op_count; j++)
            if (wanted(box, &box->comms[i].ops[j]))
                calls[(*count)++] = &box->comms[i].ops[j];
    if (calls)
        qsort(calls, *count, sizeof *calls, by_begin);
    return calls;
}

static bool is_any(const struct blackbox *box, const struct blackbox_op *op)
{
    return true;
}

static bool has_end(const struct blackbox_op *op)
{
    return op->state == WIRE_OP_DONE && op->end > op->begin;
}

static void add_gaps(const struct ends *ends, struct ends_kinds *kinds)
{
    for (size_t i = 0; i + 1 < ends->count; i++) {
        const struct blackbox_op *op = ends->calls[i];
        struct ends_kind *kind = has_end(op) ? kind_of(kinds, op) : NULL;
        uint64_t next = ends->calls[i + 1]->begin;
        if (!kind)
            continue;
        kind->gap = next > op->end && next - op->end > kind->gap ? next - op->end : kind->gap;
        kind->took += (double)(op->end - op->begin);
        kind->timed++;
    }
}

/* `next`: the beginning of the next call; 0: there is none. */
static uint64_t end_of(const struct blackbox *box, const struct blackbox_op *op, uint64_t next,
                       struct ends_kinds *kinds)
{
    if (op->state != WIRE_OP_DONE)
        return box->now > op->begin ? box->now : op->begin;
    if (has_end(op))
        return op->end;
    const struct ends_kind *kind = next > op->begin && !op->device ? kind_of(kinds, op) : NULL;
    if (!kind || !kind->timed || next - op->begin <= kind->gap)
        return op->begin;
    double left = (double)(next - op->begin - kind->gap), most = ENDS_TIMES * kind->took / (double)kind->timed;
    return op->begin + (uint64_t)(left < most ? left : most);
}

struct ends ends_of(const struct blackbox *box)
{
    struct ends_kinds kinds = {.count = 0};
    struct ends ends = {0};
    ends.calls = process_calls(box, is_any, &ends.count);
    ends.end = calloc(ends.count + 1, sizeof *ends.end);
    if (!ends.end)
        ends.count = 0;
    add_gaps(&ends, &kinds);
    for (size_t i = 0; i < ends.count; i++)
        ends.end[i] = end_of(box, ends.calls[i], i + 1 < ends.count ? ends.calls[i + 1]->begin : 0, &kinds);
    return ends;
}

size_t ends_first_from(const struct ends *ends, uint64_t time)
{
    size_t low = 0, high = ends->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ends->calls[middle]->begin < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t call_waits_from(const struct blackbox_op *op)
{
    return op->waited && op->end > op->begin ? op->end - (op->waited - 1) : op->begin;
}

void ends_free(struct ends *ends)
{
    free(ends->calls);
    free(ends->end);
    *ends = (struct ends){0};
}
