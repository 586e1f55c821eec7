/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of this rank that peers may map, so that messages go from buffer to buffer. A message whose buffer is not mapped at the
 * other end goes through scratch, and the buffer is offered to the peer, which maps it beside its work (import.c).
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/random.h"
#include "link/link.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct board_offer *place_of(const struct fabric *fabric, int peer, int offer)
{
    return &fabric->board->offer[fabric->rank][peer][offer];
}

static bool is_answered(const struct fabric *fabric, int peer, int offer)
{
    uint32_t answer = atomic_load_explicit(&place_of(fabric, peer, offer)->answer, memory_order_acquire);
    return answer >> 1 == fabric->offered[peer][offer].number;
}

static bool is_mapped(const struct fabric *fabric, int peer, int offer)
{
    return atomic_load_explicit(&place_of(fabric, peer, offer)->answer, memory_order_acquire) == (fabric->offered[peer][offer].number << 1 | 1);
}

/* Neither is the peer looking at the place, nor copying to or from the buffer. */
static bool may_change(const struct fabric *fabric, int peer, int offer)
{
    const struct offered *mine = &fabric->offered[peer][offer];
    uint32_t pushed = atomic_load(&fabric->board->pair[peer][fabric->rank].pushed);
    uint32_t pulled = atomic_load(&fabric->board->pair[fabric->rank][peer].pulled);
    return !mine->number || (is_answered(fabric, peer, offer) && (int32_t)(pushed - mine->pushed) >= 0 && (int32_t)(pulled - mine->pulled) >= 0);
}

static void publish(struct fabric *fabric, int peer, int offer, const struct cuda_range *range, const struct cuda_handle *handle, uint64_t key)
{
    struct board_offer *place = place_of(fabric, peer, offer);
    struct offered *mine = &fabric->offered[peer][offer];
    uint32_t number = (mine->number + 1) & 0x7fffffff;
    *mine = (struct offered){.number = number ? number : 1,
                             .id = range->id,
                             .base = range->base,
                             .size = range->size,
                             .used = ++fabric->offers_used,
                             .pushed = atomic_load(&fabric->board->pair[peer][fabric->rank].pushed),
                             .pulled = atomic_load(&fabric->board->pair[fabric->rank][peer].pulled)};
    place->buffer = (struct board_buffer){.handle = *handle, .address = range->base, .base = range->base};
    place->key = key;
    atomic_store_explicit(&place->number, mine->number, memory_order_release);
    board_ring(fabric->board, peer);
}

static uint32_t places_used(const struct fabric *fabric, int peer)
{
    return atomic_load_explicit(&fabric->board->offers[fabric->rank][peer], memory_order_relaxed);
}

/* The peer keeps memory alive that this process has given back: it shall let go. The driver is asked without the lock: it may take its time. */
static bool withdraw_if_freed(struct fabric *fabric, int peer, int offer)
{
    static const struct cuda_range nothing = {.ordinal = -1};
    static const struct cuda_handle none;
    struct cuda_range now;
    pthread_mutex_lock(&fabric->offering);
    const struct offered mine = fabric->offered[peer][offer];
    bool mapped = mine.size && is_mapped(fabric, peer, offer) && may_change(fabric, peer, offer);
    pthread_mutex_unlock(&fabric->offering);
    if (!mapped || cuda_range_of((void *)(uintptr_t)mine.base, &now) != TUTTI_SUCCESS || (now.id == mine.id && now.base == mine.base))
        return mine.size != 0;
    pthread_mutex_lock(&fabric->offering);
    bool still = fabric->offered[peer][offer].number == mine.number && may_change(fabric, peer, offer);
    if (still)
        publish(fabric, peer, offer, &nothing, &none, 0);
    pthread_mutex_unlock(&fabric->offering);
    return !still;
}

bool offer_withdraw_freed(struct fabric *fabric)
{
    bool any = false;
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (uint32_t i = 0; !fabric->here[peer] && i < places_used(fabric, peer); i++)
            any |= withdraw_if_freed(fabric, peer, (int)i);
    return any;
}

static int find_room(struct fabric *fabric, int peer)
{
    int oldest = -1, used = (int)places_used(fabric, peer);
    for (int i = 0; i < used && (oldest < 0 || fabric->offered[peer][oldest].size); i++)
        if (may_change(fabric, peer, i) && (oldest < 0 || !fabric->offered[peer][i].size || fabric->offered[peer][i].used < fabric->offered[peer][oldest].used))
            oldest = i;
    if (used == BOARD_OFFERS || (oldest >= 0 && !fabric->offered[peer][oldest].size))
        return oldest;
    atomic_store_explicit(&fabric->board->offers[fabric->rank][peer], (uint32_t)used + 1, memory_order_release);
    return used;
}

