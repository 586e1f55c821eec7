/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a team. What makes them fail with their whole is in failure.c. */
#include "engine/part.h"

#include "base/error.h"
#include "base/random.h"
#include "engine/team_open.h"

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
                                     .timeout_ms = whole->timeout_ms};
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
