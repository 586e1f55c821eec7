/* SPDX-License-Identifier: Apache-2.0 */
/* All threads stand in one list under one lock, which is not held during a look. */
#include "base/attend.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/thread.h"

#include <stdlib.h>

#define MOST (FUTEX_MANY - 1) /* beside the bells: the word that says that these have changed */

struct attendant {
    struct list node, things;
    const char *name;
    uint64_t key;
    int count;
    struct attended *current; /* being looked at; NULL: none is */
    struct thread thread;
    bool stop, alone;         /* alone: attends to one thing, as the kernel lets a thread wait for one word */
    _Atomic uint32_t changed; /* grows when things come and go */
};

static pthread_mutex_t attend_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t looked = PTHREAD_COND_INITIALIZER; /* a look is over */
static struct list attendants = {&attendants, &attendants};
static int attend_limit; /* 0: not asked yet */

static void attend_forget(void)
{
    pthread_mutex_init(&attend_lock, NULL);
    pthread_cond_init(&looked, NULL);
    fork_forget(&attendants);
}

__attribute__((constructor)) static void attend_watch_forks(void)
{
    fork_reset_by(attend_forget);
}

static int attend_limit_now(void)
{
    if (!attend_limit)
        attend_limit = futex_waits_for_many() ? MOST : 1;
    return attend_limit;
}

int attend_most(void)
{
    pthread_mutex_lock(&attend_lock);
    int most = attend_limit_now();
    pthread_mutex_unlock(&attend_lock);
    return most;
}

void attend_set_most(int most)
{
    pthread_mutex_lock(&attend_lock);
    attend_limit = most;
    pthread_mutex_unlock(&attend_lock);
}

/* ---- The thread, under the lock ---- */

static bool is_due(const struct attended *attended, uint64_t now)
{
    return now >= attended->due || atomic_load(attended->bell) != attended->heard;
}

static struct attended *find_due(struct attendant *attendant)
{
    uint64_t now = clock_ns();
    list_each(node, &attendant->things)
    {
        struct attended *attended = list_entry(node, struct attended, node);
        if (is_due(attended, now))
            return attended;
    }
    return NULL;
}

/* The bell is read in front of the look, so that no news is slept over. Then others have their turn. */
static void attend_to(struct attendant *attendant, struct attended *attended)
{
    attendant->current = attended;
    attended->heard = atomic_load(attended->bell);
    pthread_mutex_unlock(&attend_lock);
    uint64_t nap = attended->look(attended->context);
    pthread_mutex_lock(&attend_lock);
    attended->due = clock_ns() + nap * NS_PER_US;
    list_remove(&attended->node);
    list_push(&attendant->things, &attended->node);
    attendant->current = NULL;
    pthread_cond_broadcast(&looked);
}

static void attend_sleep(struct attendant *attendant)
{
    _Atomic uint32_t *words[FUTEX_MANY] = {&attendant->changed};
    uint32_t values[FUTEX_MANY] = {atomic_load(&attendant->changed)};
    uint64_t due = UINT64_MAX;
    int count = 1;
    list_each(node, &attendant->things)
    {
        const struct attended *attended = list_entry(node, struct attended, node);
        words[count] = attended->bell;
        values[count++] = attended->heard;
        due = attended->due < due ? attended->due : due;
    }
    pthread_mutex_unlock(&attend_lock);
    if (attendant->alone)
        futex_wait(words[1], values[1], clock_left_ns(due) / NS_PER_US + 1);
    else
        futex_wait_any(words, values, count, due);
    pthread_mutex_lock(&attend_lock);
}

static void *attend(void *argument)
{
    struct attendant *attendant = argument;
    pthread_mutex_lock(&attend_lock);
    while (!attendant->stop) {
        struct attended *due = find_due(attendant);
        if (due)
            attend_to(attendant, due);
        else
            attend_sleep(attendant);
    }
    pthread_mutex_unlock(&attend_lock);
    return NULL;
}

/* ---- Coming and going ---- */

static void ring_changed(struct attendant *attendant)
{
    atomic_fetch_add(&attendant->changed, 1);
    futex_wake_all(&attendant->changed);
}

static struct attendant *find_attendant(const char *name, uint64_t key)
{
    list_each(node, &attendants)
    {
        struct attendant *attendant = list_entry(node, struct attendant, node);
        if (attendant->name == name && attendant->key == key && attendant->count < attend_limit_now())
            return attendant;
    }
    return NULL;
}

/* NULL: *result says why. */
static struct attendant *make_attendant(const char *name, uint64_t key, tutti_result_t *result)
{
    struct attendant *attendant = calloc(1, sizeof *attendant);
    if (!attendant) {
        *result = error_set(TUTTI_SYSTEM_ERROR, "no memory for the thread %s", name);
        return NULL;
    }
    attendant->name = name;
    attendant->key = key;
    attendant->alone = attend_limit_now() == 1;
    list_init(&attendant->things);
    *result = thread_start(&attendant->thread, name, attend, attendant);
    if (*result != TUTTI_SUCCESS) {
        free(attendant);
        return NULL;
    }
    list_push(&attendants, &attendant->node);
    return attendant;
}

tutti_result_t attend_begin(struct attended *attended, const char *name, uint64_t key)
{
    tutti_result_t result = TUTTI_SUCCESS;
    pthread_mutex_lock(&attend_lock);
    struct attendant *attendant = find_attendant(name, key);
    if (!attendant)
        attendant = make_attendant(name, key, &result);
    if (attendant) {
        attended->by = attendant;
        attended->due = 0;
        attended->heard = atomic_load(attended->bell);
        ring_changed(attendant);
        list_push(&attendant->things, &attended->node);
        attendant->count++;
    }
    pthread_mutex_unlock(&attend_lock);
    return result;
}

void attend_end(struct attended *attended)
{
    struct attendant *attendant = attended->by;
    if (!attendant)
        return;
    pthread_mutex_lock(&attend_lock);
    while (attendant->current == attended)
        pthread_cond_wait(&looked, &attend_lock);
    ring_changed(attendant);
    if (attendant->alone) {
        atomic_fetch_add(attended->bell, 1);
        futex_wake_all(attended->bell);
    }
    list_remove(&attended->node);
    attended->by = NULL;
    bool last = --attendant->count == 0;
    if (last)
        list_remove(&attendant->node);
    attendant->stop = last;
    pthread_mutex_unlock(&attend_lock);
    if (last) {
        thread_end(&attendant->thread);
        free(attendant);
    }
}
