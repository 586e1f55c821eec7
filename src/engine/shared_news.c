/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell one another of failures through the memory that they share. */
#include "engine/shared_news.h"

#include "engine/shared.h"

void shared_tell_failure(struct team *team, bool first)
{
    struct arena_head *head = team->shared->arena.head;
    struct arena_rank *mine = &team->shared->arena.ranks[team->rank];
    uint32_t limit = atomic_load(&team->limit), finished = atomic_load(&head->finished);
    int none = 0;
    while (limit < finished && !atomic_compare_exchange_weak(&head->finished, &finished, limit))
        ;
    if (first && !atomic_load(&head->failed)) {
        mine->failure = team->cause;
        atomic_compare_exchange_strong(&head->failed, &none, team->rank + 1);
    }
    atomic_store(&mine->knows, true);
    arena_wake(&team->shared->arena, -1);
}

void shared_gone(struct team *team, int rank, enum wire_cause how)
{
    atomic_store(&team->shared->arena.ranks[rank].gone, how);
    arena_wake(&team->shared->arena, -1);
}

bool shared_knew(const struct team *team, int rank)
{
    return atomic_load(&team->shared->arena.ranks[rank].knows);
}
