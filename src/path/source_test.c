/* SPDX-License-Identifier: Apache-2.0 */
/* Source ports by the plan in TUTTI_PATHS. */
#include "base/param.h"
#include "path/dnlb.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void plan(const char *text)
{
    setenv("TUTTI_PATHS", text, 1);
    setenv("TUTTI_IB_LANES", "3", 1);
    param_reload();
}

/* Lanes of a link take the interfaces in turn: those of one are consecutive in the plan. */
static void lanes_have_the_ports_of_the_plan(void **state)
{
    plan("8:5,0");
    for (unsigned place = 0; place < 6; place++) {
        struct path_source lane = {.device = place % 2, .nics = 2, .place = place};
        assert_int_equal(path_planned_source(&lane, 0), dnlb_port(place % 2 ? 0 : 5, 3, place / 2, 8));
    }
    plan("8:5,3:0"); /* the second interface is at a leaf of 3 uplinks */
    for (unsigned place = 0; place < 6; place++) {
        struct path_source lane = {.device = place % 2, .nics = 2, .place = place};
        assert_int_equal(path_planned_source(&lane, 0), dnlb_port(place % 2 ? 0 : 5, 3, place / 2, place % 2 ? 3 : 8));
    }
    assert_int_equal(path_planned_source(&(struct path_source){.device = 0, .nics = 2, .place = 0}, 0),
                     0xC000 + 7 * 0x800);
    assert_int_equal(
        path_planned_source(&(struct path_source){.device = 0, .nics = 2, .place = 8, .messages = true}, 0),
        0xC000 + 5 * 0x800); /* messages: NIC 5 of the leaf has them on uplink 5 */
}

static void no_plan_is_no_port(void **state)
{
    static const char *const texts[] = {"", "8", "8:x", "8:1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plan(texts[i]);
        assert_int_equal(path_planned_source(&(struct path_source){.device = 1, .nics = 2, .place = 1}, 0), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_have_the_ports_of_the_plan),
        cmocka_unit_test(no_plan_is_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
