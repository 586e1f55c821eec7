/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm, proved for every n up to 64 and for samples beyond, in place and not. */
#include "algorithm/algorithm.h"
#include "schedule/checker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

static void up_to_64_ranks(void **state)
{
    for (int n = 1; n <= 64; n++)
        prove_all(n);
}

static void samples_beyond(void **state)
{
    static const int samples[] = {100, 127, 128, 250};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        prove_all(samples[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_64_ranks),
        cmocka_unit_test(samples_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
