/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are lost: taken out, broken, reset. A thread closes what there was and looks whether the device is
 * there again. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/revive.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PAUSE 100  /* ms until the first try */
#define MOST_PAUSE  3200 /* and between later ones, each of which waits twice as long as the one before */
#define NO_THREAD   1000 /* ms until it is tried again to start one */

/* ---- In the thread ---- */

static void bury(struct verbs_revival *revival)
{
    const struct verbs_library *library = revival->device->owner->library;
    int left = 0;
    for (int i = 0; i < revival->count; i++)
        left += library->dereg_mr(revival->regions[i]) != 0;
    if (left)
        log_warn("RDMA device %s: cannot take back %d pieces of registered memory", revival->device->name, left);
    free(revival->regions);
    revival->regions = NULL;
    revival->count = 0;
    verbs_close_parts(library, revival->device->name, &revival->old);
}

/* False: it is over. */
static bool rest(struct verbs_revival *revival, uint64_t ms)
{
    uint64_t until = clock_deadline_ms(ms);
    const struct timespec at = {(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
    int error = 0;
    pthread_mutex_lock(&revival->lock);
    while (!revival->ends && !error)
        error = pthread_cond_timedwait(&revival->changed, &revival->lock, &at);
    bool goes_on = !revival->ends;
    pthread_mutex_unlock(&revival->lock);
    return goes_on;
}

static bool is_device(const struct verbs_revival *revival, struct ibv_device *ibv)
{
    const char *name = revival->device->owner->library->get_device_name(ibv);
    size_t length = strcspn(revival->device->name, ":");
    return strlen(name) == length && memcmp(name, revival->device->name, length) == 0;
}

static bool open_again(struct verbs_revival *revival)
{
    const struct verbs_library *library = revival->device->owner->library;
    struct ibv_device **list = library->get_device_list(NULL);
    struct verbs_parts *fresh = &revival->fresh;
    for (int i = 0; list && list[i] && !fresh->context; i++)
        if (is_device(revival, list[i]))
            fresh->context = library->open_device(list[i]);
    if (list)
        library->free_device_list(list);
    if (!fresh->context)
        return false;
    if (verbs_make_parts(library, revival->device->name, fresh) == TUTTI_SUCCESS)
        return true;
    verbs_close_parts(library, revival->device->name, fresh);
    return false;
}

static void *revive_work(void *argument)
{
    struct verbs_revival *revival = argument;
    verbs_library_enter();
    bury(revival);
    verbs_library_leave();
    for (uint64_t pause = FIRST_PAUSE; rest(revival, pause); pause = pause < MOST_PAUSE ? 2 * pause : pause) {
        verbs_library_enter();
        bool open = open_again(revival);
        verbs_library_leave();
        if (open) {
            atomic_store(&revival->done, true);
            poller_wake(revival->device->owner->base.inner);
            break;
        }
    }
    return NULL;
}

/* ---- Under the owner's lock ---- */

static void revive_start(struct transport_timer *timer)
{
    struct verbs_revival *revival = container_of(timer, struct verbs_revival, start);
    if (thread_start(&revival->thread, "tutti-revival", revive_work, revival) != TUTTI_SUCCESS)
        transport_timer_set(&revival->device->owner->base, timer, NO_THREAD);
}

void verbs_revive(struct verbs_revival *revival, const struct verbs_parts *old)
{
    revival->old = *old;
    revival->count = verbs_take_regions(revival->device, &revival->regions);
    revive_start(&revival->start);
}

bool verbs_revival_take(struct verbs_revival *revival, struct verbs_parts *out)
{
    if (!atomic_load_explicit(&revival->done, memory_order_acquire))
        return false;
    thread_end(&revival->thread);
    atomic_store(&revival->done, false);
    *out = revival->fresh;
    revival->fresh = (struct verbs_parts){0};
    return true;
}

tutti_result_t verbs_revival_init(struct verbs_revival *revival, struct verbs_device *device)
{
    pthread_condattr_t how;
    *revival = (struct verbs_revival){.start.expired = revive_start};
    list_init(&revival->start.node);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    int error = pthread_cond_init(&revival->changed, &how);
    pthread_condattr_destroy(&how);
    if (!error && (error = pthread_mutex_init(&revival->lock, NULL)))
        pthread_cond_destroy(&revival->changed);
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot watch over RDMA device %s: %s", device->name, strerror(error));
    revival->device = device;
    return TUTTI_SUCCESS;
}

void verbs_revival_fini(struct verbs_revival *revival)
{
    if (!revival->device)
        return;
    transport_timer_clear(&revival->device->owner->base, &revival->start);
    pthread_mutex_lock(&revival->lock);
    revival->ends = true;
    pthread_cond_signal(&revival->changed);
    pthread_mutex_unlock(&revival->lock);
    thread_end(&revival->thread);
    bury(revival); /* where no thread did */
    verbs_close_parts(revival->device->owner->library, revival->device->name, &revival->fresh);
    pthread_cond_destroy(&revival->changed);
    pthread_mutex_destroy(&revival->lock);
    revival->device = NULL;
}
