/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for peers that share memory: what they have published, and whether they still live. */
#include "engine/shared_internal.h"

#include "engine/failure.h"
#include "engine/op.h"

#include <stdio.h>

bool shared_broken(struct shared_context *c, tutti_result_t *result)
{
    const struct arena_head *head = c->shared->arena.head;
    int first = atomic_load(&head->failed) - 1;
    if (first < 0 || first >= c->team->nranks)
        return false;
    struct wire_abort news = c->shared->arena.ranks[first].failure;
    news.finished = atomic_load(&head->finished);
    *result = team_hear(c->team, &news);
    return !team_allows(c->team, c->op);
}

/* Not ready. The first failure is looked at before the ranks that are gone: a rank may have left because of that
 * failure. The second look comes after both: what a rank published before still counts. */
tutti_result_t shared_blocked(struct shared_context *c, int peer, shared_ready_fn *ready)
{
    struct arena_rank *rank = &c->shared->arena.ranks[peer];
    op_waits(c->op, peer, (uint32_t)c->op->shared.round, (uint32_t)c->op->shared.slice);
    uint8_t how = atomic_load_explicit(&rank->gone, memory_order_acquire);
    tutti_result_t result;
    if (how && !atomic_load(&c->team->gone[peer]))
        team_is_gone(c->team, peer, how);
    bool gone = atomic_load_explicit(&c->team->gone[peer], memory_order_acquire);
    if (shared_broken(c, &result))
        return result;
    if (!gone)
        return TUTTI_IN_PROGRESS;
    if (ready(c, peer))
        return TUTTI_SUCCESS;
    char why[160];
    snprintf(why, sizeof why, "process %u is gone; it did not reach %s, operation %u", team_row(c->team, peer)->pid,
             schedule_coll_name(c->op->call.coll), c->op->seq);
    return team_lose(c->team, peer, why);
}

static bool published(struct shared_context *c, int peer)
{
    return shared_has_come(c->shared, arena_slot(&c->shared->arena, peer, c->shared->step));
}

tutti_result_t shared_await(struct shared_context *c, int peer, struct slot **out)
{
    struct slot *slot = *out = arena_slot(&c->shared->arena, peer, c->shared->step);
    if (!shared_has_come(c->shared, slot)) {
        tutti_result_t result = shared_blocked(c, peer, published);
        if (result == TUTTI_IN_PROGRESS)
            team_awaits(c->team, &slot->ready, c->shared->step + 1);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    if (slot->signature == c->op->route.signature)
        return TUTTI_SUCCESS;
    return team_refuse(c->team, op_call(c->op), peer, slot_call(slot), c->op->seq);
}
