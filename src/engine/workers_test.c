/* SPDX-License-Identifier: Apache-2.0 */
/* The workers: every share is carried out once, by one thread or by several, before the call returns. */
#include "engine/workers.h"

#include "base/param.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST   20
#define ROUNDS 2000

struct work {
    int done[MOST]; /* plain: what the shares have written is seen when the call has returned */
    pthread_t by[MOST];
};

static void count_share(void *argument, int share)
{
    struct work *work = argument;
    work->done[share]++;
    work->by[share] = pthread_self();
}

/* How many shares other threads have carried out. */
static int run_round(int count)
{
    struct work work = {0};
    int others = 0;
    uint32_t handed = workers_hand(count_share, &work, count);
    assert_int_equal(handed & 1, 0);
    assert_true(handed >> count == 0);
    for (int share = 0; share < count; share++)
        if (!(handed >> share & 1))
            count_share(&work, share);
    workers_await(handed);
    for (int share = 0; share < MOST; share++) {
        assert_int_equal(work.done[share], share < count);
        if (share < count)
            assert_int_equal(!pthread_equal(work.by[share], pthread_self()), handed >> share & 1);
        others += (int)(handed >> share & 1);
    }
    return others;
}

static void with_threads(const char *threads)
{
    setenv("TUTTI_ISSUE_THREADS", threads, 1);
    param_reload();
    workers_join();
}

static void test_alone(void **state)
{
    (void)state;
    with_threads("1");
    for (int round = 0; round < 100; round++)
        assert_int_equal(run_round(round % (MOST + 1)), 0);
    workers_leave();
}

/* In the end others help; how often depends on the machine. */
static void test_together(void **state)
{
    (void)state;
    long others = 0;
    with_threads("4");
    for (int round = 0; round < ROUNDS || !others; round++) {
        others += run_round(4);
        run_round(round % (MOST + 1));
    }
    workers_leave();
}

/* Asleep, woken, asleep again: groups that come at once after a pause are helped again. */
static void test_sleep(void **state)
{
    (void)state;
    with_threads("3");
    for (int round = 0; round < 10; round++) {
        usleep(1500);
        while (!run_round(3))
            sched_yield();
    }
    workers_leave();
}

/* Another communicator may come and go while a group is being issued. */
static void come_and_go(void *argument, int share)
{
    (void)argument;
    (void)share;
    workers_join();
    workers_leave();
}

static void test_while_issuing(void **state)
{
    (void)state;
    with_threads("2");
    uint32_t handed = 0;
    while (!handed) {
        handed = workers_hand(come_and_go, NULL, 2);
        come_and_go(NULL, 0);
        workers_await(handed);
    }
    workers_leave();
}

/* The set of workers ends with the last executor, and begins again. */
static void test_again(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        with_threads("4");
        workers_join();
        for (int i = 0; i < 10; i++)
            run_round(4);
        workers_leave();
        for (int i = 0; i < 10; i++)
            run_round(4);
        workers_leave();
    }
}

static void *run_many(void *argument)
{
    for (int round = 0; round < ROUNDS; round++)
        run_round(1 + round % MOST);
    return argument;
}

/* One has the workers, the others do their work themselves. */
static void test_rivals(void **state)
{
    pthread_t thread[3];
    (void)state;
    with_threads("4");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_many, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    workers_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_together),
                                       cmocka_unit_test(test_sleep), cmocka_unit_test(test_while_issuing),
                                       cmocka_unit_test(test_again), cmocka_unit_test(test_rivals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
