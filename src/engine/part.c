/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a team. What makes them fail with their whole is in failure.c. */
#include "engine/part.h"

#include "base/error.h"
#include "base/random.h"
#include "engine/team_open.h"

#include <stdio.h>

/* Each time anew: what was said in a part that has ended is not heard in the next one. */
static uint64_t part_id(const struct team *whole, const struct part_config *config)
{
    uint64_t which = (uint64_t)config->kind << 32 | config->index;
    return mix64(mix64(whole->id + which) + atomic_load_explicit(&whole->seq, memory_order_relaxed));
}

/* Each once, and this rank among them: its number in the part. */
static int part_rank(const struct team *whole, const int *members, int count)
{
    int own = -1;
    for (int i = 0; i < count; i++) {
        if (members[i] < 0 || members[i] >= whole->nranks)
            return -1;
        own = members[i] == whole->rank ? i : own;
    }
    return own;
}

tutti_result_t team_part(struct team *whole, const int *members, int count, const struct part_config *config,
                         struct team **out)
{
    const struct team_config part = {.id = part_id(whole, config),
                                     .name = config->name,
                                     .rank = part_rank(whole, members, count),
                                     .nranks = count,
                                     .members = {.of = whole, .rank = members},
                                     .whole = whole,
                                     .choices = whole->choices,
                                     .timeout_ms = whole->timeout_ms,
                                     .bound = whole->bound};
    if (part.rank < 0 || whole->whole)
        return error_set(TUTTI_INTERNAL_ERROR, "rank %d of %d is to make a part of %d ranks that %s", whole->rank,
                         whole->nranks, count, whole->whole ? "is a part of a part" : "are not those of its team");
    return team_open(whole->engine, &part, out);
}

tutti_result_t team_part_of_level(struct team *whole, int level, const struct part_config *config, struct team **out)
{
    const struct level *near = &whole->levels->level[level];
    int first = near->first[near->group[whole->rank]], end = near->first[near->group[whole->rank] + 1];
    struct part_config own = *config;
    own.index = (uint32_t)near->group[whole->rank];
    return team_part(whole, whole->levels->order + first, end - first, &own, out);
}

void team_part_show(struct team *part, uint32_t index)
{
    char name[WIRE_BOX_NAME];
    const struct trace_comm *whole = part->whole->trace;
    if (!whole)
        return;
    snprintf(name, sizeof name, "%.*s island %u", WIRE_BOX_NAME - 20, whole->record->name, index);
    part->trace = trace_comm_open(part->engine->trace, part->id, name, part->rank, part->nranks, part->local_ranks);
}

void team_carry(struct team *whole, const struct call *call, uint32_t step)
{
    static const struct wire_name name = {.text = "two-level"};
    struct trace_op *record =
        trace_op_begin(whole->trace, team_next_seq(whole), (enum wire_collective)call->coll, (int)call->type, call->op,
                       call->root, call->count, team_vector_bytes(whole, call));
    trace_op_name(record, &name, 0, step);
    atomic_store_explicit(&whole->carried, record, memory_order_release);
}

void team_carried(struct team *whole, tutti_result_t result)
{
    trace_op_end(whole->trace, atomic_exchange(&whole->carried, NULL), result);
    if (result == TUTTI_SUCCESS)
        atomic_store_explicit(&whole->finished, atomic_load_explicit(&whole->seq, memory_order_relaxed),
                              memory_order_relaxed);
}
