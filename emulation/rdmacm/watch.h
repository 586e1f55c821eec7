/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of the connection manager, and the thread that watches its descriptors and rings its timers. Started by the
 * first user, it stays until the process ends. */
#ifndef RDMACM_WATCH_H
#define RDMACM_WATCH_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

void cm_lock(void);
void cm_unlock(void);
/* By this thread. */
bool cm_locked(void);

/* Starts the thread, once. With the lock held; 0 or errno. */
int watch_start(void);

/* The rest is called with the lock held, and so are the functions given. */

typedef void (*watch_fn)(void *arg, uint32_t events);

/* Watches for EPOLL* events. The answer names the entry; -1 with errno. The caller closes the descriptor after
 * watch_remove. */
int watch_add(int fd, uint32_t events, watch_fn ready, void *arg);
void watch_change(int entry, uint32_t events);
void watch_remove(int entry);

struct cm_timer {
    struct list node;
    uint64_t deadline_ms;
    void (*ring)(struct cm_timer *timer);
};

void cm_timer_init(struct cm_timer *timer, void (*ring)(struct cm_timer *timer));
void cm_timer_set(struct cm_timer *timer, unsigned ms);
void cm_timer_stop(struct cm_timer *timer);

/* Lets the thread call `look` soon. The only one here that needs no lock. */
void watch_look(void);
void watch_on_look(void (*look)(void));

/* In a child of fork: its parent's descriptors are closed, and its timers forgotten. */
void watch_forget(void);
/* How often that was: descriptors of a lower count are the parent's. */
unsigned watch_forks(void);

#endif
