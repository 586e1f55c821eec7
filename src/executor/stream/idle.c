/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executors of this process, and times when no call of this process is under way on any of its GPUs. What graphs
 * replay is not seen: it needs no host.
 */
#include "executor/stream/idle.h"

#include "device/cuda/device.h"
#include "executor/stream/base.h"
#include "executor/stream/ticket.h"

static pthread_rwlock_t issuing =
    PTHREAD_RWLOCK_INITIALIZER; /* read: a call is being issued; written: nothing is under way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list gpus = {&gpus, &gpus};

void idle_join(struct stream_base *base)
{
    pthread_mutex_lock(&lock);
    list_push(&gpus, &base->idle);
    pthread_mutex_unlock(&lock);
}

void idle_leave(struct stream_base *base)
{
    pthread_mutex_lock(&lock);
    list_remove(&base->idle);
    pthread_mutex_unlock(&lock);
}

void idle_disturb(void)
{
    pthread_rwlock_rdlock(&issuing);
}

void idle_settle(void)
{
    pthread_rwlock_unlock(&issuing);
}

bool idle_try(void)
{
    if (pthread_rwlock_trywrlock(&issuing) != 0)
        return false;
    bool idle = true;
    pthread_mutex_lock(&lock);
    list_each(node, &gpus) idle = idle && ticket_idle(list_entry(node, struct stream_base, idle));
    pthread_mutex_unlock(&lock);
    if (!idle)
        pthread_rwlock_unlock(&issuing);
    return idle;
}

void idle_end(void)
{
    pthread_rwlock_unlock(&issuing);
}

struct idle_view idle_look(void)
{
    struct idle_view view = {0};
    pthread_mutex_lock(&lock);
    list_each(node, &gpus)
    {
        const struct stream_base *base = list_entry(node, struct stream_base, idle);
        view.graphs |= atomic_load_explicit(&base->tickets.captured, memory_order_relaxed);
        view.devices |= 1ull << base->device->ordinal;
    }
    pthread_mutex_unlock(&lock);
    return view;
}
