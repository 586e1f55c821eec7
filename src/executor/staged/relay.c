/* SPDX-License-Identifier: Apache-2.0 */
/* Slots on GPUs next to borrowed interfaces. */
#include "executor/staged/relay.h"

#include "base/board.h"
#include "base/cpu.h"
#include "base/known.h"
#include "base/log.h"
#include "base/near.h"
#include "base/param.h"
#include "device/cuda/memory.h"
#include "device/cuda/nvml.h"
#include "engine/ports.h"
#include "engine/team.h"
#include "executor/staged/staged.h"
#include "executor/stream/ledger.h"

#include <string.h>

#define PIECES    4                 /* of a slice, at least: a slot holds one (pieces.c) */
#define LOOK_SOON (10 * NS_PER_MS)  /* ns between two looks, while there is memory that somebody may ask for; */
#define LOOK_LATE (500 * NS_PER_MS) /* and while there is none, or at how much is free */
#define LOW       32                /* less than this part of a GPU's memory is free: it is given back; */
#define ENOUGH    16                /* less than this part: none is made */
_Static_assert(BOARD_GPUS > RELAYS, "each GPU has a place on the board, the process's own one, too");

/* ---- Which GPUs ---- */

/* The GPU is next to ports that neither this one nor another relay is next to, and NVLink leads there. */
static bool relay_may_be(const struct staged *staged, struct relay_gpu *relay, uint32_t others)
{
    uint8_t uuid[16];
    cuda_device_identity(relay->gpu, uuid, relay->bus_id);
    near_note(relay->gpu, relay->bus_id);
    relay->ports = ports_of(staged->base.team->engine, relay->gpu);
    relay->name = board_gpu(uuid);
    return relay->ports && !(relay->ports & others) && cuda_device_whole(staged->base.device, relay->gpu) &&
           cuda_device_reaches(staged->base.device, relay->gpu) == TUTTI_SUCCESS;
}

static void relay_find(struct staged *staged)
{
    struct relays *all = &staged->relays;
    int gpus = 0, own = staged->base.device->ordinal;
    uint32_t ports = ports_of(staged->base.team->engine, own);
    if (!ports || cuda_device_count(&gpus) != TUTTI_SUCCESS)
        return;
    for (int gpu = 0; gpu < gpus && all->count < RELAYS; gpu++) {
        struct relay_gpu *relay = &all->relay[all->count];
        *relay = (struct relay_gpu){.gpu = gpu};
        if (gpu == own || !relay_may_be(staged, relay, ports) || !(relay->use = board_use(all->board, relay->name)))
            continue;
        ports |= relay->ports;
        all->count++;
    }
}

void relay_open(struct staged *staged)
{
    struct relays *all = &staged->relays;
    const struct team *team = staged->base.team;
    if (!staged->direct || param_int(PARAM_BORROW) <= 0 || !param_int(PARAM_RELAY))
        return;
    all->board = board_open(team_row(team, team->rank)->host);
    if (all->board)
        relay_find(staged);
}

