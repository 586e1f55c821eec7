/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that follow from made-up times. */
#include "cli/tune.h"

#include <limits.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct algorithm quick = {.name = "quick", .flags = ALGORITHM_SHARED}, wide = {.name = "wide"};
static const int64_t sizes[] = {16, 256, 4096, 65536};

static struct tune_case times(enum coll coll, const double a[4], const double b[4])
{
    struct tune_case c = {
        .coll = coll, .transport = CHOICE_SHM, .min_ranks = 2, .ranks = 2, .max_ranks = 7, .count = 2};
    c.algorithms[0] = &quick;
    c.algorithms[1] = &wide;
    for (int k = 0; k < 4; k++) {
        c.us[0][k] = a[k];
        c.us[1][k] = b[k];
    }
    return c;
}

static void crossover(void **state)
{
    struct choice_rule rules[TUNE_SIZES];
    struct tune_case c = times(COLL_ALLREDUCE, (double[]){1, 2, 30, 400}, (double[]){3, 3, 10, 100});
    assert_int_equal(tune_rules(&c, sizes, 4, rules), 2);
    assert_ptr_equal(rules[0].algorithm, &quick);
    assert_int_equal(rules[0].max_bytes, 1024); /* between 256 and 4096 */
    assert_true(rules[0].shared);
    assert_int_equal(rules[0].max_ranks, 7);
    assert_int_equal(rules[0].classes, 1u << CHOICE_SHM);
    assert_ptr_equal(rules[1].algorithm, &wide);
    assert_true(rules[1].max_bytes == UINT64_MAX);
    assert_false(rules[1].shared);
}

static void small_gains_change_nothing(void **state)
{
    struct choice_rule rules[TUNE_SIZES];
    struct tune_case c = times(COLL_ALLREDUCE, (double[]){1, 2.02, 3, 4.1}, (double[]){3, 2, 5, 4});
    assert_int_equal(tune_rules(&c, sizes, 4, rules), 1);
    assert_ptr_equal(rules[0].algorithm, &quick);
}

static void missing_times(void **state)
{
    struct choice_rule rules[TUNE_SIZES];
    struct tune_case c = times(COLL_ALLREDUCE, (double[]){0, 0, 0, 0}, (double[]){0, 3, 0, 9});
    assert_int_equal(tune_rules(&c, sizes, 4, rules), 1);
    assert_ptr_equal(rules[0].algorithm, &wide);
    c = times(COLL_ALLREDUCE, (double[]){0, 0, 0, 0}, (double[]){0, 0, 0, 0});
    assert_int_equal(tune_rules(&c, sizes, 4, rules), 0);
}

static void alltoallv_has_one_rule(void **state)
{
    struct choice_rule rules[TUNE_SIZES];
    struct tune_case c = times(COLL_ALLTOALLV, (double[]){1, 1, 50, 500}, (double[]){2, 2, 10, 100});
    assert_int_equal(tune_rules(&c, sizes, 4, rules), 1);
    assert_ptr_equal(rules[0].algorithm, &wide);
    assert_true(rules[0].max_bytes == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crossover),
        cmocka_unit_test(small_gains_change_nothing),
        cmocka_unit_test(missing_times),
        cmocka_unit_test(alltoallv_has_one_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
