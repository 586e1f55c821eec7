/* SPDX-License-Identifier: Apache-2.0 */
/* A list of the process, worked off in pauses. */
#include "executor/stream/later.h"

#include "device/cuda/device.h"
#include "executor/stream/base.h"
#include "executor/stream/idle.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t later_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all_later = {&all_later, &all_later};
static _Atomic int later_left; /* in the list */
static _Atomic bool
    missed; /* somebody found another one at it, who may have passed by what it leaves, and has no later call perhaps */

static void put_back(struct later *later)
{
    pthread_mutex_lock(&later_lock);
    list_push(&all_later, &later->node);
    atomic_fetch_add(&later_left, 1);
    pthread_mutex_unlock(&later_lock);
}

/* One of GPU `mine`, or of one that is not among `used`, of which something can be done; out of the list. */
static struct later *take_one(int mine, uint64_t used)
{
    struct later *found = NULL;
    pthread_mutex_lock(&later_lock);
    list_each_safe(node, &all_later)
    {
        struct later *later = list_entry(node, struct later, node);
        int device = later->device->ordinal;
        if (found || (later->may && !later->may(later)) || (device != mine && (used >> device & 1)))
            continue;
        list_remove(node);
        atomic_fetch_sub(&later_left, 1);
        found = later;
    }
    pthread_mutex_unlock(&later_lock);
    return found;
}

/* Not under the list's lock: what frees waits for all work of the context, the user's too. */
static void work_on(struct later *later)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* freeing spoils no capture */
    cuda_enter(later->device);
    later->cu->ThreadExchangeStreamCaptureMode(&mode);
    bool done = later->work(later);
    later->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    if (!done) {
        put_back(later);
        return;
    }
    cuda_device_release(later->device);
    free(later);
}

/*
 * Only where nothing is under way. Freeing waits for the streams of a GPU, in which the user's work and what graphs
 * replay are not seen. Where there are graphs, nobody frees what is left by another executor that lives. A thread that
 * closes does not either: an abort may wait for that thread, and a stream of the other GPU for the abort.
 */
static void work_off(int mine, bool closing)
{
    struct later *later;
    struct idle_view view = idle_look();
    while ((closing || !view.graphs) && (later = take_one(mine, closing || view.graphs ? view.devices : 0)))
        work_on(later);
}

static bool may_work(void)
{
    if (idle_try())
        return true;
    atomic_exchange(&missed, true);
    return idle_try();
}

static void sweep(int mine, bool closing)
{
    do {
        if (!atomic_load(&later_left) || !may_work())
            return;
        work_off(mine, closing);
        idle_end();
    } while (atomic_exchange(&missed, false));
}

void later_sweep(const struct stream_base *base)
{
    sweep(base->device->ordinal, false);
}

void later_sweep_device(int device)
{
    sweep(device, true);
}

bool later_leave(struct later *later, const struct stream_base *base)
{
    if (cuda_device_acquire(base->device->ordinal, &later->device) != TUTTI_SUCCESS)
        return false;
    later->cu = base->cu;
    put_back(later);
    sweep(base->device->ordinal, true);
    return true;
}

void later_each(void (*visit)(struct later *later))
{
    pthread_mutex_lock(&later_lock);
    list_each(node, &all_later) visit(list_entry(node, struct later, node));
    pthread_mutex_unlock(&later_lock);
}
