/* SPDX-License-Identifier: Apache-2.0 */
/* A host that was late tells nothing of the network: neither what it lost, nor the rate of a train. */
#include "pathagent/arrivals.h"
#include "pathagent/tries.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATHS 3
#define RATE  1250000u /* bytes per second: 10 Mbit/s */

static struct tries tries;

static void begin(void)
{
    struct try_task task[PATHS];
    const uint64_t random[PATHS] = {1 << 20, 2 << 20, 3 << 20};
    for (unsigned i = 0; i < PATHS; i++)
        task[i] = (struct try_task){.ticket = i + 1, .port = 0xC000, .back = 1, .trains = true};
    memset(&tries, 0, sizeof tries);
    tries_set(&tries, task, random, PATHS, NS_PER_S);
}

static void send_one(const struct try_send *send, uint32_t seq, uint64_t now)
{
    struct probe_ends ends;
    struct probe probe;
    tries_fill(&tries, send, seq, now, 7, &ends, &probe);
    tries_sent(&tries, send, seq, &ends, now);
}

/* A train that took `took` to be sent in its second half, and arrived at this rate. */
static void train(int path, uint64_t now, uint64_t took, uint32_t rate)
{
    const struct try_send send = {.kind = PROBE_TRAIN, .path = path};
    struct probe_ends ends = {.ident = 0};
    for (uint32_t seq = 0; seq < TRY_TRAIN; seq++)
        send_one(&send, seq, seq <= TRY_TRAIN / 2 ? now : now + took);
    const struct probe answer = {.kind = PROBE_ANSWER,
                                 .session = tries.path[path].session,
                                 .seq = TRY_TRAIN - 1,
                                 .rate = rate,
                                 .stamp = tries.path[path].train};
    tries_answer(&tries, &ends, &answer, now + NS_PER_S);
}

static void slow_trains_count_if_the_host_was_quick(void **state)
{
    begin();
    for (int i = 0; i < PATHS; i++)
        train(i, (uint64_t)(2 + i) * NS_PER_S, NS_PER_MS, RATE);
    train(1, 10 * NS_PER_S, 140 * NS_PER_MS, RATE / 2); /* 63 packets of it take 146 ms or less */
    assert_int_equal(tries.torn, 1);
    assert_int_equal(tries.path[1].rate, RATE);
    assert_int_equal(tries.path[1].trains, 1);
    assert_true(tries.path[1].doubt);
    train(1, 12 * NS_PER_S, NS_PER_MS, RATE / 2);
    assert_int_equal(tries.torn, 1);
    assert_int_equal(tries.path[1].rate, RATE / 2);
    for (int i = 0; i < PATHS; i++) /* a link that is faster than the host: all trains are as slow as the host */
        train(i, (uint64_t)(20 + i) * NS_PER_S, 63ull * PROBE_PACKET * NS_PER_S / RATE, RATE);
    assert_int_equal(tries.torn, 1);
    assert_int_equal(tries.path[1].rate, RATE);
}

/* The answer to probe `seq`, that `arrived` probes have arrived. */
static void hear(uint32_t seq, uint32_t arrived, uint32_t dropped)
{
    struct probe_ends ends = {.ident = 0};
    const struct probe answer = {.kind = PROBE_ANSWER,
                                 .session = tries.path[0].session,
                                 .seq = seq,
                                 .arrived = arrived,
                                 .dropped = dropped,
                                 .stamp = NS_PER_S};
    tries_answer(&tries, &ends, &answer, 2 * NS_PER_S);
}

static void losses_of_a_late_host_do_not_count(void **state)
{
    const struct try_send one = {.kind = PROBE_ONE};
    begin();
    for (uint32_t i = 0; i < 20; i++)
        send_one(&one, 0, NS_PER_S);
    hear(4, 5, 0);
    hear(9, 9, 1); /* one is lost, and the far host was late */
    assert_int_equal(tries.path[0].judged, 5);
    hear(10, 10, 2); /* it is late all the time; nothing is lost */
    assert_int_equal(tries.path[0].judged, 6);
    assert_int_equal(tries.path[0].lost, 0);
    hear(14, 13, 2);
    assert_int_equal(tries.path[0].judged, 10);
    assert_int_equal(tries.path[0].lost, 1);
}

/* 128 packets, a millisecond between them. The rate that the last one's answer tells; 0: it has no answer. */
static uint64_t arrive(struct arrivals *arrivals, uint64_t stamp, uint64_t lag)
{
    const struct probe_ends ends = {.from_port = 0xC000};
    struct probe probe = {.kind = PROBE_TRAIN, .session = 5, .arrived = TRY_TRAIN, .stamp = stamp}, answer = {0};
    bool told = false;
    for (; probe.seq < TRY_TRAIN; probe.seq++)
        told = arrivals_take(arrivals, &ends, &probe, 1000, stamp + probe.seq * NS_PER_MS, probe.seq == 90 ? lag : 0,
                             &answer);
    return told ? answer.rate : 0;
}

static void a_train_tells_nothing_to_a_late_host(void **state)
{
    struct arrivals *arrivals = calloc(1, sizeof *arrivals);
    assert_non_null(arrivals);
    assert_int_equal(arrive(arrivals, NS_PER_S, 45 * NS_PER_MS), 1000000);
    assert_int_equal(arrive(arrivals, 2 * NS_PER_S, 55 * NS_PER_MS), 0);
    assert_int_equal(arrive(arrivals, 3 * NS_PER_S, 0), 1000000);
    free(arrivals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_trains_count_if_the_host_was_quick),
        cmocka_unit_test(losses_of_a_late_host_do_not_count),
        cmocka_unit_test(a_train_tells_nothing_to_a_late_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
