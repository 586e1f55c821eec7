/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executors of this process, and times when no call of this process is under way on any of its GPUs. What graphs
 * replay is not seen: it needs no host.
 */
#include "executor/gpu/idle.h"

#include "device/cuda/device.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/ticket.h"

static pthread_rwlock_t issuing =
    PTHREAD_RWLOCK_INITIALIZER; /* read: a call is being issued; written: nothing is under way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list gpus = {&gpus, &gpus};

void idle_join(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    list_push(&gpus, &gpu->idle);
    pthread_mutex_unlock(&lock);
}

void idle_leave(struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    list_remove(&gpu->idle);
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
    list_each(node, &gpus) idle = idle && ticket_idle(list_entry(node, struct gpu, idle));
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
        const struct gpu *gpu = list_entry(node, struct gpu, idle);
        view.graphs |= atomic_load_explicit(&gpu->order.captured, memory_order_relaxed);
        view.devices |= 1ull << gpu->device->ordinal;
    }
    pthread_mutex_unlock(&lock);
    return view;
}
