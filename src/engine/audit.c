/* SPDX-License-Identifier: Apache-2.0 */
/* Everything issued has ended: were all ranks in the same calls, as far as can still be seen? */
#include "engine/audit.h"

#include "base/error.h"
#include "engine/failure.h"
#include "engine/shared_internal.h"
#include "engine/wait.h"

/* ---- Shared memory ---- */

/* What a rank's slot says of `step`. False: nothing, or its owner may use it again by now, and has said before that it
 * is done with the others. */
static bool audit_call_of(const struct arena *arena, int rank, uint64_t step, struct wire_call *out)
{
    const struct slot *slot = arena_slot(arena, rank, step);
    if (atomic_load_explicit(&slot->ready, memory_order_acquire) != step + 1)
        return false;
    *out = slot_call(slot);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&arena->ranks[rank].done, memory_order_relaxed) < step + arena->slot_count;
}

static tutti_result_t audit_step(struct team *team, uint64_t step)
{
    const struct arena *arena = &team->shared->arena;
    struct wire_call mine, theirs;
    if (!audit_call_of(arena, team->rank, step, &mine))
        return TUTTI_SUCCESS;
    for (int peer = 0; peer < arena->nranks; peer++)
        if (audit_call_of(arena, peer, step, &theirs) && theirs.signature != mine.signature)
            return team_refuse(team, mine, peer, theirs, team->calls.started);
    return TUTTI_SUCCESS;
}

static tutti_result_t audit_shared(struct team *team, bool all)
{
    struct shared *d = team->shared;
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t most = all ? d->arena.slot_count : 1;
    for (uint64_t back = 1; back <= most && back <= d->step && result == TUTTI_SUCCESS; back++)
        result = audit_step(team, d->step - back);
    atomic_store_explicit(&d->unread, false, memory_order_relaxed);
    return result;
}

/* ---- Links ---- */

/* Something came over links for a collective that has ended: its sender was in another call. */
static tutti_result_t audit_links(struct team *team)
{
    struct wire_message left;
    const struct calls *calls = &team->calls;
    if (!link_find_left(team->engine->links, team->id, (uint32_t)team->rank, calls->started, false, &left) ||
        calls->started - left.tag.seq >= CALLS_KEPT)
        return TUTTI_SUCCESS;
    uint32_t from = left.kind == WIRE_CREDIT ? left.tag.to : left.tag.from;
    return team_refuse(team, calls->kept[left.tag.seq % CALLS_KEPT], (int)from, left.call, left.tag.seq);
}

/* This rank's failure alone: to others the communicator may be as good as it was. */
static tutti_result_t audit_messages(struct team *team)
{
    struct wire_message left;
    char call[WIRE_CALL_TEXT];
    if (!link_find_left(team->engine->links, team->id, (uint32_t)team->rank, 0, true, &left) ||
        left.tag.slice != WIRE_TAG_P2P)
        return TUTTI_SUCCESS;
    return error_set(
        TUTTI_INVALID_USAGE,
        "rank %u sent rank %d %s (number %u between the two), which was never received; receive all before the end",
        left.tag.from, team->rank, wire_call_text(left.call, call, sizeof call), left.tag.seq);
}

static __attribute__((noinline)) tutti_result_t audit(struct team *team, bool shared, bool end)
{
    tutti_result_t result = TUTTI_SUCCESS;
    lock_take(&team->lock);
    if (shared)
        result = audit_shared(team, end);
    lock_take(&team->engine->lock);
    if (end)
        link_poll(team->engine->links);
    if (result == TUTTI_SUCCESS)
        result = audit_links(team);
    if (result == TUTTI_SUCCESS && end)
        result = audit_messages(team);
    lock_release(&team->engine->lock);
    lock_release(&team->lock);
    return result;
}

tutti_result_t team_audit(struct team *team, bool end)
{
    bool shared = team->shared && (end || atomic_load_explicit(&team->shared->unread, memory_order_relaxed));
    if (!end && !shared && !link_any_left(team->engine->links))
        return TUTTI_SUCCESS;
    tutti_result_t result = audit(team, shared, end);
    tutti_result_t failure = result == TUTTI_SUCCESS ? TUTTI_SUCCESS : team_report(team);
    return failure == TUTTI_SUCCESS ? result : failure;
}
