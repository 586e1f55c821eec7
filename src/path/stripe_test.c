/* SPDX-License-Identifier: Apache-2.0 */
/* Unequal lanes share by their rates: path_stripe against lanes that a clock of the test serves, each at its own rate.
 */
#include "base/clock.h"
#include "base/param.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT 524288
#define QUEUE   4 /* segments that a lane takes before it is full */
#define DEEP    64

struct served {
    struct path_lane view;
    double rate; /* bytes for each ns */
    uint64_t latency;
    uint64_t free_at; /* when it has served all */
    uint64_t posted[DEEP], lands[DEEP];
    int first, count;
    uint64_t bytes;
};

static struct path_nic nic;
static struct path_policy policy;

static void post(void *state, struct served *lane, uint64_t now)
{
    int at = (lane->first + lane->count++) % DEEP;
    uint64_t begin = lane->free_at > now ? lane->free_at : now;
    lane->free_at = begin + (uint64_t)(SEGMENT / lane->rate);
    lane->posted[at] = now;
    lane->lands[at] = lane->free_at + lane->latency;
    lane->view.segments++;
    lane->view.outstanding += SEGMENT;
    lane->bytes += SEGMENT;
    policy.posted(state, &lane->view, SEGMENT, now);
}

/* The next segment that lands, on whichever lane. */
static struct served *next(struct served *lanes, int count)
{
    struct served *best = NULL;
    for (int i = 0; i < count; i++)
        if (lanes[i].count && (!best || lanes[i].lands[lanes[i].first] < best->lands[best->first]))
            best = &lanes[i];
    return best;
}

static uint64_t land(void *state, struct served *lane)
{
    uint64_t when = lane->lands[lane->first], posted = lane->posted[lane->first];
    lane->first = (lane->first + 1) % DEEP;
    lane->count--;
    lane->view.segments--;
    lane->view.outstanding -= SEGMENT;
    policy.landed(state, &lane->view, SEGMENT, posted, when);
    return when;
}

static void pump(void *state, struct served *lanes, int count, int *left, uint64_t now)
{
    while (*left > 0) {
        const struct path_lane *views[LINK_MAX_LANES];
        for (int i = 0; i < count; i++) {
            lanes[i].view.room = lanes[i].count < QUEUE;
            views[i] = &lanes[i].view;
        }
        struct path_payload payload = {.left = (uint64_t)*left * SEGMENT};
        int position = policy.pick(state, views, count, &payload, SEGMENT, now);
        if (position < 0 || !views[position]->room)
            return;
        post(state, &lanes[position], now);
        --*left;
    }
}

/* Sends `segments` and returns when all have landed. */
static uint64_t carry(void *state, struct served *lanes, int count, int segments, uint64_t now)
{
    struct served *lane;
    pump(state, lanes, count, &segments, now);
    while ((lane = next(lanes, count))) {
        now = land(state, lane);
        pump(state, lanes, count, &segments, now);
    }
    assert_int_equal(segments, 0);
    return now;
}

static void *begin(struct served *lanes, const double *rates, int count)
{
    void *state = calloc(1, policy.state_bytes);
    memset(lanes, 0, (size_t)count * sizeof *lanes);
    for (int i = 0; i < count; i++) {
        lanes[i].view = (struct path_lane){.index = (uint16_t)i, .roles = PATH_DATA, .nic = &nic};
        lanes[i].rate = rates[i];
        lanes[i].latency = 20000;
        policy.up(state, &lanes[i].view);
    }
    return state;
}

/* Of the sum of rates, in percent. */
static double share(const double *rates, int count, int segments, int before)
{
    struct served lanes[LINK_MAX_LANES];
    void *state = begin(lanes, rates, count);
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += rates[i];
    uint64_t now = 1000000000, start = before ? carry(state, lanes, count, before, now) : now;
    uint64_t end = carry(state, lanes, count, segments, start);
    free(state);
    return 100 * (double)segments * SEGMENT / (double)(end - start) / sum;
}

static void test_unequal_lanes_share_by_rate(void **state)
{
    static const double pairs[][2] = {{1, 1}, {1, 0.5}, {0.3, 1}, {1, 0.1}, {0.05, 1}, {1, 0.02}, {10, 0.1}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double cold = share(pairs[i], 2, 512, 0), warm = share(pairs[i], 2, 512, 64);
        print_message("%g and %g GB/s: %.1f%% of the sum at first, %.1f%% later\n", pairs[i][0], pairs[i][1], cold,
                      warm);
        assert_true(cold >= 80);
        assert_true(warm >= 90);
    }
}

static void test_many_lanes(void **state)
{
    static const double rates[] = {1, 0.7, 0.05, 1, 0.3, 0.9, 0.01, 1};
    assert_true(share(rates, 8, 1024, 64) >= 90);
}

