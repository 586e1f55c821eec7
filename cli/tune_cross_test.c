/* SPDX-License-Identifier: Apache-2.0 */
/* Thresholds that follow from made-up times of two ways. */
#include "cli/tune.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void second_way_takes_over(void **state)
{
    const struct tune_point points[] = {{1, {1, 4}}, {4, {2, 5}}, {16, {9, 6}}, {64, {40, 8}}};
    assert_int_equal(tune_cross(points, 4, TUNE_NEVER), 16);
    assert_int_equal(tune_cross(points, 4, 1), 16);
    assert_int_equal(tune_cross(points, 4, 5), 5); /* nothing lies between: it stays */
}

static void always_and_never(void **state)
{
    const struct tune_point first[] = {{1, {1, 4}}, {4, {2, 5}}}, second[] = {{1, {4, 1}}, {4, {5, 2}}};
    assert_true(tune_cross(first, 2, 0) == TUNE_NEVER);
    assert_int_equal(tune_cross(second, 2, TUNE_NEVER), 1);
    assert_int_equal(tune_cross(second, 2, 0), 0);
}

static void small_gains_change_nothing(void **state)
{
    const struct tune_point points[] = {{1, {1, 0.98}}, {4, {2, 1.99}}, {16, {3, 3.01}}};
    assert_true(tune_cross(points, 3, TUNE_NEVER) == TUNE_NEVER);
    assert_int_equal(tune_cross(points, 3, 4), 4);
    assert_int_equal(tune_cross(points, 3, 1), 1);
}

static void cases_are_weighed(void **state)
{
    /* two cases at the same sizes: what one loses at 4 the other gains twice */
    const struct tune_point points[] = {{1, {1, 2}}, {4, {10, 11}}, {16, {20, 10}},
                                        {1, {1, 2}}, {4, {14, 10}}, {16, {20, 10}}};
    assert_int_equal(tune_cross(points, 6, TUNE_NEVER), 4);
}

static void no_times(void **state)
{
    assert_int_equal(tune_cross(NULL, 0, 7), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_way_takes_over),
        cmocka_unit_test(always_and_never),
        cmocka_unit_test(small_gains_change_nothing),
        cmocka_unit_test(cases_are_weighed),
        cmocka_unit_test(no_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
