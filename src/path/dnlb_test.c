/* SPDX-License-Identifier: Apache-2.0 */
#include "path/dnlb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* Every port of RoCE belongs to one uplink, in order, and no share is longer than another by more than a port. */
static void test_shares_divide_all_ports(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 64; uplinks++) {
        uint32_t next = DNLB_FIRST;
        for (unsigned u = 0; u < uplinks; u++) {
            uint16_t first, last;
            dnlb_share(u, uplinks, &first, &last);
            assert_int_equal(first, next);
            assert_in_range(last - first + 1u, DNLB_PORTS / uplinks, DNLB_PORTS / uplinks + 1);
            next = last + 1u;
        }
        assert_int_equal(next, DNLB_FIRST + DNLB_PORTS);
    }
}

/* The paper's own equation 3, where the uplinks divide the ports. */
static void test_equation_three(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 64; uplinks *= 2)
        for (unsigned index = 0; index < 40; index++)
            for (unsigned lane = 0; lane < 5; lane++)
                assert_int_equal(dnlb_port(index, 5, lane, uplinks),
                                 0xC000 + (index * 5 + lane) * (0x4000 / uplinks) % 0x4000);
}

/* All uplinks carry as many lanes as any other, or one more; a port lies in the share of its uplink. */
static void test_even(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 48; uplinks++) {
        unsigned load[48] = {0}, nics = 16, lanes = 3;
        for (unsigned i = 0; i < nics * lanes; i++) {
            unsigned u = dnlb_uplink(i / lanes, lanes, i % lanes, uplinks);
            uint16_t port = dnlb_port(i / lanes, lanes, i % lanes, uplinks), first, last;
            dnlb_share(u, uplinks, &first, &last);
            assert_in_range(port, first, last);
            load[u]++;
        }
        for (unsigned u = 0; u < uplinks; u++)
            assert_in_range(load[u], nics * lanes / uplinks, (nics * lanes + uplinks - 1) / uplinks);
    }
}

static void test_cover(void **state)
{
    assert_true(dnlb_covers(2, 4, 8));
    assert_false(dnlb_covers(2, 3, 8));
    assert_true(dnlb_covers(0xffffffffu, 0xffffffffu, 8));
}

static void test_plans_are_read(void **state)
{
    static const char *const wrong[] = {"",     "8",       "8:",    "0:1",        ":1",
                                        "8:1,", "8:,1",    "8:1;2", "x:1",        "8:-1",
                                        "8: 1", "16385:1", "8:1,x", "8:99999999", "8:0,1,2,3,4,5,6,7,8"};
    struct dnlb_plan plan;
    assert_true(dnlb_parse("8:3", &plan));
    assert_true(plan.uplinks == 8 && plan.nics == 1 && plan.index[0] == 3);
    assert_true(dnlb_parse("16384:0,7,6,5,4,3,2,16777216", &plan));
    assert_true(plan.uplinks == 16384 && plan.nics == 8 && plan.index[1] == 7 && plan.index[7] == 1 << 24);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (dnlb_parse(wrong[i], &plan))
            fail_msg("\"%s\" was taken", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_divide_all_ports),
        cmocka_unit_test(test_equation_three),
        cmocka_unit_test(test_even),
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_plans_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
