/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers' buffers that are mapped here, by a thread that does nothing else: the driver may hold it up behind some other thread's call that
 * waits for all work, and nothing may wait for it then. Mapping waits for no work and is done at any time. Closing an IPC handle does, and
 * what is under way may need a peer's host, which may be held up in the same way: it is put off until no call of this process is under way.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FREED_US 400000 /* between looks for memory that this process has freed and peers map; it may wait for a pause as long again */
#define LOOK_US 1000 /* between looks for a descriptor that is under way, or for a quiet time; more and more */

/* ---- Closing ------------------------------------------------------------------------------------------------------- */

static void close_one(struct fabric *fabric, struct import *import)
{
    cuda_unimport(fabric->device, &import->handle, import->address);
    log_info("unmapped %llu bytes of rank %d in rank %d", (unsigned long long)import->handle.size, import->peer, fabric->rank);
    free(import);
}

static struct import *next_old(struct fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    struct list *node = list_pop(&fabric->old);
    if (!node)
        atomic_store_explicit(&fabric->any_old, false, memory_order_relaxed);
    pthread_mutex_unlock(&fabric->lock);
    return node ? list_entry(node, struct import, node) : NULL;
}

static void close_all_old(struct fabric *fabric)
{
    for (struct import *import; (import = next_old(fabric));)
        close_one(fabric, import);
}

bool import_close_old(struct fabric *fabric)
{
    if (!atomic_load_explicit(&fabric->any_old, memory_order_relaxed))
        return false;
    if (!quiet_try())
        return true;
    close_all_old(fabric);
    quiet_end();
    return false;
}

/* Under the fabric's lock: from here on it is to be closed, and in no message. */
static void make_old(struct fabric *fabric, struct import *import)
{
    list_push(&fabric->old, &import->node);
    atomic_store_explicit(&fabric->any_old, true, memory_order_relaxed);
}

/* ---- Mapping ------------------------------------------------------------------------------------------------------- */

static struct board_offer *place_of(const struct fabric *fabric, int peer, int offer)
{
    return &fabric->board->offer[peer][fabric->rank][offer];
}

static int places_used(const struct fabric *fabric, int peer)
{
    return (int)atomic_load_explicit(&fabric->board->offers[peer][fabric->rank], memory_order_acquire);
}

static bool is_answered(const struct board_offer *place)
{
    return atomic_load_explicit(&place->number, memory_order_acquire) == atomic_load_explicit(&place->answer, memory_order_relaxed) >> 1;
}

/* What the place held before: its owner uses it in no message any more. Unmapping a descriptor waits for no work. */
static void replace(struct fabric *fabric, int peer, int offer)
{
    pthread_mutex_lock(&fabric->lock);
    struct import *import = atomic_exchange(&fabric->import[peer][offer], NULL);
    bool now = import && import->handle.how == CUDA_BY_DESCRIPTOR;
    if (import && !now)
        make_old(fabric, import);
    pthread_mutex_unlock(&fabric->lock);
    if (now)
        close_one(fabric, import);
}

static void replace_all(struct fabric *fabric)
{
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (int i = 0; !fabric->here[peer] && i < places_used(fabric, peer); i++)
            if (!is_answered(place_of(fabric, peer, i)))
                replace(fabric, peer, i);
}

static int take_descriptor(struct fabric *fabric, uint64_t key)
{
    lock_take(&fabric->team->engine->lock);
    int fd = engine_take_shared(fabric->team->engine, key);
    lock_release(&fabric->team->engine->lock);
    return fd;
}

static tutti_result_t map(struct fabric *fabric, int peer, const struct cuda_handle *handle, int fd, struct import **out)
{
    struct import *import = malloc(sizeof *import);
    if (!import)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a mapping of a peer's buffer");
    *import = (struct import){.peer = peer, .handle = *handle};
    tutti_result_t result = cuda_import(fabric->device, handle, fd, &import->address);
    if (result == TUTTI_SUCCESS)
        *out = import;
    else
        free(import);
    return result;
}

/* Of memory that its owner has freed: `handle` is of what is there now. */
static bool is_stale(const struct import *import, const struct cuda_handle *handle)
{
    const struct cuda_handle *old = &import->handle;
    return old->how == CUDA_BY_IPC && old->process && old->process == handle->process && old->base == handle->base && old->id != handle->id &&
           old->serial < handle->serial;
}

/*
 * No message uses such a one any more: work that did is over, or its owner could not have freed it. It is old here, too. Returns whether
 * something is open that is to be closed.
 */
static bool retire_stale(struct fabric *fabric, const void *handle)
{
    bool any = false;
    pthread_mutex_lock(&fabric->lock);
    for (int peer = 0; fabric->board && peer < fabric->nranks; peer++)
        for (int i = 0; i < places_used(fabric, peer); i++) {
            struct import *import = atomic_load_explicit(&fabric->import[peer][i], memory_order_acquire);
            if (!import || !is_stale(import, handle))
                continue;
            atomic_store(&fabric->import[peer][i], NULL);
            make_old(fabric, import);
            any = true;
        }
    if (any)
        board_ring(fabric->board, fabric->rank); /* its importer looks for a time to close it */
    any = atomic_load_explicit(&fabric->any_old, memory_order_relaxed);
    pthread_mutex_unlock(&fabric->lock);
    return any;
}

