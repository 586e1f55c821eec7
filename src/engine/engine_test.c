/* SPDX-License-Identifier: Apache-2.0 */
/* What wakes the ranks of one process that sleep on the engine's poller. */
#include "base/clock.h"

#include "base/poller.h"
#include "engine/engine.h"
#include "engine/engine_life.h"
#include "engine/team.h"
#include "engine/team_open.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define ROUNDS   200
#define SLEEPERS 24

static struct engine *engine;
static _Atomic bool woken;

static void *sleeper(void *unused)
{
    engine_sleep(engine, NULL, -1);
    atomic_store(&woken, true);
    return unused;
}

/* Or is through: what was left of the last round may have woken it. */
static bool sleeps(void)
{
    lock_take(&engine->lock);
    bool sleeping = engine->sleeping > 0;
    lock_release(&engine->lock);
    return sleeping || atomic_load(&woken);
}

/* Long enough for a look at the poller. */
static void poll_much(void)
{
    for (int i = 0; i < 64; i++) {
        engine->tick_at = 0;
        engine_poll(engine);
    }
}

/* One rank wakes another and goes on polling. In its turn it looks at the poller before the other has a processor. */
static void wake_and_take(void)
{
    lock_take(&engine->lock);
    poller_wake(engine->poller);
    poll_much();
    lock_release(&engine->lock);
}

/* A thread that read the clock before another one attended comes later: no gap of centuries. */
static void an_older_time_is_no_gap(void **state)
{
    (void)state;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    lock_take(&engine->lock);
    uint64_t now = clock_ns();
    engine_attend(engine, now);
    engine_attend(engine, now - NS_PER_MS);
    assert_true(engine->attended == now);
    lock_release(&engine->lock);
    engine_release(engine);
}

static void a_polling_rank_passes_on_what_woke_a_sleeping_one(void **state)
{
    (void)state;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        atomic_store(&woken, false);
        assert_int_equal(pthread_create(&thread, NULL, sleeper, engine), 0);
        while (!sleeps())
            usleep(100);
        wake_and_take();
        pthread_join(thread, NULL); /* for ever, if nobody tells it */
    }
    engine_release(engine);
}

/* Asleep until something comes. Then it alone has armed the transports. */
static bool thread_is_deep(void)
{
    lock_take(&engine->lock);
    bool armed = engine->armed > 0;
    lock_release(&engine->lock);
    return armed;
}

/* Somebody leaves an operation to the thread, and goes on polling. */
static void the_thread_hears_of_operations_though_another_polls(void **state)
{
    (void)state;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    while (!thread_is_deep())
        usleep(100);
    uint32_t deep = atomic_load(&engine->mode);
    for (int i = 0; i < ROUNDS; i++) {
        lock_take(&engine->lock);
        engine_notice(engine);
        assert_int_not_equal(atomic_load(&engine->mode), deep);
        poll_much();
        lock_release(&engine->lock);
        while (atomic_load(&engine->mode) != deep || !thread_is_deep()) /* for ever, if nobody tells it */
            usleep(100);
    }
    engine_release(engine);
}

/* Callers who issue and wait themselves need no thread: to wake it for each of their operations would cost more than
 * these. */
static void the_thread_is_not_woken_for_each_operation_that_is_waited_for(void **state)
{
    int woken_up = 0;
    (void)state;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    while (!thread_is_deep())
        usleep(100);
    uint32_t deep = atomic_load(&engine->mode);
    for (int i = 0; i < ROUNDS; i++) {
        woken_up += atomic_load(&engine->mode) == deep;
        engine_notice(engine);
        atomic_fetch_add(&engine->activity, 1); /* as whoever has waited does */
        usleep(300);
    }
    assert_in_range(woken_up, 1, ROUNDS / 4);
    engine_release(engine);
}

/* Two that sleep and are both told of one happening go back to sleep; they do not tell each other for ever. */
static void one_happening_wakes_each_sleeper_once(void **state)
{
    enum { SLEEPS = 20, SLEEP_MS = 20 };
    (void)state;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    while (!thread_is_deep())
        usleep(100);
    poller_wake(engine->poller);
    uint64_t begin = clock_ns();
    for (int i = 0; i < SLEEPS; i++) {
        lock_take(&engine->lock); /* nobody sleeps while another has it, who may have lost the processor */
        lock_release(&engine->lock);
        engine_sleep(engine, NULL, SLEEP_MS);
    }
    assert_true(clock_ns() - begin > (SLEEPS / 2) * SLEEP_MS * NS_PER_MS);
    engine_release(engine);
}

/* A rank of this process whose operation has been begun, and can go on once it is told so. */
struct waiter {
    struct team team;
    bool waits_for_memo, came; /* it waits for that instead; under the engine's lock */
    _Atomic bool goes_on;
    _Atomic unsigned woken;
    pthread_t thread;
};

static struct waiter waiters[SLEEPERS];

static bool waiter_may_move(const struct op *op)
{
    return atomic_load(&waiters[op->seq].goes_on);
}

static const struct op_kind waits = {.needs_links = true, .may_move = waiter_may_move};

