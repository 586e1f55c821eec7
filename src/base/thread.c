/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending threads. */
#include "base/thread.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic int threads;

/* A forked child has none of them. */
static void thread_forget(void)
{
    atomic_store(&threads, 0);
}

__attribute__((constructor)) static void thread_watch_forks(void)
{
    fork_reset_by(thread_forget);
}

tutti_result_t thread_start(struct thread *thread, const char *name, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread->id, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread->runs = !error;
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot start the thread %s: %s", name, strerror(error));
    pthread_setname_np(thread->id, name);
    int others = atomic_fetch_add(&threads, 1);
    log_trace("thread %s started, beside %d", name, others);
    return TUTTI_SUCCESS;
}

void thread_end(struct thread *thread)
{
    if (!thread->runs)
        return;
    pthread_join(thread->id, NULL);
    thread->runs = false;
    atomic_fetch_sub(&threads, 1);
}

int thread_count(void)
{
    return atomic_load(&threads);
}
