/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that issue in the caller's stead. They poll while groups come in quick succession, and else sleep. */
#include "engine/workers.h"

#include "base/affinity.h"
#include "base/backoff.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "base/param.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST  15                /* members: the most TUTTI_ISSUE_THREADS less the caller */
#define HOT   (500 * NS_PER_US) /* from one group to the next: then the workers are worth waking, and stay awake */
#define LOOKS 128               /* from one look at the clock to the next, or until others are let run */

enum workers_state { ASLEEP, WAKING, READY, BUSY, ENDED };

/* A member's line is written by the caller, to hand it a share, and by the member, when that is done. */
struct workers_member {
    alignas(2 * CACHE_LINE) _Atomic uint32_t state;
    worker_task_t *work;
    void *argument;
    int share;
    struct thread thread;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while the workers work, which is the time that
                                                            issuing takes */
static struct workers_member member[MOST];
static int members;
static uint64_t last; /* when it was last asked to work */

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER; /* of these two */
static int gpus;
static _Atomic int most_members;

/* ---- Members ---- */

/* False: it is not time to sleep yet. */
static bool sleep_if_idle(struct workers_member *me, uint64_t since)
{
    uint32_t ready = READY, waking = WAKING;
    if (clock_ns() - since < HOT || !atomic_compare_exchange_strong(&me->state, &ready, ASLEEP))
        return false;
    while (atomic_load(&me->state) == ASLEEP)
        futex_wait(&me->state, ASLEEP, 3600u * 1000 * 1000);
    atomic_compare_exchange_strong(&me->state, &waking, READY);
    return true;
}

static void *workers_serve(void *argument)
{
    struct workers_member *me = argument;
    uint64_t since = clock_ns();
    for (unsigned looks = 1;; looks++) {
        uint32_t state = atomic_load_explicit(&me->state, memory_order_acquire);
        if (state == ENDED)
            return NULL;
        if (state == BUSY) {
            me->work(me->argument, me->share);
            atomic_store_explicit(&me->state, READY, memory_order_release);
            since = clock_ns();
        } else if (looks % LOOKS) {
            cpu_relax();
        } else if (sleep_if_idle(me, since)) {
            since = clock_ns();
        } else {
            sched_yield();
        }
    }
}

/* As many as wanted; fewer if a thread cannot be started. */
static void workers_enlist(int wanted)
{
    while (members < wanted) {
        struct workers_member *one = &member[members];
        atomic_store(&one->state, READY);
        if (thread_start(&one->thread, "tutti-worker", workers_serve, one) != TUTTI_SUCCESS)
            return;
        members++;
    }
}

static void dismiss(void)
{
    for (int i = 0; i < members; i++) {
        atomic_store(&member[i].state, ENDED);
        futex_wake_all(&member[i].state);
        thread_end(&member[i].thread);
    }
    members = 0;
}

/* ---- Work ---- */

/* False: it sleeps. It is woken for the next time. */
static bool hand(struct workers_member *to, worker_task_t *work, void *argument, int share)
{
    uint32_t ready = READY, asleep = ASLEEP;
    if (atomic_compare_exchange_strong(&to->state, &asleep, WAKING))
        futex_wake_all(&to->state);
    if (asleep != READY)
        return false;
    to->work = work;
    to->argument = argument;
    to->share = share;
    return atomic_compare_exchange_strong(&to->state, &ready, BUSY);
}

static void await(const struct workers_member *one)
{
    unsigned turn = 0;
    for (unsigned looks = 1; atomic_load_explicit(&one->state, memory_order_acquire) == BUSY; looks++) {
        if (looks % LOOKS)
            cpu_relax();
        else
            backoff(&turn);
    }
}

/* How many members there are for `count` shares. None at first: a group that comes alone is issued by its caller. */
static int awake_members(int count)
{
    uint64_t now = clock_ns();
    bool hot = now - last < HOT;
    int most = atomic_load_explicit(&most_members, memory_order_relaxed), wanted = count - 1 < most ? count - 1 : most;
    last = now;
    if (!hot)
        return 0;
    workers_enlist(wanted);
    return wanted < members ? wanted : members;
}

uint32_t workers_hand(worker_task_t *work, void *argument, int count)
{
    uint32_t handed = 0;
    if (count < 2 || pthread_mutex_trylock(&lock) != 0)
        return 0;
    int helpers = awake_members(count);
    for (int share = 1; share <= helpers; share++)
        if (hand(&member[share - 1], work, argument, share))
            handed |= 1u << share;
    if (!handed)
        pthread_mutex_unlock(&lock);
    return handed;
}

void workers_await(uint32_t handed)
{
    if (!handed)
        return;
    for (int share = 1; share <= MOST; share++)
        if (handed >> share & 1)
            await(&member[share - 1]);
    pthread_mutex_unlock(&lock);
}

/* ---- Life ---- */

void workers_join(void)
{
    pthread_mutex_lock(&count_lock);
    if (!gpus++) {
        int threads = (int)param_int(PARAM_ISSUE_THREADS);
        threads = threads ? threads : affinity_count(NULL) / 2; /* half of the processors are left to the user */
        atomic_store(&most_members, threads - 1 < MOST ? threads - 1 : MOST);
    }
    pthread_mutex_unlock(&count_lock);
}

/* Nobody issues when there is no executor: nobody has the other lock. */
void workers_leave(void)
{
    pthread_mutex_lock(&count_lock);
    if (!--gpus && pthread_mutex_trylock(&lock) == 0) {
        dismiss();
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_unlock(&count_lock);
}
