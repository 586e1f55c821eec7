/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of life: when a lane, or a peer, is given up that gives none. */
#include "link/link_testing.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct script *start(void)
{
    return script_start((struct script_shape){.lanes = 1});
}

/* A probe that is not answered ends the lane; one that is answered does not. */
static void test_probe(void **state)
{
    struct script *script = start();
    struct payload *recv = payload_new(false, 1, 7, 10);
    payload_start(recv, script->side[0].link);
    script_tick(script, 3601 * 1000);
    assert_true(script->side[0].link->lane[0].signs.probed);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER)); /* the answer */
    assert_false(script->side[0].link->lane[0].signs.probed);
    script_tick(script, 3601 * 1000);
    assert_true(script->side[0].link->lane[0].signs.probed);
    link_tick(script->side[0].domain, clock_deadline_ms(3603 * 1000 + 2000));
    assert_int_equal(script->side[0].link->lane[0].state, LANE_DOWN);
    link_cancel_recv(script->side[0].link, &recv->recv);
    payload_free(recv);
    script_settle(script);
    script_free(script);
}

/* Time for which this process did not look is not held against a lane, nor against a peer without one. A question that
 * was answered before is not asked in vain. */
static void test_not_looking(void **state)
{
    const uint64_t hour = 3600 * NS_PER_S;
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct link_domain *domain = script->side[0].domain;
    struct payload *recv = payload_new(false, 1, 7, 10);
    payload_start(recv, link);
    uint64_t now = clock_ns() + hour + NS_PER_S;
    link_tick(domain, now);
    assert_true(link->lane[0].signs.probed);
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    link_tick(domain, now);
    assert_int_equal(link->lane[0].state, LANE_UP);
    assert_int_equal(link_silence(link, now), 0); /* asks */
    assert_true(script_act_all(script, 0, SCRIPT_DELIVER) > 0);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    link->signs.heard = now;
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    assert_int_equal(link_silence(link, now), 0); /* asks anew */
    link_excuse(domain, hour, now += hour + NS_PER_MS);
    assert_int_equal(link_silence(link, now), NS_PER_MS);
    link_excuse(domain, 2 * hour, now += NS_PER_MS);
    assert_int_equal(link_silence(link, now), 0); /* not before it was asked */
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    assert_true(script_act(script, 0, 0, SCRIPT_DOWN));
    assert_true(script_act(script, 1, 0, SCRIPT_DOWN));
    link_excuse(domain, now - clock_ns(), now);
    link_tick(domain, now);
    assert_int_equal(script->side[0].lost, 0);
    link_tick(domain, now + hour + NS_PER_S);
    assert_int_equal(script->side[0].lost, 1);
    assert_int_equal(recv->result, TUTTI_REMOTE_ERROR);
    payload_free(recv);
    script_settle(script);
    script_free(script);
}

#define CASE(name) cmocka_unit_test_setup(name, script_setup)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(test_probe), CASE(test_not_looking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
