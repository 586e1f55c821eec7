/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that issue in the caller's stead. They poll while groups come in quick succession, and else sleep. */
#include "fabric/crew.h"

#include "base/cpu.h"
#include "base/futex.h"
#include "base/param.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST  15                /* members: the most TUTTI_ISSUE_THREADS less the caller */
#define HOT   (500 * NS_PER_US) /* from one group to the next: then the crew is worth waking, and stays awake */
#define LOOKS 128               /* from one look at the clock to the next, or until others are let run */

enum state { ASLEEP, READY, BUSY, ENDED };

/* A member's line is written by the caller, to hand it a share, and by the member, when that is done. */
struct member {
    alignas(2 * CACHE_LINE) _Atomic uint32_t state;
    crew_work_t *work;
    void *argument;
    int share;
    pthread_t thread;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while the crew works */
static struct member member[MOST];
static int members, most_members, fabrics;
static uint64_t last; /* when it was last asked to work */

/* ---- Members ------------------------------------------------------------------------------------------------------- */

static void sleep_if_idle(struct member *me, uint64_t since)
{
    uint32_t ready = READY;
    if (clock_ns() - since < HOT || !atomic_compare_exchange_strong(&me->state, &ready, ASLEEP))
        return;
    while (atomic_load(&me->state) == ASLEEP)
        futex_wait(&me->state, ASLEEP, 3600u * 1000 * 1000);
}

static void *serve(void *argument)
{
    struct member *me = argument;
    uint64_t since = clock_ns();
    for (unsigned looks = 1;; looks++) {
        uint32_t state = atomic_load_explicit(&me->state, memory_order_acquire);
        if (state == ENDED)
            return NULL;
        if (state == BUSY) {
            me->work(me->argument, me->share);
            atomic_store_explicit(&me->state, READY, memory_order_release);
            since = clock_ns();
        } else if (looks % LOOKS == 0) {
            sleep_if_idle(me, since);
        } else {
            cpu_relax();
        }
    }
}

static void wake(struct member *one, enum state state)
{
    atomic_store(&one->state, state);
    futex_wake_all(&one->state);
}

/* As many as wanted; fewer if a thread cannot be started. */
static void enlist(int wanted)
{
    while (members < wanted) {
        struct member *one = &member[members];
        atomic_store(&one->state, READY);
        if (pthread_create(&one->thread, NULL, serve, one) != 0)
            return;
        members++;
    }
}

static void dismiss(void)
{
    for (int i = 0; i < members; i++) {
        wake(&member[i], ENDED);
        pthread_join(member[i].thread, NULL);
    }
    members = 0;
}

/* ---- Work ---------------------------------------------------------------------------------------------------------- */

/* False: it sleeps. It is woken for the next time. */
static bool hand(struct member *to, crew_work_t *work, void *argument, int share)
{
    if (atomic_load_explicit(&to->state, memory_order_relaxed) == ASLEEP) {
        wake(to, READY);
        return false;
    }
    to->work = work;
    to->argument = argument;
    to->share = share;
    uint32_t ready = READY;
    return atomic_compare_exchange_strong(&to->state, &ready, BUSY);
}

static void await(struct member *one)
{
    for (unsigned looks = 1; atomic_load_explicit(&one->state, memory_order_acquire) == BUSY; looks++) {
        if (looks % LOOKS)
            cpu_relax();
        else
            sched_yield();
    }
}

/* How many members there are for `count` shares. None at first: a group that comes alone is issued by its caller. */
static int muster(int count)
{
    uint64_t now = clock_ns();
    bool hot = now - last < HOT;
    int wanted = count - 1 < most_members ? count - 1 : most_members;
    last = now;
    if (!hot)
        return 0;
    enlist(wanted);
    return wanted < members ? wanted : members;
}

void crew_run(crew_work_t *work, void *argument, int count)
{
    bool mine = count > 1 && pthread_mutex_trylock(&lock) == 0, handed[MOST] = {false};
    int helpers = mine ? muster(count) : 0;
    for (int i = 0; i < helpers; i++)
        handed[i] = hand(&member[i], work, argument, i + 1);
    for (int share = 0; share < count; share++)
        if (share == 0 || share > helpers || !handed[share - 1])
            work(argument, share);
    for (int i = 0; i < helpers; i++)
        if (handed[i])
            await(&member[i]);
    if (mine)
        pthread_mutex_unlock(&lock);
}

/* ---- Life ---------------------------------------------------------------------------------------------------------- */

/* Half of the processors are left to the user. */
static int threads_for_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) / 2 : 1;
}

void crew_join(void)
{
    pthread_mutex_lock(&lock);
    if (!fabrics++) {
        int threads = (int)param_int(PARAM_ISSUE_THREADS);
        threads = threads ? threads : threads_for_processors();
        most_members = threads - 1 < MOST ? threads - 1 : MOST;
    }
    pthread_mutex_unlock(&lock);
}

void crew_leave(void)
{
    pthread_mutex_lock(&lock);
    if (!--fabrics)
        dismiss();
    pthread_mutex_unlock(&lock);
}
