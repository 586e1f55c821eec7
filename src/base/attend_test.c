/* SPDX-License-Identifier: Apache-2.0 */
/* One thread attends to many things: each is looked at when its bell rings, and by itself. */
#include "base/attend.h"

#include "base/futex.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_US  (3600u * 1000 * 1000)
#define THINGS   3
#define PATIENCE 10000 /* ms */

static const char name[] = "tutti-test";

struct thing {
    struct attended attended;
    _Atomic uint32_t bell, looks;
    uint64_t nap;
    _Atomic bool held;
};

static uint64_t look(void *context)
{
    struct thing *thing = context;
    atomic_fetch_add(&thing->looks, 1);
    while (atomic_load(&thing->held))
        usleep(100);
    return thing->nap;
}

static void begin(struct thing *thing, uint64_t nap)
{
    *thing = (struct thing){.nap = nap};
    thing->attended = (struct attended){.bell = &thing->bell, .look = look, .context = thing};
    assert_int_equal(attend_begin(&thing->attended, name, 0), TUTTI_SUCCESS);
}

static void ring(struct thing *thing)
{
    atomic_fetch_add(&thing->bell, 1);
    futex_wake_all(&thing->bell);
}

static void await_looks(struct thing *thing, uint32_t looks)
{
    for (int i = 0; i < PATIENCE && atomic_load(&thing->looks) < looks; i++)
        usleep(1000);
    assert_true(atomic_load(&thing->looks) >= looks);
}

/* Each once at the beginning, and then when it is rung: no thing's look is another's. */
static void ring_each(int threads)
{
    struct thing thing[THINGS];
    for (int i = 0; i < THINGS; i++)
        begin(&thing[i], LONG_US);
    assert_int_equal(thread_count(), threads);
    for (int i = 0; i < THINGS; i++)
        await_looks(&thing[i], 1);
    for (uint32_t round = 2; round < 50; round++) {
        ring(&thing[round % THINGS]);
        await_looks(&thing[round % THINGS], 1 + round / THINGS);
    }
    for (int i = 0; i < THINGS; i++)
        assert_true(atomic_load(&thing[i].looks) <= 1 + 50 / THINGS);
    for (int i = 0; i < THINGS; i++)
        attend_end(&thing[i].attended);
    attend_end(&thing[0].attended); /* once is enough */
    assert_int_equal(thread_count(), 0);
}

static void one_thread_for_all(void **state)
{
    (void)state;
    if (attend_most() == 1)
        skip(); /* the kernel is older */
    ring_each(1);
}

static void one_each_where_the_kernel_is_old(void **state)
{
    (void)state;
    attend_set_most(1);
    ring_each(THINGS);
    attend_set_most(0);
}

/* A thing that comes while the thread sleeps is looked at at once, and again when its time has come. */
static void comes_later(void **state)
{
    struct thing first, second;
    (void)state;
    begin(&first, LONG_US);
    await_looks(&first, 1);
    usleep(10000);
    begin(&second, 1000);
    await_looks(&second, 5);
    attend_end(&second.attended);
    uint32_t looks = atomic_load(&second.looks);
    ring(&first);
    await_looks(&first, 2);
    assert_int_equal(atomic_load(&second.looks), looks);
    attend_end(&first.attended);
}

static void *end(void *argument)
{
    attend_end(&((struct thing *)argument)->attended);
    return NULL;
}

/* A thing's end waits for its look, and no other's end does. */
static void ends_behind_its_look(void **state)
{
    struct thing held, other;
    pthread_t thread;
    (void)state;
    begin(&other, LONG_US);
    begin(&held, LONG_US);
    await_looks(&held, 1);
    await_looks(&other, 1);
    atomic_store(&held.held, true);
    ring(&held);
    await_looks(&held, 2);
    assert_int_equal(pthread_create(&thread, NULL, end, &held), 0);
    attend_end(&other.attended);
    assert_true(attend_is_on(&held.attended));
    atomic_store(&held.held, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(attend_is_on(&held.attended));
    assert_int_equal(thread_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_for_all),
                                       cmocka_unit_test(one_each_where_the_kernel_is_old),
                                       cmocka_unit_test(comes_later), cmocka_unit_test(ends_behind_its_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
