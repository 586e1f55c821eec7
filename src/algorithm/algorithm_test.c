/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm, proved for every n up to 40 and for samples beyond, in place and not. TUTTI_TEST_QUICK: for fewer n.
 * TUTTI_TEST_FULL: for every n up to 64. */
#include "algorithm/algorithm.h"
#include "schedule/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void prove(const struct algorithm *algorithm, struct shape shape, bool in_place)
{
    char why[512] = "";
    if (!schedule_fits(algorithm, &shape) || (in_place && !schedule_in_place_defined(shape.coll)))
        return;
    if (schedule_check(algorithm, shape, in_place, why, sizeof why) != TUTTI_SUCCESS)
        fail_msg("%s%s", why, in_place ? " (in place)" : "");
}

static void prove_roots(const struct algorithm *algorithm, enum coll coll, int n)
{
    int roots[] = {0, 1, n / 2, n - 1};
    int nroots = schedule_has_root(coll) ? 4 : 1;
    for (int i = 0; i < nroots; i++) {
        if (roots[i] >= n || (i && roots[i] <= roots[i - 1]))
            continue;
        prove(algorithm, (struct shape){coll, n, roots[i]}, false);
        prove(algorithm, (struct shape){coll, n, roots[i]}, true);
    }
}

static void prove_all(int n)
{
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            if (algorithm_row(i)->colls >> coll & 1)
                prove_roots(algorithm_row(i), (enum coll)coll, n);
}

static bool quick(void)
{
    return getenv("TUTTI_TEST_QUICK") != NULL;
}

static void up_to_64_ranks(void **state)
{
    const bool all = getenv("TUTTI_TEST_FULL") != NULL;
    for (int n = 1; n <= 64; n++)
        if (n <= (quick() ? 17 : all ? 64 : 40) || n == 33 || n == 48 || n >= 63)
            prove_all(n);
}

static void samples_beyond(void **state)
{
    static const int samples[] = {100, 128, 127, 250};
    for (int i = 0; i < (quick() ? 1 : getenv("TUTTI_TEST_FULL") ? 4 : 3); i++)
        prove_all(samples[i]);
}

/* Where a rank has few actions in a round: not the direct ones, whose 1000 * 1000 messages are the same as with fewer
 * ranks. */
static void a_thousand_ranks(void **state)
{
    int many = quick() ? 300 : 1000, power = quick() ? 256 : 1024;
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++) {
            const struct algorithm *algorithm = algorithm_row(i);
            struct shape shape = {(enum coll)coll, algorithm->flags & ALGORITHM_POWER_OF_TWO ? power : many, 0};
            if (schedule_has_root(shape.coll))
                shape.root = many * 3 / 4;
            if (schedule_fits(algorithm, &shape) && algorithm->actions(&shape) <= 16)
                prove(algorithm, shape, i % 2);
        }
}

static struct action actions_131072[64];

/* One rank's round of a very large machine: no memory, no walk over ranks. */
static void very_many_ranks(void **state)
{
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++) {
            const struct algorithm *algorithm = algorithm_row(i);
            struct shape shape = {(enum coll)coll, 131072, 0};
            if (!schedule_fits(algorithm, &shape) || algorithm->actions(&shape) > 64)
                continue;
            int rounds = algorithm->rounds(&shape);
            assert_true(rounds > 0 && rounds <= 2 * 131072 && algorithm->scratch(&shape, 131071) <= 131072);
            for (int round = 0; round < rounds; round += 1 + rounds / 1000)
                assert_true(algorithm->round(&shape, 70001, round, actions_131072) <= algorithm->actions(&shape));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_64_ranks),
        cmocka_unit_test(samples_beyond),
        cmocka_unit_test(a_thousand_ranks),
        cmocka_unit_test(very_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
