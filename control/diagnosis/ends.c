/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks share processors, a call may last though the black box has no end of it: the clock is read seldom there.
 * Calls of one kind have the same code behind them. So a call without an end is taken to have lasted until the longest
 * gap that was behind one of them. Where no call of a kind has an end, all of them were over at once.
 */
#include "diagnosis/ends.h"

#include <stdlib.h>

#define KINDS_MOST 64 /* calls of further kinds have no gap */

struct ends_kind {
    const struct blackbox_op *like;
    uint64_t gap; /* the longest from an end that is known to the next call; */
    bool timed;   /* there is one */
};

struct ends_kinds {
    struct ends_kind kind[KINDS_MOST];
    size_t count;
};

static struct ends_kind *kind_of(struct ends_kinds *kinds, const struct blackbox_op *op)
{
    for (size_t i = 0; i < kinds->count; i++) {
        const struct blackbox_op *like = kinds->kind[i].like;
        if (like->collective == op->collective && like->count == op->count && like->root == op->root)
            return &kinds->kind[i];
    }
    if (kinds->count == KINDS_MOST)
        return NULL;
    kinds->kind[kinds->count] = (struct ends_kind){.like = op};
    return &kinds->kind[kinds->count++];
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
        kind->timed = true;
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
    bool lasted = kind && kind->timed && next - op->begin > kind->gap;
    return lasted ? next - kind->gap : op->begin;
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

void ends_free(struct ends *ends)
{
    free(ends->calls);
    free(ends->end);
    *ends = (struct ends){0};
}
