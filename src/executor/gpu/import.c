/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers' buffers that are mapped here, by a thread for each GPU that does nothing else: the driver may hold it up
 * behind some other thread's call that waits for all work, and nothing may wait for it then. Mapping waits for no work
 * and is done at any time. Closing an IPC handle does, and what is under way may need a peer's host, which may be held
 * up in the same way: it is put off until no call of this process is under way.
 */
#include "executor/gpu/import.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/here.h"
#include "executor/gpu/imported.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/patience.h"
#include "executor/gpu/scratch.h"
#include "executor/gpu/tell.h"
#include "executor/stream/idle.h"

#include <stdlib.h>
#include <unistd.h>

/* Time between looks for memory that this process has freed and peers map; a pause may be waited for as much again. */
#define FREED_US  400000
#define ANSWER_MS 10000 /* a descriptor may never come */
#define ANSWER_US 50
#define LOOK_US   1000 /* between looks for a descriptor that is under way, or for a quiet time; more and more */
#define IDLE_US   (60u * 1000 * 1000)

static const char importer_name[] = "tutti-importer"; /* the thread: one a GPU of the process */

/* ---- Closing ---- */

static void close_one(struct gpu *gpu, struct import *import)
{
    if (import->offer != IMPORT_NO_OFFER)
        tell_no_more(gpu, import->peer, import->offer, import->number);
    imported_unmap(gpu->base.device, gpu->rank, import);
}

/* Imports that kernels may still store to stay. Returns whether there are any. */
static bool close_all_old(struct gpu *gpu)
{
    struct list busy;
    list_init(&busy);
    for (struct import *import; (import = imported_next_old(gpu));)
        if (tell_is_over(gpu, import))
            close_one(gpu, import);
        else
            list_push(&busy, &import->node);
    bool any = !list_empty(&busy);
    pthread_mutex_lock(&gpu->offers.lock);
    for (struct list *node; (node = list_pop(&busy));)
        imported_make_old(gpu, list_entry(node, struct import, node));
    pthread_mutex_unlock(&gpu->offers.lock);
    return any;
}

bool import_close_old(struct gpu *gpu)
{
    if (!atomic_load_explicit(&gpu->offers.any_old, memory_order_relaxed))
        return false;
    if (!idle_try())
        return true;
    bool left = close_all_old(gpu);
    idle_end();
    return left;
}

/* ---- Mapping ---- */

static struct mailbox_offer *gpu_import_place_of(const struct gpu *gpu, int peer, int offer)
{
    return &gpu->offers.place[peer][gpu->rank][offer];
}

static int gpu_import_places_used(const struct gpu *gpu, int peer)
{
    return (int)atomic_load_explicit(&gpu->offers.places[peer][gpu->rank], memory_order_acquire);
}

static bool gpu_import_is_answered(const struct mailbox_offer *place)
{
    return atomic_load_explicit(&place->number, memory_order_acquire) ==
           atomic_load_explicit(&place->answer, memory_order_relaxed) >> 1;
}

/* What the place held before: its owner uses it in no message any more. Unmapping a descriptor waits for no work: it
 * waits for a pause if kernels knew of it. */
static void replace(struct gpu *gpu, int peer, int offer)
{
    tell_no_more(gpu, peer, offer, 0);
    pthread_mutex_lock(&gpu->offers.lock);
    struct import *import = atomic_exchange(&gpu->offers.import[peer][offer], NULL);
    bool now = import && import->handle.how == CUDA_BY_DESCRIPTOR && !import->told;
    if (import && !now)
        imported_make_old(gpu, import);
    pthread_mutex_unlock(&gpu->offers.lock);
    if (now)
        close_one(gpu, import);
}

static void replace_all(struct gpu *gpu)
{
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (int i = 0; !gpu->here[peer] && i < gpu_import_places_used(gpu, peer); i++)
            if (!gpu_import_is_answered(gpu_import_place_of(gpu, peer, i)))
                replace(gpu, peer, i);
}

static int gpu_import_take_descriptor(struct gpu *gpu, uint64_t key)
{
    lock_take(&gpu->base.team->engine->lock);
    int fd = engine_take_shared(gpu->base.team->engine, key);
    lock_release(&gpu->base.team->engine->lock);
    return fd;
}

static tutti_result_t gpu_import_map(struct gpu *gpu, int peer, int offer, uint32_t number,
                                     const struct cuda_handle *handle, int fd, struct import **out)
{
    struct import *import = malloc(sizeof *import);
    if (!import)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a mapping of a peer's buffer");
    *import = (struct import){.peer = peer, .offer = offer, .number = number, .handle = *handle};
    tutti_result_t result = cuda_import(gpu->base.device, handle, fd, &import->address);
    if (result == TUTTI_SUCCESS)
        *out = import;
    else
        free(import);
    return result;
}

/* An import of memory that its owner has freed: `handle` is of what is there now. */
static bool is_stale(const struct import *import, const struct cuda_handle *handle)
{
    const struct cuda_handle *old = &import->handle;
    return old->how == CUDA_BY_IPC && old->process && old->process == handle->process && old->base == handle->base &&
           old->id != handle->id && old->serial < handle->serial;
}

/*
 * No message uses a buffer that its owner has freed: work that did is over. So the import is old here, too. Returns
 * whether something is open that is to be closed.
 */
