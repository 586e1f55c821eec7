/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of events. A thread that tells holds one lock for a moment and never waits for a listener: of a full queue
 * the oldest event goes, and the next one that is read says how many went. */
#include "base/events.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/list.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MOST_EVENTS 256

struct tutti_events {
    struct list node;
    uint32_t generation; /* of the process that opened it */
    int fd;              /* readable while there are events */
    int descriptor;      /* readable while this one is, or what else may tell of events */
    unsigned first, count;
    uint32_t missed;
    tutti_event_t event[MOST_EVENTS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list listeners = {&listeners, &listeners};
static _Atomic int listening;

/* The parent's listeners hear the parent. */
static void events_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fork_forget(&listeners);
    atomic_store(&listening, 0);
}

__attribute__((constructor)) static void events_begin(void)
{
    fork_reset_by(events_forget);
}

bool events_wanted(void)
{
    return atomic_load_explicit(&listening, memory_order_relaxed) > 0;
}

/* ---- Telling ---- */

static void events_add(struct tutti_events *events, const tutti_event_t *event)
{
    uint64_t one = 1;
    if (events->count == MOST_EVENTS) {
        events->first = (events->first + 1) % MOST_EVENTS;
        events->missed++;
    } else if (events->count++ == 0) {
        ssize_t wrote = write(events->fd, &one, sizeof one); /* it holds 0 and takes a 1 */
        (void)wrote;
    }
    events->event[(events->first + events->count - 1) % MOST_EVENTS] = *event;
}

void events_tell(const tutti_event_t *about, const char *format, ...)
{
    tutti_event_t event;
    struct timespec now;
    va_list args;
    if (!events_wanted())
        return;
    event = *about;
    va_start(args, format);
    vsnprintf(event.text, sizeof event.text, format, args);
    va_end(args);
    clock_gettime(CLOCK_REALTIME, &now);
    event.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    pthread_mutex_lock(&lock);
    list_each(node, &listeners) events_add(list_entry(node, struct tutti_events, node), &event);
    pthread_mutex_unlock(&lock);
}

/* ---- Listening ---- */

static void events_free(struct tutti_events *events)
{
    if (events->fd >= 0)
        close(events->fd);
    if (events->descriptor >= 0)
        close(events->descriptor);
    free(events);
}

static bool events_make(struct tutti_events *events, int also)
{
    struct epoll_event readable = {.events = EPOLLIN};
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    events->descriptor = events->fd < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
    return events->descriptor >= 0 && epoll_ctl(events->descriptor, EPOLL_CTL_ADD, events->fd, &readable) == 0 &&
           (also < 0 || epoll_ctl(events->descriptor, EPOLL_CTL_ADD, also, &readable) == 0);
}

tutti_result_t events_open(struct tutti_events **out, int also, int *descriptor)
{
    struct tutti_events *events = calloc(1, sizeof *events);
    if (!events)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a queue of events");
    events->generation = fork_generation;
    if (!events_make(events, also)) {
        tutti_result_t result =
            error_set(TUTTI_SYSTEM_ERROR, "cannot make a descriptor for events: %s", strerror(errno));
        events_free(events);
        return result;
    }
    pthread_mutex_lock(&lock);
    list_push(&listeners, &events->node);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&listening, 1);
    *descriptor = events->descriptor;
    *out = events;
    return TUTTI_SUCCESS;
}

/* The queue's oldest event, in as many bytes as the caller's struct has. */
static bool events_take(struct tutti_events *events, tutti_event_t *out)
{
    uint64_t count;
    size_t size = out->size < sizeof *out ? out->size : sizeof *out, whole = out->size;
    if (!events->count)
        return false;
    tutti_event_t *event = &events->event[events->first];
    event->missed = events->missed;
    events->missed = 0;
    memcpy(out, event, size);
    out->size = whole;
    events->first = (events->first + 1) % MOST_EVENTS;
    if (--events->count == 0) {
        ssize_t taken = read(events->fd, &count, sizeof count);
        (void)taken;
    }
    return true;
}

tutti_result_t events_next(struct tutti_events *events, tutti_event_t *event)
{
    if (events->generation != fork_generation)
        return error_set(TUTTI_INVALID_USAGE,
                         "these events are those of the parent, which this process was forked from; "
                         "open events in the child");
    pthread_mutex_lock(&lock);
    bool found = events_take(events, event);
    pthread_mutex_unlock(&lock);
    return found ? TUTTI_SUCCESS : TUTTI_IN_PROGRESS;
}

bool events_close(struct tutti_events *events)
{
    bool ours = events->generation == fork_generation;
    if (ours) {
        pthread_mutex_lock(&lock);
        list_remove(&events->node);
        pthread_mutex_unlock(&lock);
        atomic_fetch_sub(&listening, 1);
    }
    events_free(events);
    return ours;
}
