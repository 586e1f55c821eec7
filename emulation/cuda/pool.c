/* SPDX-License-Identifier: Apache-2.0 */
/* An idle thread takes the next task; a task that finds none gets a new thread. A thread that stays idle leaves. */
#include "cuda/pool.h"
#include "cuda/private.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define STACK_BYTES  (512u << 10) /* sanitizers make frames larger */
#define IDLE_SECONDS 2
#define THREADS_MAX  6000 /* the thread sanitizer ends at about 8000 */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct pool_task *head, *tail;
    size_t idle, waiting, threads; /* idle: threads without a task; waiting: tasks without a thread */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static struct pool_task *take(void)
{
    struct pool_task *task = pool.head;
    pool.head = task->next;
    if (!pool.head)
        pool.tail = NULL;
    pool.waiting--;
    pool.idle--;
    return task;
}

/* False: nothing came for long. */
static bool wait_for_task(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    while (!pool.head)
        if (pthread_cond_timedwait(&pool.more, &pool.lock, &until) == ETIMEDOUT && !pool.head)
            return false;
    return true;
}

static void *work(void *unused)
{
    private_allow(true);
    pthread_setname_np(pthread_self(), "emulated-gpu");
    pthread_mutex_lock(&pool.lock);
    while (wait_for_task()) {
        struct pool_task *task = take();
        pthread_mutex_unlock(&pool.lock);
        task->run(task);
        pthread_mutex_lock(&pool.lock);
        pool.idle++;
    }
    pool.idle--;
    pool.threads--;
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* Lock held. The new thread counts as idle at once, so that the next task does not rely on it too. */
static bool add_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pool.threads >= THREADS_MAX || pthread_attr_init(&attributes))
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool made = !pthread_create(&thread, &attributes, work, NULL);
    pthread_attr_destroy(&attributes);
    pool.idle += made;
    pool.threads += made;
    return made;
}

static void append(struct pool_task *task)
{
    task->next = NULL;
    if (pool.tail)
        pool.tail->next = task;
    else
        pool.head = task;
    pool.tail = task;
    pool.waiting++;
    pthread_cond_signal(&pool.more);
}

bool pool_start(void *tasks, size_t count, size_t stride)
{
    bool enough = true;
    pthread_mutex_lock(&pool.lock);
    while (enough && pool.idle < pool.waiting + count)
        enough = add_thread();
    for (size_t i = 0; enough && i < count; i++)
        append((struct pool_task *)((char *)tasks + i * stride));
    pthread_mutex_unlock(&pool.lock);
    return enough;
}

size_t pool_threads(void)
{
    pthread_mutex_lock(&pool.lock);
    size_t threads = pool.threads;
    pthread_mutex_unlock(&pool.lock);
    return threads;
}