static bool retire_stale(struct gpu *gpu, const void *handle)
{
    bool any = false;
    pthread_mutex_lock(&gpu->offers.lock);
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (int i = 0; i < gpu_import_places_used(gpu, peer); i++) {
            struct import *import = atomic_load_explicit(&gpu->offers.import[peer][i], memory_order_acquire);
            if (!import || !is_stale(import, handle))
                continue;
            atomic_store(&gpu->offers.import[peer][i], NULL);
            imported_make_old(gpu, import);
            any = true;
        }
    if (any)
        mailbox_ring(&gpu->ranks[gpu->rank]); /* its importer looks for a time to close it */
    any = atomic_load_explicit(&gpu->offers.any_old, memory_order_relaxed);
    pthread_mutex_unlock(&gpu->offers.lock);
    return any;
}

/*
 * A driver may refuse a handle while what it had at that address before is still open: its owner withdraws that first,
 * but in no other communicator that has it open. `open`: something was, before the driver was asked.
 */
static bool may_become_mapped(struct gpu *gpu, const struct cuda_handle *handle, bool open)
{
    replace_all(gpu);
    return handle->how == CUDA_BY_IPC && (open || atomic_load_explicit(&gpu->offers.any_old, memory_order_relaxed));
}

/* False: to be tried again. */
static bool gpu_import_answer(struct gpu *gpu, int peer, int offer)
{
    struct mailbox_offer *place = gpu_import_place_of(gpu, peer, offer);
    uint32_t number = atomic_load_explicit(&place->number, memory_order_acquire);
    const struct cuda_handle handle = place->buffer.handle;
    struct import *import = NULL;
    tutti_result_t result = TUTTI_SUCCESS;
    int fd = SHARED_NOT_YET;
    replace(gpu, peer, offer);
    if (handle.how == CUDA_BY_DESCRIPTOR && (fd = gpu_import_take_descriptor(gpu, place->key)) == SHARED_NOT_YET)
        return false;
    bool open = handle.how == CUDA_BY_IPC && here_any(retire_stale, &handle);
    if (fd == SHARED_NO_ROOM)
        result = error_set(TUTTI_SYSTEM_ERROR, "no descriptor is free; raise ulimit -n");
    else if (handle.how)
        result = gpu_import_map(gpu, peer, offer, number, &handle, fd, &import);
    if (fd >= 0)
        close(fd);
    if (result != TUTTI_SUCCESS && fd != SHARED_NO_ROOM && may_become_mapped(gpu, &handle, open)) {
        log_trace("cannot map %llu bytes of rank %d yet: %s", (unsigned long long)handle.size, peer, error_last());
        return false;
    }
    atomic_store_explicit(&gpu->offers.import[peer][offer], import, memory_order_release);
    atomic_store_explicit(&place->answer, number << 1 | (import != NULL), memory_order_release);
    if (handle.how)
        log_info("%s %llu bytes of rank %d for copies by rank %d%s%s", import ? "mapped" : "cannot map",
                 (unsigned long long)handle.size, peer, gpu->rank, import ? "" : ": ", import ? "" : error_last());
    return true;
}

/* Returns whether something is left to do. */
static bool answer_all(struct gpu *gpu)
{
    bool left = false;
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (int i = 0; !gpu->here[peer] && i < gpu_import_places_used(gpu, peer); i++) {
            left |= !gpu_import_is_answered(gpu_import_place_of(gpu, peer, i)) && !gpu_import_answer(gpu, peer, i);
            tell_mapping(gpu, peer, i);
        }
    return left;
}

tutti_result_t import_wait(struct gpu *gpu, int peer, uint32_t offer, CUdeviceptr *out)
{
    const struct mailbox_offer *place = gpu_import_place_of(gpu, peer, (int)offer);
    uint64_t deadline = clock_deadline_ms(ANSWER_MS);
    tutti_result_t result = TUTTI_SUCCESS;
    patience_begin(gpu, peer);
    while (result == TUTTI_SUCCESS && !gpu_import_is_answered(place) && !clock_passed(deadline)) {
        usleep(ANSWER_US);
        result = gpu_failure(gpu);
    }
    patience_end(gpu, peer);
    *out = result == TUTTI_SUCCESS && gpu_import_is_answered(place) ? imported_address(gpu, peer, offer) : 0;
    return result;
}

/* ---- The thread ---- */

static uint64_t import_look(void *context)
{
    struct gpu *gpu = context;
    struct gpu_importer *importer = &gpu->importer;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* mapping spoils no capture of another thread */
    cuda_enter(gpu->base.device);
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    scratch_answer(gpu);
    bool failed = atomic_load(&gpu->base.team->failed), unanswered = !failed && answer_all(gpu);
    bool left = !failed && (import_close_old(gpu) || unanswered);
    importer->pause = !left ? LOOK_US : importer->pause < 50 * LOOK_US ? importer->pause * 2 : importer->pause;
    bool offers = !failed && offer_withdraw_freed(gpu);
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    return left ? importer->pause : offers ? FREED_US : IDLE_US;
}

tutti_result_t import_start(struct gpu *gpu)
{
    gpu->importer.pause = LOOK_US;
    gpu->importer.attended =
        (struct attended){.bell = &gpu->ranks[gpu->rank].bell, .look = import_look, .context = gpu};
    return attend_begin(&gpu->importer.attended, importer_name, (uint64_t)gpu->base.device->ordinal);
}

void import_stop(struct gpu *gpu)
{
    attend_end(&gpu->importer.attended);
}
