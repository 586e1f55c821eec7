/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/steps.h"

#include <stdlib.h>

#define CALLS_MOST 4096 /* latest calls in which a period is looked for */

static bool same_kind_of_call(const struct blackbox_op *a, const struct blackbox_op *b)
{
    return a->collective == b->collective && a->type == b->type && a->op == b->op && a->count == b->count &&
           a->root == b->root;
}

const struct blackbox_op **steps_calls(const struct blackbox_comm *comm, size_t *count)
{
    const struct blackbox_op **ops = calloc(comm->op_count + 1, sizeof *ops);
    *count = 0;
    for (size_t i = 0; ops && i < comm->op_count; i++)
        if (comm->ops[i].collective < WIRE_SEND)
            ops[(*count)++] = &comm->ops[i];
    return ops;
}

/* The number of calls after which they repeat; where they do not, each call is a step. */
static size_t find_period(const struct blackbox_op *const *ops, size_t count)
{
    if (count > CALLS_MOST) {
        ops += count - CALLS_MOST;
        count = CALLS_MOST;
    }
    for (size_t period = 1; 2 * period <= count; period++) {
        size_t same = period;
        while (same < count && same_kind_of_call(ops[same], ops[same - period]))
            same++;
        if (same == count)
            return period;
    }
    return 1;
}

static size_t count_calls(const struct blackbox_comm *comm)
{
    size_t count = 0;
    for (size_t i = 0; i < comm->op_count; i++)
        count += comm->ops[i].collective < WIRE_SEND;
    return count;
}

struct steps steps_of(const struct member_group *group)
{
    const struct member *most = group->members;
    struct steps steps = {.period = 1};
    size_t best = 0, count;
    for (size_t i = 0; i < group->count; i++) {
        count = count_calls(group->members[i].comm);
        most = count > best ? &group->members[i] : most;
        best = count > best ? count : best;
    }
    const struct blackbox_op **ops = steps_calls(most->comm, &count);
    if (count) {
        steps.base = ops[0]->seq;
        steps.period = find_period(ops, count);
        uint64_t calls = ops[count - 1]->seq - steps.base;
        steps.count = calls < count ? (size_t)(calls / steps.period) + 1 : 0; /* else: numbers make no sense */
    }
    free(ops);
    return steps;
}
