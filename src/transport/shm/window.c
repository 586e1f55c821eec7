/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a direction of a lane uses. Each begins with a small window of its data ring. A direction that runs
 * out of room gets four times as much, if that is at most a quarter of what TUTTI_SHM_MEMORY leaves to this process. By
 * this rule many lanes can share the memory, and a lane that is alone may have the most. When too little is left,
 * windows that had room enough for a while are narrowed, and their pages given back.
 */
#include "base/memory.h"
#include "transport/shm/window.h"

#include "base/clock.h"
#include "base/param.h"

#define GROWTH   4
#define SHARE    4                 /* of what is left, one lane may take this part */
#define LOOK_NS  NS_PER_MS         /* between two looks at who could do with less */
#define QUIET_NS (100 * NS_PER_MS) /* after this time with room enough */
#define MOST     8                 /* windows narrowed in one look */

static void shm_window_count(struct shm_lane *lane, int64_t bytes)
{
    struct shm_transport *shm = shm_of(lane);
    shm->memory += (uint64_t)bytes;
    if (bytes && shm->base.owner.memory)
        shm->base.owner.memory(shm->base.owner.context, bytes);
}

static uint64_t shm_window_left(const struct shm_transport *shm)
{
    uint64_t limit = (uint64_t)param_int(PARAM_SHM_MEMORY);
    return limit > shm->memory ? limit - shm->memory : 0;
}

static uint64_t stages_size(const struct shm_lane *lane)
{
    return (uint64_t)lane->shape.stages * RING_STAGE_BYTES;
}

void shm_window_open(struct shm_lane *lane)
{
    lane->held = ring_window(&lane->out);
    shm_window_count(lane, (int64_t)(ring_fixed_size(&lane->shape) + lane->held));
}

void shm_window_close(struct shm_lane *lane)
{
    list_remove(&lane->wide);
    if (lane->held)
        shm_window_count(lane, -(int64_t)(ring_fixed_size(&lane->shape) + lane->held));
    if (lane->stage.held)
        shm_window_count(lane, -(int64_t)stages_size(lane));
    lane->held = 0;
    lane->stage.held = false;
}

static void shm_window_unlist(struct shm_lane *lane)
{
    if (lane->held <= RING_LEAST && !lane->stage.held)
        list_remove(&lane->wide);
}

static void shm_window_give_back(struct shm_lane *lane)
{
    uint64_t window = ring_window(&lane->out);
    memory_give_back(lane->out.data + window, lane->held - window);
    shm_window_count(lane, (int64_t)window - (int64_t)lane->held);
    lane->held = window;
    shm_window_unlist(lane);
}

/* The peer reads in none: it is done with all pulls. */
static void give_stages_back(struct shm_lane *lane)
{
    if (!lane->stage.held || lane->posted)
        return;
    memory_give_back(lane->stage.out, stages_size(lane));
    shm_window_count(lane, -(int64_t)stages_size(lane));
    lane->stage.held = false;
    shm_window_unlist(lane);
}

static void shm_window_move(struct shm_lane *lane, uint64_t window)
{
    if (!ring_move(&lane->out, window))
        return;
    if (window > lane->held) {
        shm_window_count(lane, (int64_t)(window - lane->held));
        lane->held = window;
        if (list_empty(&lane->wide))
            list_push(&shm_of(lane)->wide, &lane->wide);
    }
    shm_ring_bell(lane->peer);
}

/* Narrows windows that need not be wide, and takes the pages of those that have become narrow. */
static void look_for_spare(struct shm_transport *shm, uint64_t now)
{
    int narrowed = 0;
    if (now - shm->looked < LOOK_NS)
        return;
    shm->looked = now;
    list_each_safe(node, &shm->wide)
    {
        struct shm_lane *lane = list_entry(node, struct shm_lane, wide);
        if (!ring_moved(&lane->out) || carrier_dead(&lane->base))
            continue;
        if (lane->held > ring_window(&lane->out)) {
            shm_window_give_back(lane);
        } else if (lane->out.position + lane->pulls != lane->quiet_at) {
            lane->quiet_at = lane->out.position + lane->pulls;
            lane->quiet_since = now;
        } else if (now - lane->quiet_since > QUIET_NS && narrowed++ < MOST) {
            if (lane->held > RING_LEAST)
                shm_window_move(lane, RING_LEAST);
            give_stages_back(lane);
        }
    }
}

/* The widest window up to `most` that there is memory for. */
static uint64_t affordable(struct shm_lane *lane, uint64_t most)
{
    uint64_t window = ring_window(&lane->out), share = shm_window_left(shm_of(lane)) / SHARE;
    for (uint64_t wide = most; wide > window; wide /= 2)
        if (wide <= lane->held || wide - lane->held <= share)
            return wide;
    if (window < most)
        look_for_spare(shm_of(lane), clock_ns());
    return window;
}

/* The window in which one message of this size always fits at last. It is made also where memory is short: the message
 * could never go. */
static uint64_t needed(const struct shm_lane *lane, size_t size)
{
    uint64_t window = RING_LEAST;
    while (window < 2 * size && window < lane->out.most)
        window *= 2;
    return window < lane->out.most ? window : lane->out.most;
}

bool shm_window_short(const struct shm_lane *lane, size_t size)
{
    return !lane->out.moving && ring_window(&lane->out) < needed(lane, size);
}

/* A window of the same size again is of use too: it makes the receiver say what it has consumed, and brings the free
 * parts together. */
static void want(struct shm_lane *lane, size_t size)
{
    uint64_t window = ring_window(&lane->out),
             wide = window * GROWTH < lane->out.most ? window * GROWTH : lane->out.most;
    uint64_t next = affordable(lane, wide), least = needed(lane, size);
    next = next > least ? next : least;
    if (next > window || size > window / 4)
        shm_window_move(lane, next);
}

void *shm_reserve(struct shm_lane *lane, size_t size)
{
    void *room = ring_reserve(&lane->out, size);
    if (!room && size && !lane->out.moving)
        want(lane, size);
    return room;
}

bool shm_window_stage(struct shm_lane *lane)
{
    uint64_t size = stages_size(lane);
    if (!lane->stage.held && size > shm_window_left(shm_of(lane)) / SHARE) {
        look_for_spare(shm_of(lane), clock_ns());
        return false;
    }
    if (!lane->stage.held) {
        shm_window_count(lane, (int64_t)size);
        lane->stage.held = true;
        if (list_empty(&lane->wide))
            list_push(&shm_of(lane)->wide, &lane->wide);
    }
    return true;
}

void shm_widen(struct shm_lane *lane)
{
    uint64_t next = lane->out.moving ? 0 : affordable(lane, lane->out.most);
    if (next > ring_window(&lane->out))
        shm_window_move(lane, next);
}