/* A short payload does not wait for a slow lane. */
static void test_short_payloads_take_the_fast_lane(void **state)
{
    static const double rates[] = {0.01, 1};
    struct served lanes[2];
    void *stripe = begin(lanes, rates, 2);
    uint64_t now = carry(stripe, lanes, 2, 16, 1000000000);
    uint64_t slow = lanes[0].bytes, start = now;
    for (int i = 0; i < 100; i++)
        now = carry(stripe, lanes, 2, 2, now);
    assert_int_equal(lanes[0].bytes, slow);
    assert_true(now - start < 100 * (2 * SEGMENT + 2 * 20000 + 1000));
    free(stripe);
}

/* A lane that was slow is tried again, and gets its part when it is fast. */
static void test_recovery(void **state)
{
    static const double rates[] = {0.01, 1};
    struct served lanes[2];
    void *stripe = begin(lanes, rates, 2);
    uint64_t now = carry(stripe, lanes, 2, 256, 1000000000);
    lanes[0].rate = 1;
    now = carry(stripe, lanes, 2, 512, now);
    uint64_t before = lanes[0].bytes;
    now = carry(stripe, lanes, 2, 512, now);
    assert_in_range(lanes[0].bytes - before, 230ull * SEGMENT, 282ull * SEGMENT);
    free(stripe);
}

/* Payloads one after the other, until a time. */
static uint64_t carry_until(void *state, struct served *lanes, int segments, uint64_t now, uint64_t end)
{
    while (now < end)
        now = carry(state, lanes, 2, segments, now);
    return now;
}

/* Two lanes are alike but for a short time, and alike again two seconds later. */
static void test_hiccup(void **state)
{
    static const double rates[] = {0.02, 0.02}, slow[] = {0.005, 0.001, 0.0005};
    static const int lengths[] = {2, 8, 32};
    for (int i = 0; i < 9; i++) {
        struct served lanes[2];
        void *stripe = begin(lanes, rates, 2);
        uint64_t now = carry(stripe, lanes, 2, 64, NS_PER_S);
        lanes[0].rate = slow[i / 3];
        now = carry_until(stripe, lanes, lengths[i % 3], now, now + 900 * NS_PER_MS);
        lanes[0].rate = rates[0];
        now = carry_until(stripe, lanes, lengths[i % 3], now, now + 2 * NS_PER_S);
        uint64_t before = lanes[0].bytes, all = before + lanes[1].bytes;
        carry_until(stripe, lanes, lengths[i % 3], now, now + NS_PER_S);
        double part = (double)(lanes[0].bytes - before) / (double)(lanes[0].bytes + lanes[1].bytes - all);
        print_message("%g GB/s for 0.9 s, %d segments: %.0f%% two seconds later\n", slow[i / 3], lengths[i % 3],
                      100 * part);
        assert_true(part >= 0.45);
        free(stripe);
    }
}

/* A lane that stays slow costs a segment after ever longer pauses. */
static void test_slow_lane_is_left_alone(void **state)
{
    static const double rates[] = {0.001, 1};
    struct served lanes[2];
    void *stripe = begin(lanes, rates, 2);
    uint64_t now = carry(stripe, lanes, 2, 16, NS_PER_S), before = lanes[0].bytes;
    carry_until(stripe, lanes, 2, now, now + 100 * NS_PER_S);
    assert_in_range((lanes[0].bytes - before) / SEGMENT, 4, 12);
    free(stripe);
}

/* After a second without news. */
static void test_tries_again(void **state)
{
    static const double rates[] = {0.001, 1};
    struct served lanes[2];
    void *stripe = begin(lanes, rates, 2);
    uint64_t now = carry(stripe, lanes, 2, 16, 1000000000), slow = lanes[0].bytes;
    carry(stripe, lanes, 2, 2, now + 500 * NS_PER_MS);
    assert_int_equal(lanes[0].bytes, slow);
    carry(stripe, lanes, 2, 2, now + NS_PER_S);
    assert_true(lanes[0].bytes > slow);
    free(stripe);
}

/* Lanes of which nothing is known yet: that of the NIC with less under way, for other links, too. */
static void test_nic(void **state)
{
    struct path_nic busy = {.outstanding = 1000}, idle = {0};
    struct path_lane lanes[2] = {{.index = 0, .room = true, .nic = &busy}, {.index = 1, .room = true, .nic = &idle}};
    const struct path_lane *views[] = {&lanes[0], &lanes[1]};
    void *stripe = calloc(1, policy.state_bytes);
    struct path_payload payload = {.left = SEGMENT};
    assert_int_equal(policy.pick(stripe, views, 2, &payload, SEGMENT, 1), 1);
    idle.outstanding = 2000;
    assert_int_equal(policy.pick(stripe, views, 2, &payload, SEGMENT, 1), 0);
    busy.elsewhere = 1001; /* of other processes of the host */
    assert_int_equal(policy.pick(stripe, views, 2, &payload, SEGMENT, 1), 1);
    free(stripe);
}

