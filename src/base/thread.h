/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library: the one place that starts, names, counts and ends them. Which there are, and why:
 * docs/engine.md. */
#ifndef TUTTI_BASE_THREAD_H
#define TUTTI_BASE_THREAD_H

#include "tutti/tutti.h"

#include <pthread.h>
#include <stdbool.h>

struct thread {
    pthread_t id;
    bool runs; /* started and not ended: of nobody else's concern but who starts and ends it */
};

/* name: at most 15 characters, as ps and debuggers show it. Signals are the program's: they never come to this thread.
 */
tutti_result_t thread_start(struct thread *thread, const char *name, void *(*run)(void *argument), void *argument);

/* Waits for the end of one that runs. */
void thread_end(struct thread *thread);

/* Of this process, that have been started and not been ended. */
int thread_count(void);

#endif
