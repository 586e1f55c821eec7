/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes with levels: hosts of many sizes, in and out of order. Every algorithm is proved on them, and the price knows
 * them. */
#include "algorithm/algorithm.h"
#include "base/random.h"
#include "schedule/checker.h"
#include "schedule/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 24 /* ranks */

static struct levels *make(const uint64_t *host, int n)
{
    struct levels *levels;
    assert_int_equal(levels_make(host, n, &levels), TUTTI_SUCCESS);
    return levels;
}

static void groups(void **state)
{
    struct levels *levels = make((uint64_t[]){9, 4, 9, 4, 9, 7}, 6);
    assert_true(levels->nranks == 6 && levels->hosts == 3 && levels->least == 1 && levels->most == 3 &&
                !levels->in_order);
    assert_memory_equal(levels->order, ((int32_t[]){0, 2, 4, 1, 3, 5}), 24);
    assert_memory_equal(levels->position, ((int32_t[]){0, 3, 1, 4, 2, 5}), 24);
    assert_memory_equal(levels->host, ((int32_t[]){0, 1, 0, 1, 0, 2}), 24);
    assert_memory_equal(levels->first, ((int32_t[]){0, 3, 5, 6}), 16);
    free(levels);
    levels = make((uint64_t[]){5, 5, 1, 1, 1}, 5);
    assert_true(levels->in_order && levels->hosts == 2 && levels->least == 2 && levels->most == 3);
    free(levels);
    levels = make((uint64_t[]){5}, 1);
    assert_true(levels->in_order && levels->hosts == 1 && levels->least == 1 && levels->most == 1);
    free(levels);
}

static void prove(const struct algorithm *algorithm, struct shape shape)
{
    char why[512] = "";
    for (int in_place = 0; in_place < 2; in_place++) {
        if (!schedule_fits(algorithm, &shape) || (in_place && !schedule_in_place_defined(shape.coll)))
            continue;
        if (schedule_check(algorithm, shape, in_place, why, sizeof why) != TUTTI_SUCCESS)
            fail_msg("%d hosts: %s", shape.levels->hosts, why);
    }
}

static void prove_all(const uint64_t *host, int n)
{
    struct levels *levels = make(host, n);
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            if (algorithm_row(i)->colls >> coll & 1)
                prove(algorithm_row(i),
                      (struct shape){(enum coll)coll, n, schedule_has_root((enum coll)coll) ? n / 2 : 0, levels});
    free(levels);
}

static void all_algorithms(void **state)
{
    uint64_t host[MOST], seed = 1;
    for (int n = 1; n <= MOST; n++)
        for (uint64_t hosts = 1; hosts <= 4; hosts++) {
            for (int rank = 0; rank < n; rank++) /* one host behind the other */
                host[rank] = (uint64_t)rank * hosts / (uint64_t)n;
            prove_all(host, n);
            for (int rank = 0; rank < n; rank++) /* in turn */
                host[rank] = (uint64_t)rank % hosts;
            prove_all(host, n);
            for (int rank = 0; rank < n; rank++) /* uneven */
                host[rank] = mix64(seed++) % hosts;
            prove_all(host, n);
        }
}

static struct shape two_by_four(bool in_turn, struct levels **levels)
{
    uint64_t host[8];
    for (int rank = 0; rank < 8; rank++)
        host[rank] = (uint64_t)(in_turn ? rank % 2 : rank / 4);
    *levels = make(host, 8);
    return (struct shape){.coll = COLL_ALLREDUCE, .nranks = 8, .levels = *levels};
}

/* Of the vector, what the busiest host sends to others. */
static double far_of(enum coll coll, const char *name, bool in_turn, bool knows)
{
    struct levels *levels, flat;
    struct cost_far out;
    struct shape shape = two_by_four(in_turn, &levels);
    shape.coll = coll;
    flat = *levels;
    flat.in_order = true; /* as if ranks were in order already: they keep their numbers */
    shape.levels = knows ? levels : &flat;
    assert_int_equal(cost_far_walk(algorithm_find(coll, name, strlen(name)), &shape, &out), TUTTI_SUCCESS);
    free(levels);
    return out.bytes;
}

static double far(const char *name, bool in_turn, bool knows)
{
    return far_of(COLL_ALLREDUCE, name, in_turn, knows);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void price_of_the_network(void **state)
{
    assert_true(near(far("two-level", false, true), 1));
    assert_true(near(far("two-level", true, true), 1));
    assert_true(near(far("ring", false, true), 1.75));
    assert_true(near(far("ring", true, true), 1.75)); /* by position */
    assert_true(near(far("ring", true, false), 7));   /* every step leaves the host */
    assert_true(near(far_of(COLL_ALLGATHER, "two-level", false, true), 0.5));
    assert_true(near(far_of(COLL_ALLGATHER, "two-level", true, true), 0.5));
    assert_true(near(far_of(COLL_ALLGATHER, "ring", false, true), 0.875));
    assert_true(near(far_of(COLL_ALLGATHER, "ring", true, true), 3.5)); /* keeps the numbers */
}

static void price_in_seconds(void **state)
{
    static const struct cost_model model = {.alpha = 1e-6, .overhead = 1e-7, .beta = 1e-10, .gamma = 1e-11};
    static const struct cost_model network = {.alpha = 2e-5, .overhead = 1e-6, .beta = 1e-8, .gamma = 0};
    struct levels *levels;
    struct shape shape = two_by_four(false, &levels);
    struct cost_terms terms[2];
    struct cost_far crossing[2];
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        const struct algorithm *algorithm = algorithm_find(COLL_ALLREDUCE, i ? "ring" : "two-level", i ? 4 : 9);
        assert_int_equal(cost_terms(algorithm, &shape, &terms[i]), TUTTI_SUCCESS);
        assert_int_equal(cost_far_walk(algorithm, &shape, &crossing[i]), TUTTI_SUCCESS);
        seconds[i] = cost_far_seconds(&terms[i], &model, &crossing[i], &network, 1e6);
    }
    free(levels);
    assert_true(crossing[0].rounds == 2 && crossing[1].rounds == 14);
    assert_true(seconds[0] < 0.6 * seconds[1]);
    assert_int_equal(cost_far_walk(algorithm_row(0), &(struct shape){COLL_ALLREDUCE, 8, 0}, &crossing[0]),
                     TUTTI_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups),
        cmocka_unit_test(all_algorithms),
        cmocka_unit_test(price_of_the_network),
        cmocka_unit_test(price_in_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