/* Short payloads one after the other go by all lanes that are alike, or nearly. */
static void test_near_equals_take_turns(void **state)
{
    static const double rates[][4] = {{1, 1, 1, 1}, {1, 0.97, 1.03, 1}, {1, 0.8, 1, 0.85}};
    for (int planned = 0; planned < 2; planned++) {
        setenv("TUTTI_PATHS", planned ? "4:0" : "", 1);
        param_reload();
        for (int i = 0; i < 2 + planned; i++) {
            struct served lanes[4];
            void *stripe = begin(lanes, rates[i], 4);
            uint64_t now = NS_PER_S;
            for (int payload = 0; payload < 100; payload++)
                now = carry(stripe, lanes, 4, 2, now);
            for (int lane = 0; lane < 4; lane++)
                assert_in_range(lanes[lane].bytes, 48ull * SEGMENT, 52ull * SEGMENT);
            free(stripe);
        }
    }
    unsetenv("TUTTI_PATHS");
    param_reload();
}

/* Bytes of a segment of a payload, of `count` lanes of `rate` Mbit/s. */
static uint64_t cut(uint32_t rate, int count, uint64_t bytes)
{
    struct path_nic rated = {.about.rate = rate};
    struct path_lane lane = {.nic = &rated};
    const struct path_lane *views[] = {&lane, &lane, &lane, &lane, &lane, &lane, &lane, &lane};
    return policy.segment(NULL, views, count, &(struct path_payload){.left = bytes}, SEGMENT);
}

static void test_short_payloads_are_cut_for_all_lanes(void **state)
{
    assert_int_equal(cut(10000, 4, SEGMENT), SEGMENT / 4);
    assert_int_equal(cut(10000, 4, 2 * SEGMENT), SEGMENT / 2);
    assert_int_equal(cut(10000, 4, 3 * SEGMENT), 3 * SEGMENT / 4); /* 4 pieces */
    assert_int_equal(cut(10000, 4, 4 * SEGMENT), SEGMENT);
    assert_int_equal(cut(10000, 4, 5 * SEGMENT), 5 * SEGMENT / 8); /* two for each lane, instead of two for one */
    assert_int_equal(cut(10000, 3, 2 * SEGMENT), 352256);          /* whole pages */
    assert_int_equal(cut(10000, 8, 131072), 16384);
    assert_int_equal(cut(10000, 8, 65536), 16384); /* shorter pieces would cost more than they bring: */
    assert_int_equal(cut(100000, 8, 131072), 65536);
    assert_int_equal(cut(400000, 4, SEGMENT), SEGMENT / 2);
    assert_int_equal(cut(10000, 1, 2 * SEGMENT), SEGMENT);
    assert_int_equal(cut(10000, 0, 2 * SEGMENT), SEGMENT);
    assert_int_equal(cut(0, 4, 2 * SEGMENT), SEGMENT); /* of TCP nobody knows */
    assert_int_equal(cut(10000, 4, 1), SEGMENT);
}

/* Lanes that take turns carry alike, so the slowest sets the pace of all. */
static void test_turns(void **state)
{
    static const double rates[] = {1, 0.25, 1};
    struct served lanes[3];
    setenv("TUTTI_STRIPE", "turns", 1);
    param_reload();
    void *stripe = begin(lanes, rates, 3);
    uint64_t time = carry(stripe, lanes, 3, 300, 1000000000) - 1000000000;
    unsetenv("TUTTI_STRIPE");
    param_reload();
    for (int i = 0; i < 3; i++)
        assert_int_equal(lanes[i].bytes, 100ull * SEGMENT);
    assert_in_range(time, (uint64_t)(100 * SEGMENT / 0.25), (uint64_t)(102 * SEGMENT / 0.25));
    free(stripe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unequal_lanes_share_by_rate),
        cmocka_unit_test(test_many_lanes),
        cmocka_unit_test(test_short_payloads_take_the_fast_lane),
        cmocka_unit_test(test_recovery),
        cmocka_unit_test(test_hiccup),
        cmocka_unit_test(test_slow_lane_is_left_alone),
        cmocka_unit_test(test_tries_again),
        cmocka_unit_test(test_nic),
        cmocka_unit_test(test_near_equals_take_turns),
        cmocka_unit_test(test_short_payloads_are_cut_for_all_lanes),
        cmocka_unit_test(test_turns),
    };
    policy = path_complete(&path_stripe);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
