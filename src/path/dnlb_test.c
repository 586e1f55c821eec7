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

#define MOST_UPLINKS 64
#define MOST_LANES   16

/* The lanes of a NIC together have the ports of the paper's own equation 3, where the uplinks divide the ports. */
static void test_equation_three(void **state)
{
    for (unsigned uplinks = 1; uplinks <= MOST_UPLINKS; uplinks *= 2)
        for (unsigned lanes = 1; lanes <= MOST_LANES; lanes++)
            for (unsigned index = 0; index < 2 * MOST_UPLINKS; index++) {
                int more[MOST_UPLINKS] = {0};
                for (unsigned lane = 0; lane < lanes; lane++) {
                    unsigned port = (index * lanes + lane) * (0x4000 / uplinks) % 0x4000;
                    more[port / (0x4000 / uplinks)]++;
                    more[(dnlb_port(index, lanes, lane, uplinks) - 0xC000) / (0x4000 / uplinks)]--;
                }
                for (unsigned u = 0; u < uplinks; u++)
                    assert_int_equal(more[u], 0);
            }
}

/* Of NICs with consecutive numbers all uplinks carry as many lanes as any other, or one more; a port lies in the share
 * of its uplink. */
static void check_even(unsigned first_nic, unsigned nics, unsigned lanes, unsigned uplinks)
{
    unsigned load[MOST_UPLINKS] = {0};
    for (unsigned i = 0; i < nics * lanes; i++) {
        unsigned index = first_nic + i / lanes, u = dnlb_uplink(index, lanes, i % lanes, uplinks);
        uint16_t port = dnlb_port(index, lanes, i % lanes, uplinks), first, last;
        dnlb_share(u, uplinks, &first, &last);
        assert_in_range(port, first, last);
        load[u]++;
    }
    for (unsigned u = 0; u < uplinks; u++)
        assert_in_range(load[u], nics * lanes / uplinks, (nics * lanes + uplinks - 1) / uplinks);
}

static void test_even(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 48; uplinks++)
        for (unsigned lanes = 1; lanes <= MOST_LANES; lanes++)
            for (unsigned nics = 1; nics <= 17; nics++)
                check_even(nics * 5 % 7, nics, lanes, uplinks);
}

/* The same lane of several NICs is on as many uplinks: of as many NICs as there are uplinks, on each once. */
static void test_same_lanes_of_nics_part(void **state)
{
    for (unsigned uplinks = 1; uplinks <= MOST_UPLINKS; uplinks++)
        for (unsigned lanes = 1; lanes <= MOST_LANES; lanes++)
            for (unsigned i = 0; i < 3 * uplinks * lanes; i += uplinks) {
                unsigned lane = i / uplinks % lanes, seen = 0;
                bool taken[MOST_UPLINKS] = {false};
                for (unsigned nic = 0; nic < uplinks; nic++) {
                    unsigned u = dnlb_uplink(i / (uplinks * lanes) * uplinks + nic, lanes, lane, uplinks);
                    seen += !taken[u];
                    taken[u] = true;
                }
                assert_int_equal(seen, uplinks);
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
    static const char *const wrong[] = {"",       "8",       "8:",      "0:1",        ":1",
                                        "8:1,",   "8:,1",    "8:1;2",   "x:1",        "8:-1",
                                        "8: 1",   "16385:1", "8:1,x",   "8:99999999", "8:0,1,2,3,4,5,6,7,8",
                                        "8:1,2:", "8:1:2",   "8:1,0:2", "8:1,,2",     "99999999999999999999:1"};
    struct dnlb_plan plan;
    assert_true(dnlb_parse("8:3", &plan));
    assert_true(plan.uplinks[0] == 8 && plan.nics == 1 && plan.index[0] == 3);
    assert_true(dnlb_parse("16384:0,7,6,5,4,3,2,16777216", &plan));
    assert_true(plan.uplinks[7] == 16384 && plan.nics == 8 && plan.index[1] == 7 && plan.index[7] == 1 << 24);
    assert_true(dnlb_parse("4:0,1,3:2,8:8", &plan)); /* leaves of other numbers of uplinks */
    assert_true(plan.nics == 4 && plan.uplinks[1] == 4 && plan.uplinks[2] == 3 && plan.uplinks[3] == 8);
    assert_true(plan.index[0] == 0 && plan.index[1] == 1 && plan.index[2] == 2 && plan.index[3] == 8);
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
        cmocka_unit_test(test_same_lanes_of_nics_part),
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_plans_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
