/* SPDX-License-Identifier: Apache-2.0 */
/* The operation at the head of a team's queue, as others may see it. */
#include "engine/head.h"

#include "engine/queue.h"
#include "engine/stream.h"

bool team_head(struct team *team, struct team_head *head)
{
    if (!lock_try(&team->lock))
        return false;
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    bool queued = position != atomic_load_explicit(&team->issued, memory_order_acquire);
    if (queued) {
        const struct op *op = queue_head(&team->queue, position);
        *head = (struct team_head){op->kind, op->started, op->waiting};
    }
    lock_release(&team->lock);
    return queued;
}

static bool head_may_move(struct team *team)
{
    uint64_t position = atomic_load_explicit(&team->completed, memory_order_relaxed);
    if (position == atomic_load_explicit(&team->issued, memory_order_acquire))
        return false;
    const struct op *op = queue_head(&team->queue, position);
    if (atomic_load(&team->failed))
        return true;
    if (!op->started)
        return (!op->stream || stream_turn(op->stream, op));
    return !op->kind->may_move || op->kind->may_move(op);
}

bool team_may_want(struct team *team)
{
    if (!lock_try(&team->lock))
        return true;
    bool ended = atomic_load(&team->completed) == atomic_load(&team->issued), wants = ended || head_may_move(team);
    lock_release(&team->lock);
    return wants;
}

bool team_may_move(struct team *team)
{
    if (!lock_try(&team->lock))
        return false;
    bool may = head_may_move(team);
    lock_release(&team->lock);
    return may;
}
