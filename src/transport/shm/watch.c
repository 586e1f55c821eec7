/* SPDX-License-Identifier: Apache-2.0 */
/* Which lanes poll() looks at: recently active ones in every poll, all others in turn, so that many lanes stay cheap.
 */
#include "transport/shm/shm.h"

#include <stdlib.h>

#define HOT  16 /* lanes looked at in every poll */
#define TURN 16 /* others */

static void shm_watch_place(struct shm_transport *shm, unsigned index, struct shm_watch watch)
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

static bool shm_watch_has_news(const struct shm_watch *watch)
{
    return (uint32_t)atomic_load_explicit(&watch->slot->head, memory_order_acquire) == watch->number;
}

static void promote(struct shm_transport *shm, unsigned index)
{
    struct shm_watch other, watch = shm->watches[index];
    unsigned to = shm->watch_turn % HOT;
    other = shm->watches[to];
    shm_watch_place(shm, to, watch);
    shm_watch_place(shm, index, other);
}

static int shm_watch_look_at(struct shm_transport *shm, unsigned index)
{
    struct shm_lane *lane = shm->watches[index].lane;
    if (!shm_watch_has_news(&shm->watches[index]))
        return 0;
    if (index >= HOT)
        promote(shm, index);
    int done = shm_receive(lane);
    if (lane->watch != NO_WATCH) {
        struct shm_watch *watch = &shm->watches[lane->watch];
        watch->slot = ring_expected(&lane->in, &watch->number);
    }
    return done;
}

int shm_watch_poll(struct shm_transport *shm)
{
    int done = 0;
    for (unsigned i = 0; i < HOT && i < shm->watch_count; i++)
        done += shm_watch_look_at(shm, i);
    if (shm->watch_count <= HOT)
        return done;
    for (unsigned i = 0; i < TURN && HOT < shm->watch_count; i++) {
        if (++shm->watch_turn >= shm->watch_count || shm->watch_turn < HOT)
            shm->watch_turn = HOT;
        done += shm_watch_look_at(shm, shm->watch_turn);
    }
    return done;
}

bool shm_watch_news(const struct shm_transport *shm)
{
    for (unsigned i = 0; i < shm->watch_count; i++)
        if (shm_watch_has_news(&shm->watches[i]))
            return true;
    return false;
}
