/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor does that has nothing of its own: it refuses calls, and everything else is in order. */
#include "engine/executor.h"

#include "base/error.h"
#include "engine/p2p.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void refuses_calls(void **state)
{
    struct executor none;
    struct call call = {.coll = COLL_BARRIER};
    struct executor_note note = {{0}};
    struct p2p_item item = {0};
    (void)state;
    executor_init(&none, &(struct executor_ops){.name = "none"}, 3);
    assert_int_equal(none.device, 3);
    assert_int_equal(none.ops.issue(&none, &call, malloc(1), NULL, &note),
                     TUTTI_INVALID_USAGE); /* a leak if it did not free that */
    assert_non_null(strstr(error_last(), "\"none\" cannot carry out collectives"));
    assert_int_equal(none.ops.messages(&none, &item, 1, NULL), TUTTI_INVALID_USAGE);
    assert_int_equal(none.ops.follow(&none, NULL, NULL), TUTTI_INVALID_USAGE);
}

static void has_nothing_else_to_do(void **state)
{
    struct executor none;
    size_t device = 1, host = 1;
    (void)state;
    executor_init(&none, &(struct executor_ops){.name = "none"}, TUTTI_HOST);
    assert_null(none.ops.prepare);
    assert_int_equal(none.ops.wait(&none), TUTTI_SUCCESS);
    assert_false(none.ops.any_thread(&none, NULL));
    assert_false(none.ops.give_up(&none));
    assert_false(none.ops.goes_on(&none));
    none.ops.end_calls(&none);
    none.ops.memory(&none, &device, &host);
    assert_true(!device && !host);
    none.ops.wait_given_up(&none);
    none.ops.hear(&none);
    none.ops.close(&none);
}

static tutti_result_t own_wait(struct executor *executor)
{
    return executor->device == 7 ? TUTTI_REMOTE_ERROR : TUTTI_SUCCESS;
}

static void keeps_its_own(void **state)
{
    struct executor one;
    (void)state;
    executor_init(&one, &(struct executor_ops){.name = "one", .wait = own_wait}, 7);
    assert_int_equal(one.ops.wait(&one), TUTTI_REMOTE_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_calls), cmocka_unit_test(has_nothing_else_to_do),
                                       cmocka_unit_test(keeps_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
