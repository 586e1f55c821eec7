/* SPDX-License-Identifier: Apache-2.0 */
/* How long one connection is tried, before a listener whose queue is full. Time is made to pass by dial_tick. */
#include "base/clock.h"
#include "base/poller.h"
#include "bootstrap/dial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#define ATTEMPTS 6

struct scene {
    struct dial dial;
    struct bootstrap_counters counters;
    int listener;
    int first; /* has the only place in the queue */
};

static void open_scene(struct scene *scene)
{
    static const struct dial_calls none;
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    assert_int_equal(net_listen(&at, 1, &scene->listener), TUTTI_SUCCESS);
    assert_int_equal(listen(scene->listener, 0), 0);
    scene->first = net_connect(&at);
    assert_true(scene->first >= 0);
    scene->dial = (struct dial){.calls = &none, .counters = &scene->counters, .to = at};
    assert_int_equal(poller_open(&scene->dial.poller), TUTTI_SUCCESS);
}

static void close_scene(struct scene *scene)
{
    dial_stop(&scene->dial);
    poller_close(scene->dial.poller);
    close(scene->first);
    close(scene->listener);
}

/* Begins an attempt; returns how long it may take in ms. */
static uint64_t begin(struct dial *dial)
{
    uint64_t now = dial_due(dial);
    dial_tick(dial, now);
    assert_int_equal(dial->state, DIAL_CONNECTING);
    return (dial_due(dial) - now) / NS_PER_MS;
}

/* The time of an attempt is over, without a word. */
static void pass_time(struct dial *dial)
{
    dial_tick(dial, dial_due(dial));
    assert_int_equal(dial->state, DIAL_IDLE);
}

/* The listener takes who waits; the connection of the dial is next. Returns how long its word is waited for in ms. */
static uint64_t come_through(struct scene *scene)
{
    close(accept(scene->listener, NULL, NULL));
    begin(&scene->dial);
    while (scene->dial.state == DIAL_CONNECTING)
        poller_wait(scene->dial.poller, 1000);
    assert_int_equal(scene->dial.state, DIAL_CHALLENGED);
    return (dial_due(&scene->dial) - clock_ns()) / NS_PER_MS;
}

static void attempts_stay_short(void **state)
{
    struct scene scene = {0};
    open_scene(&scene);
    for (int i = 0; i < ATTEMPTS; i++) {
        assert_in_range(begin(&scene.dial), 500, 1000);
        pass_time(&scene.dial);
    }
    assert_in_range(come_through(&scene), 1, 3000);
    close_scene(&scene);
}

static void silence_is_given_more_time(void **state)
{
    static const uint64_t most[] = {3000, 6000, 12000, 24000, 24000};
    struct scene scene = {0};
    open_scene(&scene);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        uint64_t patience = come_through(&scene);
        assert_in_range(patience, most[i] / 2, most[i]);
        pass_time(&scene.dial);
    }
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_stay_short),
        cmocka_unit_test(silence_is_given_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
