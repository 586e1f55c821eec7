/* SPDX-License-Identifier: Apache-2.0 */
/* One epoll instance. An entry's number goes through epoll with a count of its uses, so that an event of a descriptor
 * that has gone meanwhile reaches nobody. */
#include "rdmacm/watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct cm_watched {
    int fd; /* -1: free */
    uint32_t uses;
    watch_fn ready;
    void *arg;
};

static struct {
    pthread_mutex_t lock;
    bool running;
    int epoll, wake;
    struct cm_watched *table;
    int size;
    unsigned forks;
    struct list timers;
    void (*look)(void);
    _Atomic bool wanted; /* a look */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1, .wake = -1, .timers = {&watch.timers, &watch.timers}};

static _Thread_local bool locked;

void cm_lock(void)
{
    pthread_mutex_lock(&watch.lock);
    locked = true;
}

void cm_unlock(void)
{
    locked = false;
    pthread_mutex_unlock(&watch.lock);
}

bool cm_locked(void)
{
    return locked;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct list *expired(uint64_t now)
{
    list_each(node, &watch.timers)
    {
        if (list_entry(node, struct cm_timer, node)->deadline_ms <= now)
            return node;
    }
    return NULL;
}

/* Rings what is due; how long the next one has, in milliseconds, or -1. */
static int ring_timers(void)
{
    uint64_t now = now_ms(), next = UINT64_MAX;
    struct list *node;
    while ((node = expired(now))) {
        struct cm_timer *timer = list_entry(node, struct cm_timer, node);
        list_remove(node);
        timer->ring(timer);
    }
    list_each(each, &watch.timers)
    {
        uint64_t deadline = list_entry(each, struct cm_timer, node)->deadline_ms;
        next = deadline < next ? deadline : next;
    }
    return next == UINT64_MAX ? -1 : (int)(next - now);
}

/* One descriptor at a time: what its function does may end the others. */
static void *run(void *arg)
{
    struct epoll_event event;
    for (;;) {
        cm_lock();
        int wait = ring_timers();
        cm_unlock();
        if (epoll_wait(watch.epoll, &event, 1, wait) != 1)
            continue;
        int entry = (int)(event.data.u64 & UINT32_MAX);
        cm_lock();
        struct cm_watched *watched = entry < watch.size ? &watch.table[entry] : NULL;
        if (watched && watched->fd >= 0 && watched->uses == event.data.u64 >> 32)
            watched->ready(watched->arg, event.events);
        cm_unlock();
    }
    return NULL;
}

static void woken(void *arg, uint32_t events)
{
    uint64_t count;
    if (read(watch.wake, &count, sizeof(count)) < 0)
        return;
    if (atomic_exchange(&watch.wanted, false))
        watch.look();
}

void watch_look(void)
{
    uint64_t one = 1;
    atomic_store(&watch.wanted, true);
    if (watch.wake >= 0 && write(watch.wake, &one, sizeof(one)) < 0)
        return; /* full: the thread wakes anyway */
}

void watch_on_look(void (*look)(void))
{
    watch.look = look;
}

/* The thread's code must stay when the program unloads what has loaded the library. */
static void stay(void)
{
    Dl_info info;
    if (dladdr((void *)stay, &info))
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static int start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&thread, &attr, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

static void close_both(void)
{
    if (watch.epoll >= 0)
        close(watch.epoll);
    if (watch.wake >= 0)
        close(watch.wake);
    watch.epoll = watch.wake = -1;
}

int watch_start(void)
{
    if (watch.running)
        return 0;
    watch.epoll = epoll_create1(EPOLL_CLOEXEC);
    watch.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int entry = watch.epoll >= 0 && watch.wake >= 0 ? watch_add(watch.wake, EPOLLIN, woken, NULL) : -1;
    int err = entry < 0 ? errno : start_thread();
    if (err) {
        if (entry >= 0)
            watch_remove(entry);
        close_both();
        return err;
    }
    watch.running = true;
    stay();
    return 0;
}

static int free_entry(void)
{
    for (int i = 0; i < watch.size; i++)
        if (watch.table[i].fd < 0)
            return i;
    int size = watch.size ? watch.size * 2 : 64;
    struct cm_watched *table = realloc(watch.table, (size_t)size * sizeof(*table));
    if (!table)
        return -1;
    for (int i = watch.size; i < size; i++)
        table[i] = (struct cm_watched){.fd = -1};
    int entry = watch.size;
    watch.table = table;
    watch.size = size;
    return entry;
}

static struct epoll_event event_of(int entry, uint32_t events)
{
    return (struct epoll_event){events, {.u64 = (uint64_t)watch.table[entry].uses << 32 | (uint32_t)entry}};
}

int watch_add(int fd, uint32_t events, watch_fn ready, void *arg)
{
    int entry = free_entry();
    if (entry < 0)
        return -1;
    watch.table[entry] = (struct cm_watched){fd, watch.table[entry].uses + 1, ready, arg};
    struct epoll_event event = event_of(entry, events);
    if (!epoll_ctl(watch.epoll, EPOLL_CTL_ADD, fd, &event))
        return entry;
    watch.table[entry].fd = -1;
    return -1;
}

void watch_change(int entry, uint32_t events)
{
    struct epoll_event event = event_of(entry, events);
    epoll_ctl(watch.epoll, EPOLL_CTL_MOD, watch.table[entry].fd, &event);
}

void watch_remove(int entry)
{
    epoll_ctl(watch.epoll, EPOLL_CTL_DEL, watch.table[entry].fd, NULL);
    watch.table[entry].fd = -1;
}

void cm_timer_init(struct cm_timer *timer, void (*ring)(struct cm_timer *timer))
{
    list_init(&timer->node);
    timer->ring = ring;
}

void cm_timer_set(struct cm_timer *timer, unsigned ms)
{
    uint64_t one = 1;
    list_remove(&timer->node);
    timer->deadline_ms = now_ms() + ms;
    list_push(&watch.timers, &timer->node);
    if (write(watch.wake, &one, sizeof(one)) < 0)
        return; /* full: the thread wakes anyway */
}

void cm_timer_stop(struct cm_timer *timer)
{
    list_remove(&timer->node);
}

void watch_forget(void)
{
    for (int i = 0; i < watch.size; i++) {
        if (watch.table[i].fd >= 0 && watch.table[i].fd != watch.wake)
            close(watch.table[i].fd);
        watch.table[i].fd = -1;
    }
    list_init(&watch.timers);
    close_both();
    watch.running = false;
    watch.forks++;
}

unsigned watch_forks(void)
{
    return watch.forks;
}
