/* SPDX-License-Identifier: Apache-2.0 */
/* The processors that a thread may run on are counted as the kernel has them. */
#include "base/affinity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The first `count` of the set. */
static cpu_set_t first_of(const cpu_set_t *set, int count)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) < count; i++)
        if (CPU_ISSET(i, set))
            CPU_SET(i, &first);
    return first;
}

static void what_is_left_of_them_is_counted(void **state)
{
    cpu_set_t all, some, got;
    (void)state;
    int count = affinity_count(&all);
    assert_true(count >= 1 && count == CPU_COUNT(&all));
    for (int left = count; left > 0; left /= 2) {
        some = first_of(&all, left);
        assert_int_equal(sched_setaffinity(0, sizeof some, &some), 0);
        assert_int_equal(affinity_count(NULL), left);
        assert_int_equal(affinity_count(&got), left);
        assert_true(CPU_EQUAL(&got, &some));
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(affinity_count(NULL), count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_left_of_them_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
