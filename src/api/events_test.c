/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of events that are full, and several listeners. */
#include "base/events.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static bool readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

static void tell(int number)
{
    events_tell(&(tutti_event_t){.kind = TUTTI_EVENT_WAITING, .rank = number, .lane = -1}, "number %d", number);
}

static void a_full_queue_keeps_the_latest(void **state)
{
    tutti_events_t slow, quick;
    tutti_event_t event = {.size = sizeof event};
    int fd, other;
    (void)state;
    tell(-1);
    assert_false(events_wanted());
    assert_int_equal(tutti_events_open(&slow, &fd), TUTTI_SUCCESS);
    assert_int_equal(tutti_events_open(&quick, &other), TUTTI_SUCCESS);
    assert_true(events_wanted());
    for (int i = 0; i < 300; i++) {
        tell(i);
        assert_true(readable(other));
        assert_int_equal(tutti_events_next(quick, &event), TUTTI_SUCCESS);
        assert_int_equal(event.rank, i);
        assert_int_equal(event.missed, 0);
        assert_false(readable(other));
        assert_int_equal(tutti_events_next(quick, &event), TUTTI_IN_PROGRESS);
    }
    assert_int_equal(tutti_events_close(quick), TUTTI_SUCCESS);
    for (int i = 300 - 256; i < 300; i++) {
        assert_true(readable(fd));
        assert_int_equal(tutti_events_next(slow, &event), TUTTI_SUCCESS);
        assert_int_equal(event.rank, i);
        assert_int_equal(event.missed, i == 300 - 256 ? 300 - 256 : 0);
    }
    assert_string_equal(event.text, "number 299");
    assert_false(readable(fd));
    assert_int_equal(tutti_events_close(slow), TUTTI_SUCCESS);
    assert_false(events_wanted());
}

static void wrong_arguments_are_refused(void **state)
{
    tutti_events_t events;
    tutti_event_t event = {.size = 0};
    int fd;
    (void)state;
    assert_int_equal(tutti_events_open(NULL, &fd), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_events_open(&events, NULL), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_events_next(NULL, &event), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_events_open(&events, &fd), TUTTI_SUCCESS);
    assert_int_equal(tutti_events_next(events, NULL), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_events_next(events, &event), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_events_close(events), TUTTI_SUCCESS);
    assert_int_equal(tutti_events_close(NULL), TUTTI_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_full_queue_keeps_the_latest),
                                       cmocka_unit_test(wrong_arguments_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
