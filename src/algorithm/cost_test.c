/* SPDX-License-Identifier: Apache-2.0 */
/* Closed forms of the cost agree with the schedules that they are about, and price a very large machine at once. */
#include "algorithm/algorithm.h"
#include "schedule/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void compare(const struct algorithm *algorithm, struct shape shape)
{
    struct cost_terms closed, walked;
    assert_int_equal(cost_terms(algorithm, &shape, &closed), TUTTI_SUCCESS);
    assert_int_equal(cost_walk(algorithm, &shape, &walked), TUTTI_SUCCESS);
    const double *a = &closed.rounds, *b = &walked.rounds;
    static const char *const names[] = {"rounds",        "messages",   "bytes",       "reduced",
                                        "rank messages", "rank bytes", "rank reduced"};
    for (int i = 0; i < 7; i++)
        if (!near(a[i], b[i]))
            fail_msg("%s %s, %d ranks, root %d: %s is %g, closed form says %g", schedule_coll_name(shape.coll),
                     algorithm->name, shape.nranks, shape.root, names[i], b[i], a[i]);
}

static void compare_all(const struct algorithm *algorithm, enum coll coll)
{
    for (int n = 1; n <= 40; n++)
        for (int root = 0; root < (schedule_has_root(coll) ? n : 1); root++) {
            struct shape shape = {coll, n, root};
            if (schedule_fits(algorithm, &shape))
                compare(algorithm, shape);
        }
}

static void closed_forms_agree(void **state)
{
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            if (algorithm_row(i)->colls >> coll & 1)
                compare_all(algorithm_row(i), (enum coll)coll);
}

static double seconds(const char *name, int n, double bytes, int slices)
{
    static const struct cost_model model = {.alpha = 5e-6, .overhead = 5e-7, .beta = 1e-10, .gamma = 2e-11};
    struct shape shape = {COLL_ALLREDUCE, n, 0};
    struct cost_terms terms;
    assert_int_equal(cost_terms(algorithm_find(COLL_ALLREDUCE, name, strlen(name)), &shape, &terms), TUTTI_SUCCESS);
    return cost_seconds(&terms, &model, bytes, slices);
}

static void known_trade_offs(void **state)
{
    assert_true(seconds("doubling", 16, 1e3, 1) < seconds("ring", 16, 1e3, 1));
    assert_true(seconds("ring", 16, 1e9, 1) < seconds("doubling", 16, 1e9, 1));
    assert_true(seconds("tree", 1024, 1e6, 4) < seconds("ring", 1024, 1e6, 4));
    assert_true(seconds("tree", 1024, 1e9, 256) < seconds("tree", 1024, 1e9, 1));
}

static void large_machine(void **state)
{
    double ring = seconds("ring", 131072, 1e9, 1), tree = seconds("tree", 131072, 1e9, 512);
    assert_true(ring > 2 * 131071 * 5e-6);
    assert_true(tree > 2e9 * 1e-10 && tree < ring);
}

static void bad_shape_is_refused(void **state)
{
    struct cost_terms terms;
    struct shape shape = {COLL_ALLGATHER, 12, 0};
    const struct algorithm *doubling = algorithm_find(COLL_ALLGATHER, "doubling", 8);
    assert_int_equal(cost_terms(doubling, &shape, &terms), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(cost_walk(doubling, &shape, &terms), TUTTI_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_agree),
        cmocka_unit_test(known_trade_offs),
        cmocka_unit_test(large_machine),
        cmocka_unit_test(bad_shape_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
