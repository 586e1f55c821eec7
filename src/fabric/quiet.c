/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabrics of this process, and times when no call of this process is under way on any of its GPUs. What graphs replay is not
 * seen: it needs no host.
 */
#include "fabric/internal.h"

static pthread_rwlock_t issuing = PTHREAD_RWLOCK_INITIALIZER; /* read: a call is being issued; written: nothing is under way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER; /* visitors */
static struct list fabrics = {&fabrics, &fabrics};

void quiet_join(struct fabric *fabric)
{
    pthread_mutex_lock(&lock);
    list_push(&fabrics, &fabric->quiet);
    pthread_mutex_unlock(&lock);
}

void quiet_leave(struct fabric *fabric)
{
    pthread_mutex_lock(&lock);
    list_remove(&fabric->quiet);
    while (fabric->visitors)
        pthread_cond_wait(&gone, &lock);
    pthread_mutex_unlock(&lock);
}

void quiet_disturb(void)
{
    pthread_rwlock_rdlock(&issuing);
}

void quiet_settle(void)
{
    pthread_rwlock_unlock(&issuing);
}

bool quiet_try(void)
{
    if (pthread_rwlock_trywrlock(&issuing) != 0)
        return false;
    bool quiet = true;
    pthread_mutex_lock(&lock);
    list_each (node, &fabrics)
        quiet = quiet && order_idle(list_entry(node, struct fabric, quiet));
    pthread_mutex_unlock(&lock);
    if (!quiet)
        pthread_rwlock_unlock(&issuing);
    return quiet;
}

void quiet_end(void)
{
    pthread_rwlock_unlock(&issuing);
}

struct quiet_view quiet_look(void)
{
    struct quiet_view view = {0};
    pthread_mutex_lock(&lock);
    list_each (node, &fabrics) {
        const struct fabric *fabric = list_entry(node, struct fabric, quiet);
        view.graphs |= atomic_load_explicit(&fabric->captured, memory_order_relaxed);
        view.devices |= 1ull << fabric->device->ordinal;
    }
    pthread_mutex_unlock(&lock);
    return view;
}

bool quiet_any(bool (*says)(struct fabric *fabric, const void *argument), const void *argument)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    list_each (node, &fabrics)
        any |= says(list_entry(node, struct fabric, quiet), argument);
    pthread_mutex_unlock(&lock);
    return any;
}

struct fabric *quiet_visit(const struct fabric *fabric, int rank)
{
    struct fabric *found = NULL;
    pthread_mutex_lock(&lock);
    list_each (node, &fabrics) {
        struct fabric *other = list_entry(node, struct fabric, quiet);
        if (other->board && other->rank == rank && other->team->id == fabric->team->id)
            found = other;
    }
    if (found)
        found->visitors++;
    pthread_mutex_unlock(&lock);
    return found;
}

void quiet_go(struct fabric *visited)
{
    pthread_mutex_lock(&lock);
    if (!--visited->visitors)
        pthread_cond_broadcast(&gone);
    pthread_mutex_unlock(&lock);
}
