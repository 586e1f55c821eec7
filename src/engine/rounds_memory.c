/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of host memory: everything is done at once. */
#include "engine/rounds_memory.h"

#include "base/cpu.h"
#include "base/poller.h"
#include "engine/team.h"

#include <stdlib.h>

static void *rounds_host_allocate(size_t size)
{
    return aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

static void rounds_host_release(void *memory, size_t size)
{
    (void)size;
    free(memory);
}

void rounds_item_run(const struct rounds_item *item)
{
    switch (item->kind) {
    case ROUNDS_COPY:
        memory_copy(item->to, item->from[0], item->count * item->size);
        break;
    case ROUNDS_PREPARE:
        reduction_prepare(item->reduction, item->to, item->from[0], item->count);
        break;
    case ROUNDS_REDUCE:
        reduction_apply(item->reduction, item->to, item->from, item->sources, item->count);
        break;
    }
    if (item->finishes && reduction_needs_finish(item->reduction))
        reduction_finish(item->reduction, item->to, item->to, item->count);
}

static enum rounds_done rounds_host_work(struct rounds_item *item)
{
    rounds_item_run(item);
    return ROUNDS_DONE;
}

const struct rounds_memory rounds_host = {
    .name = "host", .allocate = rounds_host_allocate, .release = rounds_host_release, .work = rounds_host_work};

/* The thread that waits for the item may sleep. */
void rounds_item_done(struct rounds_item *item)
{
    struct poller *poller =
        item->team->engine->poller; /* of the engine: the team may be closed as soon as this is done */
    atomic_store_explicit(&item->done, true, memory_order_release);
    poller_wake(poller);
}
