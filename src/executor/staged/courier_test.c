/* SPDX-License-Identifier: Apache-2.0 */
/* How channels wait for copies, also when the communicator has failed. */
#include "executor/staged/courier.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define MANY 200000 /* looks, as in 10 s of pauses */

static struct kernel_copy order;
static char gpu[64], host[64];
static _Atomic unsigned looks;
static _Atomic bool over;

/* In place of libc's: pauses take no time here. */
int usleep(useconds_t us)
{
    (void)us;
    atomic_fetch_add(&looks, 1);
    return 0;
}

static void *copy(void *argument)
{
    static tutti_result_t result;
    result = courier_copy(argument, gpu, host, sizeof host, true);
    atomic_store(&over, true);
    return &result;
}

/* The communicator has failed, and the GPU is held up: until its kernel answers it may store to the user's memory. */
static void a_kernel_that_has_begun_is_waited_for(void **state)
{
    struct team *team = calloc(1, sizeof *team);
    struct staged *staged = calloc(1, sizeof *staged);
    struct channel *channel = &staged->channel[0];
    pthread_t thread;
    void *result = NULL;
    (void)state;
    atomic_store(&team->failed, TUTTI_REMOTE_ERROR);
    *staged = (struct staged){
        .base = {.team = team}, .pinned = host, .slice_bytes = sizeof host, .channels = 1, .copies = &order};
    pthread_mutex_init(&staged->doubt.lock, NULL);
    pthread_cond_init(&staged->doubt.news, NULL);
    *channel = (struct channel){.staged = staged, .team = team, .job = 1};
    assert_int_equal(pthread_create(&thread, NULL, copy, channel), 0);
    while (atomic_load(&looks) < MANY && !atomic_load(&over))
        sched_yield();
    assert_false(atomic_load(&over));
    __atomic_store_n(&order.done, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal(*(tutti_result_t *)result, TUTTI_SUCCESS);
    free(staged);
    free(team);
}

/* What a kernel would have brought for a job that is given up is not wanted any more, whenever the kernel comes. */
static void what_is_given_up_is_not_brought(void **state)
{
    struct team *team = calloc(1, sizeof *team);
    struct staged *staged = calloc(1, sizeof *staged);
    struct kernel_copy copies[2] = {{.done = 0}}; /* behind the order stands the post */
    struct channel *channel = &staged->channel[0];
    const struct job job = {.sequence = 1};
    (void)state;
    *staged = (struct staged){.base = {.team = team},
                              .channels = 1,
                              .copies = copies,
                              .post = (struct kernel_post *)(void *)&copies[1],
                              .doubt = {.lost = CUDA_ERROR_DEINITIALIZED}};
    pthread_mutex_init(&staged->doubt.lock, NULL);
    pthread_cond_init(&staged->doubt.news, NULL);
    *channel = (struct channel){.staged = staged, .team = team, .job = 1};
    assert_int_not_equal(courier_meet(channel, &job, gpu, sizeof gpu), TUTTI_SUCCESS);
    assert_int_equal(copies[0].part[KERNEL_ORDER_FROM], KERNEL_ORDER_PART((uintptr_t)gpu, 1));
    assert_int_equal(copies[0].part[KERNEL_ORDER_BYTES], KERNEL_ORDER_PART(0, 1));
    free(staged);
    free(team);
}

/* Waiting threads leave the processors to others: for a 64th of what they have waited, or half of what a copy takes. */
static void threads_rest_while_they_wait(void **state)
{
    uint64_t pace = 0;
    (void)state;
    assert_int_equal(courier_pause(0), 50);
    assert_int_equal(courier_pause(6400000), 100);
    assert_int_equal(courier_pause(UINT64_MAX / 2), 500);
    assert_int_equal(courier_rest(pace, 1 << 20), 0);
    pace = courier_pace(pace, 1024, 1000000); /* so few bytes tell nothing */
    assert_int_equal(pace, 0);
    pace = courier_pace(pace, 512 << 10, 100000);
    assert_int_equal(pace, 200000);
    assert_int_equal(courier_rest(pace, 1 << 20), 100000);
    assert_int_equal(courier_rest(pace, 256 << 10), 0);
    assert_int_equal(courier_pace(pace, 1 << 20, 1000000000), 225000); /* it waited for something else */
    assert_int_equal(courier_pace(pace, 1 << 20, 150000), 150000);
}

/* Two, four for long calls, and never more than the user allows. */
static void blocks_by_length(void **state)
{
    static const unsigned most[][3] = {{0, 2, 4}, {1, 1, 1}, {3, 2, 3}, {64, 2, 4}};
    struct staged *staged = calloc(1, sizeof *staged);
    (void)state;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        staged->blocks = (int)most[i][0];
        assert_int_equal(courier_blocks(staged, 0), most[i][1]);
        assert_int_equal(courier_blocks(staged, KERNEL_COURIER_LONG_FROM - 1), most[i][1]);
        assert_int_equal(courier_blocks(staged, KERNEL_COURIER_LONG_FROM), most[i][2]);
    }
    free(staged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_that_has_begun_is_waited_for), cmocka_unit_test(blocks_by_length),
        cmocka_unit_test(what_is_given_up_is_not_brought), cmocka_unit_test(threads_rest_while_they_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
