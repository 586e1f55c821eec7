/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a closed executor leaves. A rank may be done with its executor while a peer's last kernel still tells it
 * something, so memory is freed only when every peer has closed, and at a quiet time; until then it waits in a list of
 * the process.
 */
#include "executor/gpu/leave.h"

#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/idle.h"
#include "executor/gpu/imported.h"
#include "executor/gpu/mailbox.h"
#include "executor/staged/staged.h"

#include <stdlib.h>

/*
 * What a closed executor leaves: peers' memory, to be unmapped when nothing is under way, and then its own, to be freed
 * when all peers have unmapped that. mailbox NULL: there was none.
 */
struct deferred {
    struct list node;
    struct list imports;
    struct mailbox *mailbox;
    void *pinned[STAGED_PINNED];
    int rank, nranks;
    struct cuda_device *device;
    const struct cuda_driver *cu;
    CUdeviceptr window, bulk, stand_in, sealed;
    bool registered, in_host;
};

static pthread_mutex_t deferred_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all_deferred = {&all_deferred, &all_deferred};
static _Atomic int deferred_left; /* in the list */

static bool all_unmapped(const struct deferred *old)
{
    for (int rank = 0; rank < old->nranks; rank++)
        if (rank != old->rank && !atomic_load(&old->mailbox->rank[rank].unmapped))
            return false;
    return true;
}

static void put_back(struct deferred *old)
{
    pthread_mutex_lock(&deferred_lock);
    list_push(&all_deferred, &old->node);
    atomic_fetch_add(&deferred_left, 1);
    pthread_mutex_unlock(&deferred_lock);
}

/* As reap(). */
static void unmap(struct deferred *old)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda_enter(old->device);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    for (struct list *node; (node = list_pop(&old->imports));)
        imported_unmap(old->device, old->rank, list_entry(node, struct import, node));
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    if (old->mailbox)
        atomic_store(&old->mailbox->rank[old->rank].unmapped, 1);
}

/* Not under the list's lock: each of these calls waits for all work of the context, the user's too. */
static void reap(struct deferred *old)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* freeing spoils no capture */
    cuda_enter(old->device);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    const CUdeviceptr all[] = {old->bulk, old->stand_in, old->window, old->sealed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_memory_free(old->device, all[i]);
    if (old->in_host)
        old->cu->MemHostUnregister((char *)old->mailbox + mailbox_window(old->nranks, 0));
    if (old->registered)
        old->cu->MemHostUnregister(old->mailbox);
    for (int i = 0; i < STAGED_PINNED; i++)
        if (old->pinned[i])
            old->cu->MemFreeHost(old->pinned[i]);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    if (old->mailbox)
        mailbox_unmap(old->mailbox, old->nranks);
    cuda_device_release(old->device);
    free(old);
}

static bool is_unmapped(const struct deferred *old)
{
    return !old->mailbox || atomic_load(&old->mailbox->rank[old->rank].unmapped);
}

/* One of GPU `mine`, or of one that is not among `used`, of which something can be done; out of the list. */
static struct deferred *take_dead(int mine, uint64_t used)
{
    struct deferred *found = NULL;
    pthread_mutex_lock(&deferred_lock);
    list_each_safe(node, &all_deferred)
    {
        struct deferred *old = list_entry(node, struct deferred, node);
        int device = old->device->ordinal;
        if (found || (is_unmapped(old) && !all_unmapped(old)) || (device != mine && (used >> device & 1)))
            continue;
        list_remove(node);
        atomic_fetch_sub(&deferred_left, 1);
        found = old;
    }
    pthread_mutex_unlock(&deferred_lock);
    return found;
}

/* Only where nothing is under way. What graphs replay is not seen: where there are any, nobody frees what is another
 * rank's to free. */
static void reap_dead(int mine, bool closing)
{
    struct deferred *old;
    struct idle_view view = idle_look();
    while ((closing || !view.graphs) && (old = take_dead(mine, view.graphs ? view.devices : 0))) {
        if (!is_unmapped(old))
            unmap(old);
        if (all_unmapped(old))
            reap(old);
        else
            put_back(old);
    }
}

static _Atomic bool
    missed; /* somebody found another one at it, who may have passed by what it leaves, and has no later call perhaps */

