/* SPDX-License-Identifier: Apache-2.0 */
/* Pass-throughs over the transport under test: they do what TUTTI_PASS says, and nothing that it does not mean. */
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "suite.h"
#include "transport/pass/pass.h"

#include <stdlib.h>
#include <string.h>

static const struct transport_ops *bare;
static char asked[256];

static void stand_between(const char *text)
{
    setenv("TUTTI_PASS", text, 1);
    param_reload();
    under_test = pass_over(bare);
    assert_non_null(under_test);
    assert_ptr_not_equal(under_test, bare);
}

static int remember(void **state)
{
    (void)state;
    const char *before = getenv("TUTTI_PASS");
    bare = under_test;
    asked[0] = 0;
    if (before)
        strncpy(asked, before, sizeof asked - 1);
    return 0;
}

static int restore(void **state)
{
    (void)state;
    if (asked[0])
        setenv("TUTTI_PASS", asked, 1);
    else
        unsetenv("TUTTI_PASS");
    param_reload();
    under_test = bare;
    return 0;
}

/* Lane 0 lets 4 MB/s through, lane 1 as much as it can: a second is a bound that no machine is too slow for. */
static void throttles_the_lanes_that_it_should(void **state)
{
    enum { PUTS = 5, LENGTH = 1 << 20 };
    struct pair pair;
    uint8_t *source = calloc(1, LENGTH);
    (void)state;
    stand_between("throttle=4M/0");
    pair_open(&pair);
    struct end *fast = end_open(&pair.a, &pair.b.self, 1, 1);
    pair_until(&pair, fast->counts[NOTE_UP] && end_accepted(&pair.b, 1));
    uint64_t begun = clock_ns();
    for (int i = 0; i < PUTS; i++) {
        struct put put = {.source = place_host(source), .length = LENGTH, .token = (uint64_t)i};
        assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
        pair_until(&pair, under_test->put(fast->lane, &put) == TUTTI_SUCCESS);
    }
    pair_until(&pair, fast->counts[NOTE_SENT] == PUTS);
    assert_true(pair.at->counts[NOTE_SENT] < PUTS || clock_ns() - begun >= NS_PER_S); /* or this process stood still */
    pair_until(&pair, pair.at->counts[NOTE_SENT] == PUTS);
    assert_true(clock_ns() - begun >= NS_PER_S); /* four of the five had to wait for a quarter of a second each */
    free(source);
    pair_close(&pair);
}

/* False: the first put's quarter of a second was over before the others were given up, so they may have been sent. */
static bool give_up_before_the_gate(void)
{
    struct pair pair;
    uint8_t *source = calloc(1, 1 << 20), *kept = calloc(1, 1 << 18);
    pair_open(&pair);
    uint64_t begun = clock_ns();
    for (uint64_t i = 0; i < 3; i++) {
        struct put put = {
            .source = place_host(i ? source : kept), .length = i ? 1 << 20 : 1 << 18, .imm = (uint32_t)i, .token = i};
        assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
    }
    under_test->give_up(pair.at->lane, 1);
    under_test->give_up(pair.at->lane, 2);
    bool in_time = clock_ns() - begun < NS_PER_S / 4;
    free(source);
    if (in_time) {
        assert_int_equal(send_pattern(pair.at, 4, 10, 1), TUTTI_SUCCESS);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
        assert_int_equal(pair.bt->counts[NOTE_ARRIVED], 1);
    }
    pair_close(&pair);
    free(kept);
    return in_time;
}

/* What waits before the gate is given up without having been sent. */
static void gives_up_what_waits(void **state)
{
    (void)state;
    stand_between("throttle=1M");
    while (!give_up_before_the_gate())
        ;
}

static void ends_lanes_at_random(void **state)
{
    struct pair pair;
    (void)state;
    stand_between("faults=50/4/3");
    for (int round = 0; round < 5; round++) {
        pair_open(&pair);
        for (int i = 0; !pair.at->counts[NOTE_DOWN]; i++) {
            send_pattern(pair.at, 1, 100, 1);
            pair_step(&pair);
            assert_true(i < 1000000);
        }
        assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_REMOTE_ERROR);
        end_close(pair.at);
        pair_until(&pair, pair.bt->counts[NOTE_DOWN]);
        pair_close(&pair);
    }
}

/* One behind the other, in the order named; the same text means the same tables. */
static void stacks(void **state)
{
    struct pair pair;
    (void)state;
    stand_between("throttle=1G;faults=30/0/5");
    const struct pass_table *outer = (const struct pass_table *)under_test,
                            *inner = (const struct pass_table *)outer->under;
    assert_ptr_equal(outer->gate, &pass_faults);
    assert_ptr_equal(inner->gate, &pass_throttle);
    assert_ptr_equal(inner->under, bare);
    assert_ptr_equal(pass_over(bare), under_test);
    pair_open(&pair);
    for (int i = 0; i < 100; i++)
        pair_until(&pair, send_pattern(pair.at, 9, 500, 2) == TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 100);
    pair_close(&pair);
}

static void refuses_nonsense(void **state)
{
    static const char *const texts[] = {"throttle",        "throttle=",
                                        "throttle=fast",   "throttle=1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
                                        "faults=1",        "faults=100/0/0",
                                        "faults=1/2/3/4",  "gate=1",
                                        "throttle=1M;x=2", "throttle=12345678901234567890123456789012345"};
    char longer[400];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("TUTTI_PASS", texts[i], 1);
        param_reload();
        assert_null(pass_over(bare));
        assert_non_null(strstr(error_last(), "TUTTI_PASS"));
    }
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    setenv("TUTTI_PASS", longer, 1);
    param_reload();
    assert_null(pass_over(bare));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, remember, restore)
static const struct CMUnitTest tests[] = {
    CASE(throttles_the_lanes_that_it_should),
    CASE(gives_up_what_waits),
    CASE(ends_lanes_at_random),
    CASE(stacks),
    CASE(refuses_nonsense),
};
const struct group pass_group = {"pass", tests, sizeof tests / sizeof *tests, NULL};