/*
 * A driver may refuse a handle while what it had at that address before is still open: its owner withdraws that first, but in no other
 * communicator that has it open. `open`: something was, before the driver was asked.
 */
static bool may_become_mapped(struct fabric *fabric, const struct cuda_handle *handle, bool open)
{
    replace_all(fabric);
    return handle->how == CUDA_BY_IPC && (open || atomic_load_explicit(&fabric->any_old, memory_order_relaxed));
}

/* False: to be tried again. */
static bool answer(struct fabric *fabric, int peer, int offer)
{
    struct board_offer *place = place_of(fabric, peer, offer);
    uint32_t number = atomic_load_explicit(&place->number, memory_order_acquire);
    const struct cuda_handle handle = place->buffer.handle;
    struct import *import = NULL;
    tutti_result_t result = TUTTI_SUCCESS;
    int fd = -1;
    replace(fabric, peer, offer);
    if (handle.how == CUDA_BY_DESCRIPTOR && (fd = take_descriptor(fabric, place->key)) < 0)
        return false;
    bool open = handle.how == CUDA_BY_IPC && quiet_any(retire_stale, &handle);
    if (handle.how)
        result = map(fabric, peer, &handle, fd, &import);
    if (fd >= 0)
        close(fd);
    if (result != TUTTI_SUCCESS && may_become_mapped(fabric, &handle, open)) {
        log_trace("cannot map %llu bytes of rank %d yet: %s", (unsigned long long)handle.size, peer, error_last());
        return false;
    }
    atomic_store_explicit(&fabric->import[peer][offer], import, memory_order_release);
    atomic_store_explicit(&place->answer, number << 1 | (import != NULL), memory_order_release);
    if (handle.how)
        log_info("%s %llu bytes of rank %d for copies by rank %d%s%s", import ? "mapped" : "cannot map", (unsigned long long)handle.size, peer,
                 fabric->rank, import ? "" : ": ", import ? "" : error_last());
    return true;
}

/* Returns whether something is left to do. */
static bool answer_all(struct fabric *fabric)
{
    bool left = false;
    for (int peer = 0; peer < fabric->nranks; peer++)
        for (int i = 0; !fabric->here[peer] && i < places_used(fabric, peer); i++)
            left |= !is_answered(place_of(fabric, peer, i)) && !answer(fabric, peer, i);
    return left;
}

CUdeviceptr import_address(const struct fabric *fabric, int peer, uint32_t offer)
{
    const struct import *import = offer < BOARD_OFFERS ? atomic_load_explicit(&fabric->import[peer][offer], memory_order_acquire) : NULL;
    return import ? import->address : 0;
}

/* ---- The thread ---------------------------------------------------------------------------------------------------- */

static void *work(void *argument)
{
    struct fabric *fabric = argument;
    _Atomic uint32_t *bell = &fabric->board->rank[fabric->rank].bell;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* mapping spoils no capture of another thread */
    uint64_t pause = LOOK_US;
    cuda_enter(fabric->device);
    fabric->cu->ThreadExchangeStreamCaptureMode(&mode);
    for (;;) {
        uint32_t news = atomic_load(bell);
        if (atomic_load(&fabric->importer_stops)) /* looked at behind the bell, so that no sleep misses it */
            break;
        bool failed = atomic_load(&fabric->team->failed), unanswered = !failed && answer_all(fabric);
        bool left = !failed && (import_close_old(fabric) || unanswered);
        pause = !left ? LOOK_US : pause < 50 * LOOK_US ? pause * 2 : pause;
        bool offers = !failed && offer_withdraw_freed(fabric);
        futex_wait(bell, news, left ? pause : offers ? FREED_US : 60u * 1000 * 1000);
    }
    cuda_leave();
    return NULL;
}

static bool is_needed(const struct fabric *fabric)
{
    bool all_here = true;
    for (int rank = 0; rank < fabric->nranks; rank++)
        all_here = all_here && fabric->here[rank];
    return fabric->copies && !all_here;
}

tutti_result_t import_start(struct fabric *fabric)
{
    int error = is_needed(fabric) ? pthread_create(&fabric->importer, NULL, work, fabric) : 0;
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot start a thread: %s", strerror(error));
    fabric->importer_runs = is_needed(fabric);
    return TUTTI_SUCCESS;
}

void import_stop(struct fabric *fabric)
{
    if (!fabric->importer_runs)
        return;
    atomic_store(&fabric->importer_stops, true);
    board_ring(fabric->board, fabric->rank);
    pthread_join(fabric->importer, NULL);
    fabric->importer_runs = false;
}

void import_close(struct fabric *fabric)
{
    close_all_old(fabric);
    for (int peer = 0; fabric->board && peer < fabric->nranks; peer++)
        for (int i = 0; i < BOARD_OFFERS; i++) {
            struct import *import = atomic_exchange(&fabric->import[peer][i], NULL);
            if (import)
                close_one(fabric, import);
        }
}
