/* SPDX-License-Identifier: Apache-2.0 */
/* How many staging threads ranks agree on. */
#include "fabric/staged_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define RANKS 16

/* `hosts` hosts; ranks of one share its processors, or have their own. */
static int channels(int nranks, int hosts, unsigned processors, bool own, unsigned wish, unsigned last_wish)
{
    struct share all[RANKS];
    for (int i = 0; i < nranks; i++)
        all[i] = (struct share){.host = (uint64_t)(i % hosts), .set = own ? (uint64_t)(i / hosts) : 7, .processors = processors, .wish = wish};
    all[nranks - 1].wish = last_wish;
    return share_channels(all, nranks);
}

static void ranks_that_share_processors_divide_them(void **state)
{
    (void)state;
    assert_int_equal(channels(2, 1, 64, false, 0, 0), 8);
    assert_int_equal(channels(8, 1, 64, false, 0, 0), 4);
    assert_int_equal(channels(8, 2, 64, false, 0, 0), 8);
    assert_int_equal(channels(8, 1, 8, false, 0, 0), 1);
}

static void ranks_that_have_their_own_do_not(void **state)
{
    (void)state;
    assert_int_equal(channels(8, 1, 12, true, 0, 0), 6);
    assert_int_equal(channels(8, 2, 12, true, 0, 0), 6);
    assert_int_equal(channels(2, 1, 1, true, 0, 0), 1);
}

static void a_wish_goes_before_the_fewest_count(void **state)
{
    (void)state;
    assert_int_equal(channels(2, 1, 1, false, 12, 12), 12);
    assert_int_equal(channels(4, 1, 64, false, 0, 3), 3);
    assert_int_equal(channels(4, 1, 8, false, 0, 16), 1);
    assert_int_equal(channels(2, 1, 64, false, 99, 99), ENGINE_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_share_processors_divide_them),
        cmocka_unit_test(ranks_that_have_their_own_do_not),
        cmocka_unit_test(a_wish_goes_before_the_fewest_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
