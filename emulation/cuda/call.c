/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of every call, and the lock. */
#include "call.h"
#include "context.h"
#include "graph.h"

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

static void forget(void)
{
    atomic_store(&ready, false);
}

static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, forget);
}

void call_mark_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    atomic_store(&ready, true);
}

bool call_in_callback(bool set, bool value)
{
    if (set)
        in_callback = value;
    return in_callback;
}

static CUresult check(unsigned need)
{
    CUcontext context = (need & CALL_CONTEXT) == CALL_CONTEXT ? context_current() : NULL;
    if ((need & CALL_CONTEXT) == CALL_CONTEXT && !context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context && !context_is_live(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context && context->error)
        return context->error;
    return need & CALL_UNSAFE && capture_forbids() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static void stay_behind(unsigned need)
{
    CUcontext context = context_current();
    if (!context || !(need & CALL_BEHIND || (need & CALL_CONTEXT) == CALL_CONTEXT))
        return;
    while (context_is_live(context) && context->held)
        state_wait();
}

CUresult call_enter(const char *name, unsigned need)
{
    bool sticky;
    if (need & CALL_INIT && !atomic_load(&ready))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (in_callback && (need & CALL_INIT))
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = fault_due(name, &sticky);
    state_lock();
    if (result && sticky && context_current())
        context_fail(context_current(), result);
    stay_behind(need);
    if (!result)
        result = check(need);
    state_unlock();
    return result;
}

void state_wait_for(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}