void relay_agree(struct staged *staged, int count)
{
    struct relays *all = &staged->relays;
    all->count = count;
    all->room = (staged->slice_bytes / PIECES + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    for (int i = 0; i < count; i++)
        log_info("rank %d: what GPU %d sends by interfaces next to GPU %d, while they are idle, goes by slots there",
                 staged->base.team->rank, staged->base.device->ordinal, all->relay[i].gpu);
}

/* ---- Memory, by one thread ---- */

static void relay_count(struct staged *staged, const struct relay_gpu *relay, size_t bytes)
{
    atomic_fetch_add_explicit(&relay->use->outstanding, bytes, memory_order_relaxed);
    ledger_add(&staged->base, WIRE_MEMORY_RELAY, bytes);
}

/* More than this part of the GPU's memory is free, or nobody knows. */
static bool relay_has_room(const struct relay_gpu *relay, uint64_t part)
{
    uint64_t free_bytes, total;
    return nvml_memory(relay->bus_id, &free_bytes, &total) != TUTTI_SUCCESS || free_bytes > total / part;
}

/* Adapters find it by a descriptor. */
static bool relay_tell_adapters(const struct staged *staged, struct relay_gpu *relay)
{
    struct cuda_range range;
    CUdeviceptr base;
    size_t size;
    int fd;
    if (cuda_range_of((void *)(uintptr_t)relay->memory, &range) != TUTTI_SUCCESS ||
        !cuda_export_pages(&range, &base, &size, &fd))
        return false;
    const struct known known = {.base = (char *)(uintptr_t)base,
                                .size = size,
                                .device = relay->gpu + 1,
                                .ordered = staged->base.device->ordered};
    relay->known = known_add_device(&known, fd);
    return relay->known;
}

static void relay_free(struct staged *staged, struct relay_gpu *relay)
{
    known_remove(relay->known);
    cuda_memory_leave(staged->base.device, relay->memory, relay->size);
    relay->known = 0;
}

/* Slots of a channel that there is memory for now. */
static int relay_make(struct staged *staged, struct relay_gpu *relay)
{
    const struct relays *all = &staged->relays;
    size_t each = (size_t)staged->channels * all->room, most = (size_t)param_int(PARAM_RELAY) / each;
    int slots = most < RELAY_SLOTS ? (int)most : RELAY_SLOTS;
    relay->size = (size_t)slots * each;
    if (!slots || !relay_has_room(relay, ENOUGH) ||
        cuda_memory_beside(staged->base.device, relay->gpu, &relay->size, &relay->memory) != TUTTI_SUCCESS)
        return 0;
    if (!relay_tell_adapters(staged, relay)) {
        relay_free(staged, relay);
        return 0;
    }
    near_relay(relay->gpu, true);
    relay_count(staged, relay, relay->size);
    return slots;
}

static void relay_end(struct staged *staged, struct relay_gpu *relay)
{
    near_relay(relay->gpu, false);
    relay_free(staged, relay);
    relay_count(staged, relay, -relay->size);
}

static bool relay_is_asked_for(const struct relays *all, const struct relay_gpu *relay, uint64_t now)
{
    return board_look(all->board, relay->name, now).out > now ||
           atomic_load_explicit(&relay->use->out, memory_order_relaxed) > now;
}

static bool relay_is_low(struct relay_gpu *relay, uint64_t now)
{
    if (relay->slots.state != RELAY_NONE && now - relay->looked >= LOOK_LATE) {
        relay->low = !relay_has_room(relay, LOW);
        relay->looked = now;
    }
    return relay->low && relay->slots.state != RELAY_NONE;
}

/* Returns whether there is memory. */
static bool relay_step(struct staged *staged, struct relay_gpu *relay, bool closed)
{
    struct relays *all = &staged->relays;
    uint64_t now = clock_ns();
    bool asked = relay_is_asked_for(all, relay, now), low = relay_is_low(relay, now),
         refused = known_is_refused(relay->known);
    pthread_mutex_lock(&all->lock);
    relay->refused |= refused;
    struct relay_news news = {asked, low, closed || relay->refused};
    enum relay_step step = relay_slots_next(&relay->slots, &news, clock_ns());
    pthread_mutex_unlock(&all->lock);
    int made = step == RELAY_MAKE ? relay_make(staged, relay) : 0;
    if (step == RELAY_FREE)
        relay_end(staged, relay);
    pthread_mutex_lock(&all->lock);
    if (step == RELAY_MAKE)
        relay_slots_made(&relay->slots, made, clock_ns());
    if (step == RELAY_FREE)
        relay_slots_freed(&relay->slots);
    pthread_mutex_unlock(&all->lock);
    return relay->slots.state != RELAY_NONE;
}

uint64_t relay_tend(struct staged *staged)
{
    bool any = false;
    bool failed = atomic_load_explicit(&staged->base.team->failed, memory_order_acquire);
    for (int i = 0; i < staged->relays.count; i++)
        any |= relay_step(staged, &staged->relays.relay[i], failed);
    return any ? LOOK_SOON : LOOK_LATE;
}

/* What a kernel that does not answer may still write to stays. */
void relay_close(struct staged *staged)
{
    struct relays *all = &staged->relays;
    for (int i = 0; i < all->count; i++)
        relay_step(staged, &all->relay[i], true);
    board_close(all->board);
    all->board = NULL;
}

/* ---- Slots, by channels ---- */

static void relay_wake(struct staged *staged)
{
    pthread_mutex_lock(&staged->doubt.lock);
    pthread_cond_signal(&staged->doubt.news);
    pthread_mutex_unlock(&staged->doubt.lock);
}

void relay_give(struct channel *channel, struct relay_slot *slot)
{
    struct relays *all = &channel->staged->relays;
    if (!slot->relay)
        return;
    pthread_mutex_lock(&all->lock);
    relay_slots_give(&slot->relay->slots, channel->index, slot->slot, clock_ns());
    pthread_mutex_unlock(&all->lock);
    slot->relay = NULL;
}

bool relay_take(struct channel *channel, size_t turn, bool sends, struct relay_slot *out)
{
    struct staged *staged = channel->staged;
    struct relays *all = &staged->relays;
    int number = all->count ? (int)(turn % ((size_t)all->count + 1)) : 0;
    out->relay = NULL;
    if (!number || !ports_are_idle(channel->team->engine, all->relay[number - 1].ports, !sends))
        return false;
    struct relay_gpu *relay = &all->relay[number - 1];
    pthread_mutex_lock(&all->lock);
    bool lacks = relay->slots.state == RELAY_NONE && !relay->refused;
    int slot = relay->refused ? -1 : relay_slots_take(&relay->slots, channel->index, clock_ns());
    pthread_mutex_unlock(&all->lock);
    if (lacks)
        relay_wake(staged);
    if (slot < 0)
        return false;
    out->relay = relay;
    out->slot = slot;
    size_t place = ((size_t)channel->index * (size_t)relay->slots.each + (size_t)slot) * all->room;
    out->place = (struct place){.address = (char *)(uintptr_t)relay->memory + place,
                                .device = relay->gpu + 1,
                                .life = relay->known,
                                .relays = staged->base.device->ordinal + 1};
    return true;
}
