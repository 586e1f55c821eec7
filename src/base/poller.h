/* SPDX-License-Identifier: Apache-2.0 */
/* The one event source a process sleeps on: an epoll set of descriptors with handlers, and a wake-up from other
 * threads. */
#ifndef TUTTI_BASE_POLLER_H
#define TUTTI_BASE_POLLER_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct poller;
struct poll_source;

/* Called by poller_wait with EPOLL* events, in the thread that waits. May add, change and remove any source. */
typedef void (*poll_ready_fn)(struct poll_source *source, uint32_t events);

/* Embedded in its owner. The owner sets fd and ready, and keeps both until poller_remove. */
struct poll_source {
    int fd;
    poll_ready_fn ready;
};

tutti_result_t poller_open(struct poller **out);
void poller_close(struct poller *poller);

tutti_result_t poller_add(struct poller *poller, struct poll_source *source, uint32_t events);
tutti_result_t poller_change(struct poller *poller, struct poll_source *source, uint32_t events);
/* No handler of `source` runs after this returns. To be called before the descriptor is closed: one of which a forked
 * child has a copy would stay in the poller. */
void poller_remove(struct poller *poller, struct poll_source *source);

/* Runs handlers of ready sources; waits at most timeout_ms (-1: forever, 0: not at all). Returns how many handlers ran.
 * One thread at a time. */
int poller_wait(struct poller *poller, int timeout_ms);

/* A descriptor that is readable while a source is ready: a poller can be a source of another one. */
int poller_fd(const struct poller *poller);

/* Makes the current or next poller_wait return. From any thread. */
void poller_wake(struct poller *poller);

#endif
