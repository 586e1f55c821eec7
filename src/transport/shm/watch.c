/* SPDX-License-Identifier: Apache-2.0 */
/* Which lanes polls look at, and the end of one that fails. */
#include "transport/shm/watch.h"

#include <stdlib.h>
#include <string.h>

void shm_watch_place(struct shm_transport *shm, unsigned index, struct shm_watch watch)
{
    shm->watches[index] = watch;
    watch.lane->watch = index;
}

bool shm_watch_add(struct shm_lane *lane)
{
    struct shm_transport *shm = shm_of(lane);
    if (shm->watch_count == shm->watch_room) {
        unsigned room = shm->watch_room ? 2 * shm->watch_room : 16;
        struct shm_watch *more = realloc(shm->watches, room * sizeof *more);
        if (!more)
            return false;
        shm->watches = more;
        shm->watch_room = room;
    }
    struct shm_watch watch = {.lane = lane};
    watch.slot = ring_expected(&lane->in, &watch.number);
    shm_watch_place(shm, shm->watch_count++, watch);
    return true;
}

void shm_watch_remove(struct shm_lane *lane)
{
    struct shm_transport *shm = shm_of(lane);
    if (lane->watch == NO_WATCH)
        return;
    unsigned last = --shm->watch_count;
    if (lane->watch != last)
        shm_watch_place(shm, lane->watch, shm->watches[last]);
    lane->watch = NO_WATCH;
}

bool shm_watch_has_news(const struct shm_watch *watch)
{
    return (uint32_t)atomic_load_explicit(&watch->slot->head, memory_order_acquire) == watch->number;
}

bool shm_watch_news(const struct shm_transport *shm)
{
    for (unsigned i = 0; i < shm->watch_count; i++)
        if (shm_watch_has_news(&shm->watches[i]))
            return true;
    return false;
}

void shm_activate(struct shm_lane *lane)
{
    if (list_empty(&lane->active))
        list_push(&shm_of(lane)->active, &lane->active);
    if (shm_of(lane)->base.armed)
        poller_wake(shm_of(lane)->base.inner); /* someone else sleeps: it goes on with this lane */
}

void shm_lane_silence(struct shm_lane *lane)
{
    struct shm_transport *shm = shm_of(lane);
    transport_timer_clear(&shm->base, &lane->deadline);
    shm_watch_remove(lane);
    list_remove(&lane->active);
    if (lane->source.fd >= 0)
        poller_remove(shm->base.inner, &lane->source);
}

tutti_result_t shm_fail(struct shm_lane *lane, const char *what, int error)
{
    shm_lane_silence(lane);
    return carrier_fail(&lane->base, carrier_why(&lane->base, error), "shared-memory lane %u: %s%s%s", lane->index,
                        what, error ? ": " : "", error ? strerror(error) : "");
}
