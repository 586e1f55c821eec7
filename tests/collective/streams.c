/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream with operations of several communicators, one of which fails: the others keep their turns. Both ranks are
 * this process; rank 0 is on the stream, and its operations go on when rank 1 calls.
 */
#include "tutti/tutti.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 60 /* what waits for ever is ended */
#define UNTOUCHED  (-1)
#define ROUNDS     20

struct pair {
    tutti_comm_t comm[2];
    int32_t in[2], out[2];
};

static struct pair a, b, c;
static tutti_stream_t stream;

static void make(struct pair *pair)
{
    assert_int_equal(tutti_comm_init_all(pair->comm, 2), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++) {
        pair->in[rank] = rank + 3;
        pair->out[rank] = UNTOUCHED;
    }
}

static void drop(struct pair *pair)
{
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_destroy(pair->comm[rank]), TUTTI_SUCCESS);
}

static int make_all(void **state)
{
    (void)state;
    alarm(PATIENCE_S);
    make(&a);
    make(&b);
    make(&c);
    return tutti_stream_create(&stream) != TUTTI_SUCCESS;
}

static int drop_all(void **state)
{
    (void)state;
    tutti_stream_destroy(stream);
    return 0;
}

/* Nothing is written here: an operation of this pair may be under way. */
static void issue(struct pair *pair, int rank)
{
    assert_int_equal(tutti_allreduce(&pair->in[rank], &pair->out[rank], 1, TUTTI_INT32, TUTTI_SUM, pair->comm[rank],
                                     rank == 0 ? stream : NULL),
                     TUTTI_SUCCESS);
}

static void wait_for(struct pair *pair)
{
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tutti_comm_synchronize(pair->comm[rank]), TUTTI_SUCCESS);
        assert_int_equal(pair->out[rank], 7);
        pair->out[rank] = UNTOUCHED;
    }
}

/* B runs, B waits behind it, and C behind both. */
static void those_before_the_failed_one_go_on(void **state)
{
    (void)state;
    issue(&b, 0);
    issue(&b, 0);
    issue(&c, 0);
    assert_int_equal(tutti_comm_abort(c.comm[0]), TUTTI_SUCCESS);
    assert_int_equal(tutti_stream_query(stream), TUTTI_IN_PROGRESS);
    issue(&b, 1);
    issue(&b, 1);
    assert_int_equal(tutti_stream_synchronize(stream), TUTTI_REMOTE_ERROR);
    wait_for(&b);
    assert_int_equal(tutti_stream_synchronize(stream), TUTTI_SUCCESS);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* A runs; B could, but is behind it; C fails. */
static void none_starts_before_its_turn(void **state)
{
    (void)state;
    issue(&a, 0);
    issue(&b, 1);
    issue(&b, 0);
    issue(&c, 0);
    assert_int_equal(tutti_comm_abort(c.comm[0]), TUTTI_SUCCESS);
    assert_int_equal(tutti_barrier(b.comm[0], NULL), TUTTI_SUCCESS); /* runs what B may run */
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tutti_stream_query(stream), TUTTI_IN_PROGRESS);
        assert_int_equal(b.out[0], UNTOUCHED);
        sched_yield();
    }
    issue(&a, 1);
    assert_int_equal(tutti_barrier(b.comm[1], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_stream_synchronize(stream), TUTTI_REMOTE_ERROR);
    wait_for(&a);
    wait_for(&b);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* A runs; B, the last on the stream, is given up and freed. */
static void the_last_one_may_be_gone(void **state)
{
    (void)state;
    issue(&a, 0);
    issue(&b, 0);
    assert_int_equal(tutti_comm_abort(b.comm[0]), TUTTI_SUCCESS);
    drop(&b);
    assert_int_equal(tutti_stream_query(stream), TUTTI_IN_PROGRESS);
    issue(&a, 1);
    assert_int_equal(tutti_stream_synchronize(stream), TUTTI_REMOTE_ERROR);
    assert_int_equal(tutti_stream_query(stream), TUTTI_SUCCESS);
    wait_for(&a);
    drop(&a);
    drop(&c);
}

static void *synchronize(void *result)
{
    *(tutti_result_t *)result = tutti_stream_synchronize(stream);
    return NULL;
}

/* Another thread waits for the stream, while a communicator that is through with it goes. */
static void one_may_go_while_the_stream_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        tutti_result_t result = TUTTI_IN_PROGRESS;
        if (i)
            make(&a);
        issue(&a, 0);
        issue(&b, 0);
        assert_int_equal(pthread_create(&thread, NULL, synchronize, &result), 0);
        issue(&a, 1);
        wait_for(&a);
        drop(&a);
        issue(&b, 1);
        pthread_join(thread, NULL);
        assert_int_equal(result, TUTTI_SUCCESS);
        wait_for(&b);
    }
    drop(&b);
    drop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(those_before_the_failed_one_go_on, make_all, drop_all),
        cmocka_unit_test_setup_teardown(none_starts_before_its_turn, make_all, drop_all),
        cmocka_unit_test_setup_teardown(the_last_one_may_be_gone, make_all, drop_all),
        cmocka_unit_test_setup_teardown(one_may_go_while_the_stream_is_waited_for, make_all, drop_all),
    };
    setenv("TUTTI_DEBUG", "none", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