static void *wait_asleep(void *argument)
{
    struct waiter *waiter = argument;
    while (!atomic_load(&waiter->goes_on)) {
        if (waiter->waits_for_memo)
            engine_sleep_until(engine, &waiter->came, -1);
        else
            engine_sleep(engine, &waiter->team, -1);
        atomic_fetch_add(&waiter->woken, 1);
    }
    return NULL;
}

static bool all_sleep(int most)
{
    lock_take(&engine->lock);
    bool sleep = engine->sleeping >= most;
    lock_release(&engine->lock);
    return sleep;
}

/* Somebody does, other than the engine's thread, which naps while callers attend. */
static bool one_watches(void)
{
    lock_take(&engine->lock);
    bool watches = engine->pollers > 0 || !engine->sleeping;
    lock_release(&engine->lock);
    return watches;
}

static void wake_one(struct waiter *waiter)
{
    lock_take(&engine->lock);
    atomic_store(&waiter->goes_on, true);
    waiter->came = true;
    lock_release(&engine->lock);
    poller_wake(engine->poller);
    pthread_join(waiter->thread, NULL);
}

/* Of many ranks of a process a message wakes few: those who watch for news, and whom the news is for. When one of those
 * who watch leaves, another takes the place. */
static void wake_few(bool by_memos)
{
    unsigned woken = 0;
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    atomic_fetch_add(&engine->attending, 1);
    for (int i = 0; i < SLEEPERS; i++) {
        struct op *op;
        memset(&waiters[i], 0, sizeof waiters[i]);
        waiters[i].waits_for_memo = by_memos;
        assert_int_equal(queue_open(&waiters[i].team.queue), TUTTI_SUCCESS);
        assert_non_null(op = queue_tail(&waiters[i].team.queue, 0, 0));
        *op = (struct op){.kind = &waits, .started = true, .seq = (uint32_t)i};
        atomic_store(&waiters[i].team.issued, 1);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_asleep, &waiters[i]), 0);
    }
    while (!all_sleep(SLEEPERS))
        usleep(100);
    for (int i = 0; i < SLEEPERS; i++)
        woken += atomic_load(&waiters[i].woken);
    lock_take(&engine->lock);
    uint64_t tells = engine->tells;
    lock_release(&engine->lock);
    wake_one(&waiters[SLEEPERS - 1]);
    lock_take(&engine->lock);
    assert_in_range(engine->tells - tells, 0, 3); /* it, and one that takes the place of one who watched */
    lock_release(&engine->lock);
    while (!all_sleep(SLEEPERS - 1))
        usleep(100);
    for (int i = 0; i < SLEEPERS; i++)
        woken -= atomic_load(&waiters[i].woken);
    assert_in_range(-woken, 1, SLEEPERS / 2);
    for (int i = 0; i < SLEEPERS - 1; i++) {
        wake_one(&waiters[i]);
        while (!one_watches())
            usleep(100);
    }
    atomic_fetch_sub(&engine->attending, 1);
    for (int i = 0; i < SLEEPERS; i++)
        queue_close(&waiters[i].team.queue);
    engine_release(engine);
}

static void news_for_one_of_many_wakes_few(void **state)
{
    (void)state;
    wake_few(false);
    wake_few(true);
}

static void from_process(const void *context, int rank, struct roster_entry *out)
{
    const struct wire_process *processes = context;
    *out = (struct roster_entry){.process = processes[rank]};
}

static int crowd(const struct wire_process ranks[4], int rank, long online)
{
    const struct roster *roster = roster_make(4, from_process, ranks);
    assert_non_null(roster);
    int found = team_crowd(roster, NULL, 4, rank, online);
    roster_release(roster);
    return found;
}

/* Ranks that a launcher or a container binds to the same processors share them, whatever the machine has. */
static void bound_ranks_are_a_crowd(void **state)
{
    struct wire_process ranks[4] = {{.host = 1}, {.host = 1}, {.host = 1}, {.host = 2}};
    (void)state;
    assert_int_equal(crowd(ranks, 0, 2), 150); /* not known: of the machine */
    assert_int_equal(crowd(ranks, 3, 2), 50);
    for (int i = 0; i < 4; i++)
        ranks[i].processors = 1;
    assert_int_equal(crowd(ranks, 0, 64), 300); /* all on the same one */
    assert_int_equal(crowd(ranks, 3, 64), 100);
    for (int i = 0; i < 4; i++)
        ranks[i].processor_set = (uint16_t)i;
    assert_int_equal(crowd(ranks, 0, 4), 100); /* each has its own */
    assert_int_equal(crowd(ranks, 0, 2), 150);
    ranks[1] = ranks[0];
    ranks[0].processors = ranks[1].processors = 2;
    assert_int_equal(crowd(ranks, 0, 64), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_older_time_is_no_gap),
                                       cmocka_unit_test(a_polling_rank_passes_on_what_woke_a_sleeping_one),
                                       cmocka_unit_test(the_thread_hears_of_operations_though_another_polls),
                                       cmocka_unit_test(the_thread_is_not_woken_for_each_operation_that_is_waited_for),
                                       cmocka_unit_test(one_happening_wakes_each_sleeper_once),
                                       cmocka_unit_test(news_for_one_of_many_wakes_few),
                                       cmocka_unit_test(bound_ranks_are_a_crowd)};
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
