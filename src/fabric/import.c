/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers' buffers that are mapped here. Mapping may wait for all work of the context, and hold up whoever calls the driver
 * meanwhile; what is under way may need a peer's host, which may be held up in the same way. So it is done only while no call of
 * this process is under way, and nothing ever waits for it.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/log.h"
#include "link/link.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- Descriptors for peers ----------------------------------------------------------------------------------------- */

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

static bool deliver_all(struct fabric *fabric)
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

/* ---- Mapping ------------------------------------------------------------------------------------------------------- */

static struct board_offer *place_of(const struct fabric *fabric, int peer, int offer)
{
    return &fabric->board->offer[peer][fabric->rank][offer];
}

static bool is_answered(const struct board_offer *place)
{
    return atomic_load_explicit(&place->number, memory_order_acquire) == atomic_load_explicit(&place->answer, memory_order_relaxed) >> 1;
}

static bool any_unanswered(const struct fabric *fabric)
{
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (int i = 0; !fabric->here[peer] && i < BOARD_OFFERS; i++)
            if (!is_answered(place_of(fabric, peer, i)))
                return true;
    return false;
}

static void unmap(struct fabric *fabric, struct import *import)
{
    if (import->mapped)
        cuda_unimport(fabric->device, &import->handle, import->address);
    import->mapped = false;
}

static int take_descriptor(struct fabric *fabric, uint64_t key)
{
    lock_take(&fabric->team->engine->lock);
    int fd = engine_take_shared(fabric->team->engine, key);
    lock_release(&fabric->team->engine->lock);
    return fd;
}

/* False: its descriptor has not come. */
static bool answer(struct fabric *fabric, int peer, int offer)
{
    struct board_offer *place = place_of(fabric, peer, offer);
    struct import *import = &fabric->import[peer][offer];
    const struct cuda_handle *handle = &place->buffer.handle;
    uint32_t number = atomic_load_explicit(&place->number, memory_order_acquire);
    int fd = -1;
    unmap(fabric, import);
    if (handle->how == CUDA_BY_DESCRIPTOR && (fd = take_descriptor(fabric, place->key)) < 0)
        return false;
    import->handle = *handle;
    if (handle->how) {
        tutti_result_t result = cuda_import(fabric->device, handle, fd, &import->address);
        import->mapped = result == TUTTI_SUCCESS;
        log_info("%s %llu bytes of rank %d for copies by rank %d%s%s", import->mapped ? "mapped" : "cannot map",
                 (unsigned long long)handle->size, peer, fabric->rank, import->mapped ? "" : ": ", import->mapped ? "" : error_last());
    }
    if (fd >= 0)
        close(fd);
    atomic_store_explicit(&place->answer, number << 1 | import->mapped, memory_order_release);
    return true;
}

static bool answer_all(struct fabric *fabric)
{
    bool left = false;
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (int i = 0; !fabric->here[peer] && i < BOARD_OFFERS; i++)
            left |= !is_answered(place_of(fabric, peer, i)) && !answer(fabric, peer, i);
    return left;
}

bool import_look(struct fabric *fabric)
{
    bool left = false;
    if (any_unanswered(fabric)) {
        atomic_store_explicit(&fabric->unanswered, true, memory_order_relaxed);
        left = true;
        if (quiet_try()) {
            left = answer_all(fabric);
            quiet_end();
            atomic_store_explicit(&fabric->unanswered, left, memory_order_relaxed);
        }
    }
    return left;
}

bool import_deliver(struct fabric *fabric)
{
    return deliver_all(fabric);
}

void import_close(struct fabric *fabric)
{
    while (!list_empty(&fabric->parcels))
        drop(list_entry(fabric->parcels.next, struct parcel, node));
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (int i = 0; i < BOARD_OFFERS; i++)
            unmap(fabric, &fabric->import[peer][i]);
}
