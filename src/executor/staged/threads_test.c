/* SPDX-License-Identifier: Apache-2.0 */
/* How many staging threads ranks agree on. */
#include "executor/staged/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define RANKS 16

/* `hosts` hosts; ranks of one share its processors, or have their own. */
static void fill(struct share *all, int nranks, int hosts, unsigned processors, bool own, unsigned wish)
{
    for (int i = 0; i < nranks; i++)
        all[i] = (struct share){.host = (uint64_t)(i % hosts),
                                .set = own ? (uint64_t)(i / hosts) : 7,
                                .processors = processors,
                                .wish = wish};
}

static int channels(int nranks, int hosts, unsigned processors, bool own, unsigned wish, unsigned last_wish)
{
    struct share all[RANKS];
    fill(all, nranks, hosts, processors, own, wish);
    all[nranks - 1].wish = last_wish;
    return share_channels(all, nranks);
}

static bool crowds(int nranks, unsigned processors, bool own, int threads)
{
    struct share all[RANKS];
    fill(all, nranks, 1, processors, own, 0);
    return share_crowds(all, nranks, 0, threads);
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

static void threads_that_leave_less_than_half_crowd(void **state)
{
    (void)state;
    assert_false(crowds(2, 64, false, 8));
    assert_false(crowds(2, 64, false, 16));
    assert_true(crowds(8, 64, false, 8));
    assert_false(crowds(8, 16, true, 8));
    assert_true(crowds(2, 1, true, 1));
}

static void the_fewest_relays_count(void **state)
{
    (void)state;
    const struct share all[] = {{.relays = 3}, {.relays = 1}, {.relays = 2}};
    assert_int_equal(share_relays(all, 3), 1);
    assert_int_equal(share_relays(all, 1), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_share_processors_divide_them),
        cmocka_unit_test(ranks_that_have_their_own_do_not),
        cmocka_unit_test(a_wish_goes_before_the_fewest_count),
        cmocka_unit_test(threads_that_leave_less_than_half_crowd),
        cmocka_unit_test(the_fewest_relays_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