static bool may_reap(void)
{
    if (idle_try())
        return true;
    atomic_exchange(&missed, true);
    return idle_try();
}

/*
 * Freeing waits for all work of the GPU, which may wait for a peer's, and that for this very thread. So it is done when
 * nothing is under way, and nothing begins meanwhile.
 */
static void sweep(int mine, bool closing)
{
    do {
        if (!atomic_load(&deferred_left) || !may_reap())
            return;
        reap_dead(mine, closing);
        idle_end();
    } while (atomic_exchange(&missed, false));
}

void leave_sweep(struct gpu *gpu)
{
    sweep(gpu->device->ordinal, false);
}

static void give_back(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, bool imported,
                      const unsigned char *address)
{
    if (imported)
        imported_put_off(gpu, peer, &theirs->handle, device_address(address) - (theirs->address - theirs->base));
}

void leave_give_back_windows(struct gpu *gpu)
{
    for (int rank = 0; rank < gpu->nranks; rank++) {
        give_back(gpu, rank, &gpu->scratch.windows[rank], gpu->scratch.window_imported[rank],
                  gpu->kernels.window[rank]);
        gpu->scratch.window_imported[rank] = false;
    }
}

/* Until it can be freed. */
static void leave(struct gpu *gpu, const struct deferred *what)
{
    struct cuda_device *device;
    struct deferred *old = malloc(sizeof *old);
    if (!old || cuda_device_acquire(gpu->device->ordinal, &device) != TUTTI_SUCCESS) {
        free(old); /* the process keeps that memory to its end */
        return;
    }
    *old = *what;
    list_init(&old->imports);
    if (old->mailbox)
        imported_take_all(gpu, &old->imports);
    old->device = device;
    old->cu = gpu->cu;
    put_back(old);
    sweep(gpu->device->ordinal, true);
}

/* Peers may write to it until they close. */
static void leave_windows(struct gpu *gpu)
{
    leave_give_back_windows(gpu);
    for (int rank = 0; rank < gpu->nranks; rank++)
        give_back(gpu, rank, &gpu->scratch.bulks[rank], gpu->scratch.bulk_imported[rank], gpu->kernels.bulk[rank]);
    /* A peer that is gone does not write any more. One that lives may, until it closes, also when all have failed. */
    uint32_t open = 0;
    atomic_store(&gpu->mailbox->rank[gpu->rank].closed, 1);
    mailbox_ring_others(gpu->mailbox, gpu->nranks, gpu->rank);
    for (int rank = 0; rank < gpu->nranks; rank++, open = 0)
        if (atomic_load(&gpu->team->gone[rank]) || atomic_load(&gpu->mailbox->rank[rank].gone)) {
            atomic_compare_exchange_strong(&gpu->mailbox->rank[rank].closed, &open, MAILBOX_REAPED);
            atomic_store(&gpu->mailbox->rank[rank].unmapped, 1);
        }
    const struct deferred left = {.mailbox = gpu->mailbox,
                                  .rank = gpu->rank,
                                  .nranks = gpu->nranks,
                                  .window = gpu->scratch.window,
                                  .bulk = gpu->scratch.bulk,
                                  .stand_in = gpu->scratch.stand_in,
                                  .sealed = gpu->scratch.sealed,
                                  .registered = gpu->mailbox_registered,
                                  .in_host = gpu->plan.facts.in_host};
    leave(gpu, &left);
}

void leave_exit(void)
{
    pthread_mutex_lock(&deferred_lock);
    list_each(node, &all_deferred)
    {
        struct deferred *old = list_entry(node, struct deferred, node);
        if (old->mailbox)
            atomic_store(&old->mailbox->rank[old->rank].unmapped, 1);
    }
    pthread_mutex_unlock(&deferred_lock);
}

void leave_close(struct gpu *gpu, void *const pinned[STAGED_PINNED])
{
    struct deferred left = {.rank = gpu->rank};
    bool any = false;
    for (int i = 0; i < STAGED_PINNED; i++) {
        left.pinned[i] = pinned[i];
        any = any || pinned[i];
    }
    if (gpu->mailbox)
        leave_windows(gpu);
    if (any)
        leave(gpu, &left);
}
