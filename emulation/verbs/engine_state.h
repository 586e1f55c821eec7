/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the engine share: the table of queue pairs, and who is awake. */
#ifndef VERBS_ENGINE_STATE_H
#define VERBS_ENGINE_STATE_H

#include "verbs/wire.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SLOT_SIZE (1u << SLOT_BITS)
#define YIELD_NS  (500 * NS_PER_US) /* how long the thread leaves the sockets to it */

extern struct engine_state {
    pthread_mutex_t lock;
    pthread_once_t once;
    int users;
    bool running, stop, sleepy;
    bool hurry; /* what was marked is run after this batch */
    pthread_t thread;
    int wake_fd, monitor_fd;
    uint32_t slots[SLOTS_MAX];
    int slot_fds[SLOTS_MAX];
    int slot_count;
    struct qp **qps;  /* slot_count * SLOT_SIZE */
    uint64_t look_at; /* at the carriers of the interfaces */
    uint32_t next_qp;
    uint32_t serial;
    struct list dirty, timers;
    uint64_t next_deadline;  /* no timer ends before; 0: none */
    uint64_t look_ns;        /* the time for which the last stream was worth looking around */
    uint64_t sleeping_until; /* of the thread; 0: it is awake, UINT64_MAX: for ever */
    uint64_t fault_deadline;
    _Atomic uint64_t polled_at;
    _Atomic bool yielding;
    uint64_t distrust_until, distrust;
    void (*child)(void); /* called in a child of fork */
} engine;

/* The thread, which sleeps. */
void engine_wake(void);

#endif
