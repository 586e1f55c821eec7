/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock of the stand-in, whether it was started, and whether a thread runs a host function. */
#include "cuda/state.h"

#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool
    ready; /* cuInit was called, and this is not a child that fork made after it: threads do not survive fork */
static _Thread_local bool in_callback;

void state_lock(void)
{
    pthread_mutex_lock(&lock);
}

bool state_try_lock(void)
{
    return pthread_mutex_trylock(&lock) == 0;
}

void state_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void state_changed(void)
{
    pthread_cond_broadcast(&changed);
}

void state_wait(void)
{
    pthread_cond_wait(&changed, &lock);
}

void state_wait_for(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}

static void forget(void)
{
    atomic_store(&ready, false);
}

static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, forget);
}

void state_mark_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    atomic_store(&ready, true);
}

bool state_in_callback(bool set, bool value)
{
    if (set)
        in_callback = value;
    return in_callback;
}

bool state_is_ready(void)
{
    return atomic_load(&ready);
}