static bool keep_parcel(struct fabric *fabric, int peer, int fd, uint64_t key)
{
    struct parcel *parcel = malloc(sizeof *parcel);
    if (!parcel)
        return false;
    *parcel = (struct parcel){.peer = peer, .fd = fd, .key = key};
    pthread_mutex_lock(&fabric->lock);
    list_push(&fabric->parcels, &parcel->node);
    pthread_mutex_unlock(&fabric->lock);
    board_ring(fabric->board, fabric->rank);
    return true;
}

static void make_offer(struct fabric *fabric, int peer, const struct cuda_range *range)
{
    struct cuda_handle handle = {0};
    int fd = -1;
    int offer = find_room(fabric, peer);
    if (offer < 0)
        return;
    uint64_t key = 0, place = (uint64_t)(fabric->rank * KERNEL_RANKS + peer) * BOARD_OFFERS + (uint64_t)offer;
    if (cuda_export(range, &handle, &fd) != TUTTI_SUCCESS)
        handle.how = 0; /* offered as nothing, and so remembered: not to be tried again */
    if (fd >= 0) {
        key = mix64(mix64(fabric->team->id + place) + fabric->offered[peer][offer].number);
        if (!keep_parcel(fabric, peer, fd, key)) {
            close(fd);
            return;
        }
    }
    publish(fabric, peer, offer, range, &handle, key);
}

static int find(struct fabric *fabric, int peer, const struct cuda_range *range)
{
    uint32_t used = places_used(fabric, peer);
    for (uint32_t i = 0; i < used; i++) {
        struct offered *mine = &fabric->offered[peer][i];
        if (!mine->number || !mine->size || mine->id != range->id || mine->base != range->base)
            continue;
        mine->used = ++fabric->offers_used;
        return is_mapped(fabric, peer, (int)i) ? (int)i : -1;
    }
    make_offer(fabric, peer, range);
    return -1;
}

int offer_find(struct fabric *fabric, int peer, const struct cuda_range *range)
{
    pthread_mutex_lock(&fabric->offering);
    int offer = find(fabric, peer, range);
    pthread_mutex_unlock(&fabric->offering);
    return offer;
}

void offer_use(struct fabric *fabric, int peer, int offer, const struct message *message)
{
    pthread_mutex_lock(&fabric->offering);
    struct offered *mine = &fabric->offered[peer][offer];
    if (message->sends)
        mine->pulled = message->number;
    else
        mine->pushed = message->number;
    pthread_mutex_unlock(&fabric->offering);
}

/* ---- Descriptors that go with offers ------------------------------------------------------------------------------- */

/* TUTTI_IN_PROGRESS: the link is not up yet. */
static tutti_result_t deliver(struct fabric *fabric, const struct parcel *parcel)
{
    struct link *link;
    lock_take(&fabric->team->engine->lock);
    tutti_result_t result = team_link(fabric->team, parcel->peer, &link);
    if (result == TUTTI_SUCCESS)
        result = link_share(link, parcel->key, parcel->fd);
    lock_release(&fabric->team->engine->lock);
    return result;
}

static void drop(struct parcel *parcel)
{
    list_remove(&parcel->node);
    close(parcel->fd);
    free(parcel);
}

/* One at a time: under the engine's lock a callback may want this fabric's. */
static struct parcel *next_parcel(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    struct parcel *parcel = list_empty(&fabric->parcels) ? NULL : list_entry(fabric->parcels.next, struct parcel, node);
    pthread_mutex_unlock(&fabric->lock);
    return parcel;
}

tutti_result_t offer_parcel(struct fabric *fabric, int peer, int fd, uint64_t key)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0 && keep_parcel(fabric, peer, copy, key))
        return TUTTI_SUCCESS;
    if (copy >= 0)
        close(copy);
    return error_set(TUTTI_SYSTEM_ERROR, "cannot keep a descriptor of device memory for rank %d", peer);
}

bool offer_deliver(struct fabric *fabric)
{
    for (struct parcel *parcel; (parcel = next_parcel(fabric));) {
        if (deliver(fabric, parcel) == TUTTI_IN_PROGRESS)
            return true;
        pthread_mutex_lock(&fabric->lock);
        drop(parcel); /* undeliverable ones too: the offer stays without an answer, and messages are staged */
        pthread_mutex_unlock(&fabric->lock);
    }
    return false;
}

void offer_close(struct fabric *fabric)
{
    while (!list_empty(&fabric->parcels))
        drop(list_entry(fabric->parcels.next, struct parcel, node));
}
