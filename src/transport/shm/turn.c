/* SPDX-License-Identifier: Apache-2.0 */
/* Polls: recently active lanes are looked at in every poll, all others in turn, so that many lanes stay cheap. */
#include "transport/shm/turn.h"
#include "transport/shm/receive.h"
#include "transport/shm/watch.h"

#define HOT  16 /* lanes looked at in every poll */
#define TURN 16 /* others */

static void turn_promote(struct shm_transport *shm, unsigned index)
{
    struct shm_watch other, watch = shm->watches[index];
    unsigned to = shm->watch_turn % HOT;
    other = shm->watches[to];
    shm_watch_place(shm, to, watch);
    shm_watch_place(shm, index, other);
}

static int turn_look_at(struct shm_transport *shm, unsigned index)
{
    struct shm_lane *lane = shm->watches[index].lane;
    if (!shm_watch_has_news(&shm->watches[index]))
        return 0;
    if (index >= HOT)
        turn_promote(shm, index);
    int done = shm_receive(lane);
    if (lane->watch != NO_WATCH) {
        struct shm_watch *watch = &shm->watches[lane->watch];
        watch->slot = ring_expected(&lane->in, &watch->number);
    }
    return done;
}

int shm_turn_poll(struct shm_transport *shm)
{
    int done = 0;
    for (unsigned i = 0; i < HOT && i < shm->watch_count; i++)
        done += turn_look_at(shm, i);
    if (shm->watch_count <= HOT)
        return done;
    for (unsigned i = 0; i < TURN && HOT < shm->watch_count; i++) {
        if (++shm->watch_turn >= shm->watch_count || shm->watch_turn < HOT)
            shm->watch_turn = HOT;
        done += turn_look_at(shm, shm->watch_turn);
    }
    return done;
}
