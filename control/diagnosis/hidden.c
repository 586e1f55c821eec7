/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU's call returns at once, and nobody tells when the program waits for its end. A program that computes meanwhile
 * loses nothing by it. Its next call tells. If that is issued before this one is over, the program was free until then.
 * If it comes later, short calls of the same kind say how long the program is busy between the two. A program that
 * waits issues the next call later by what this one took longer.
 */
#include "diagnosis/hidden.h"

#include "diagnosis/thresholds.h"

#include <stdlib.h>

struct device_call {
    uint64_t took, gap; /* on the GPU; until the program's next call */
    const struct blackbox_op *next;
};

/* False: there is no next call, or it came first. */
static bool is_later(const struct ends *ends, const struct blackbox_op *op, struct device_call *call)
{
    size_t next = ends_first_from(ends, op->begin + 1);
    *call = (struct device_call){.took = op->gpu_end - op->gpu_begin};
    call->next = next < ends->count ? ends->calls[next] : NULL;
    call->gap = call->next ? call->next->begin - op->begin : call->took;
    return call->next && call->gap >= call->took;
}

static int by_took(const void *left, const void *right)
{
    const struct device_call *a = left, *b = right;
    return a->took < b->took ? -1 : a->took > b->took;
}

static int by_gap(const void *left, const void *right)
{
    const struct device_call *a = left, *b = right;
    return a->gap < b->gap ? -1 : a->gap > b->gap;
}

static bool is_like(const struct blackbox_op *op, const struct blackbox_op *other)
{
    return op->collective == other->collective && op->count == other->count && op->root == other->root;
}

static bool is_over_on_gpu(const struct blackbox_op *op)
{
    return op->device && op->gpu_end && op->state == WIRE_OP_DONE;
}

/* Of calls like this one, before the same next call, the quarter that took shortest: medians of both times. False:
 * there are too few. */
static bool short_calls(const struct ends *ends, const struct blackbox_comm *comm, const struct blackbox_op *op,
                        const struct blackbox_op *next, struct device_call *median)
{
    struct device_call *calls = calloc(comm->op_count + 1, sizeof *calls);
    size_t count = 0;
    for (size_t i = 0; calls && i < comm->op_count; i++)
        if (is_over_on_gpu(&comm->ops[i]) && is_like(&comm->ops[i], op) &&
            is_later(ends, &comm->ops[i], &calls[count]) && is_like(calls[count].next, next))
            count++;
    size_t few = count / 4;
    if (few >= HIDDEN_CALLS) {
        qsort(calls, count, sizeof *calls, by_took);
        median->took = calls[few / 2].took;
        qsort(calls, few, sizeof *calls, by_gap);
        median->gap = calls[few / 2].gap;
    }
    free(calls);
    return few >= HIDDEN_CALLS;
}

uint64_t device_held(const struct ends *ends, const struct blackbox_comm *comm, const struct blackbox_op *op)
{
    struct device_call call, usual;
    if (!is_later(ends, op, &call))
        return call.gap < call.took ? call.took - call.gap : call.took;
    if ((double)call.took < HIDDEN_PART * (double)call.gap || !short_calls(ends, comm, op, call.next, &usual) ||
        (double)call.took < HIDDEN_LONGER * (double)usual.took)
        return call.took;
    return call.gap >= usual.gap + (call.took - usual.took) / 2 ? call.took : 0;
}
