/* SPDX-License-Identifier: Apache-2.0 */
/* A program hears of verdicts that an agent leaves in the folder of the black boxes. */
#include "wire/verdicts.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/tutti-verdicts-XXXXXX";

/* Waits by the descriptor alone. */
static void expect_news(tutti_events_t events, int fd, int kind, int rank, const char *text)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    tutti_event_t event = {.size = sizeof event};
    assert_int_equal(poll(&ready, 1, 20000), 1);
    assert_int_equal(tutti_events_next(events, &event), TUTTI_SUCCESS);
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.rank, rank);
    assert_int_equal(event.process, 17);
    assert_string_equal(event.text, text);
}

static void expect_none(tutti_events_t events, int fd)
{
    tutti_event_t event = {.size = sizeof event};
    assert_int_equal(tutti_events_next(events, &event), TUTTI_IN_PROGRESS);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
}

/* What an agent leaves, also of a master that has begun anew, and files that are none. */
static void verdicts_are_told_once(void **state)
{
    char path[128];
    struct verdict_list list = {.magic = VERDICTS_MAGIC,
                                .version = VERDICTS_VERSION,
                                .master = 5,
                                .count = 1,
                                .news = {{.number = 1, .rank = 0, .process = 17, .text = "old"}}};
    tutti_events_t events, late;
    int fd, other;
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS);
    assert_int_equal(tutti_events_open(&events, &fd), TUTTI_SUCCESS);
    expect_none(events, fd); /* from now on */
    list.news[list.count++] = (struct verdict_news){.number = 2, .rank = 3, .process = 17, .text = "rank 3\nis late"};
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS);
    expect_news(events, fd, TUTTI_EVENT_VERDICT, 3, "rank 3 is late");
    assert_int_equal(tutti_events_open(&late, &other), TUTTI_SUCCESS);
    list.news[list.count++] = (struct verdict_news){.number = 3, .rank = -9, .process = 17, .over = 1, .text = "over"};
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS);
    expect_news(late, other, TUTTI_EVENT_VERDICT_OVER, -1, "over");
    expect_news(events, fd, TUTTI_EVENT_VERDICT_OVER, -1, "over");
    expect_none(events, fd);
    list.master = 6;
    list.count = 1;
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS);
    expect_news(events, fd, TUTTI_EVENT_VERDICT, 0, "old");
    list.master = 5;
    list.count = 3;
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS); /* known, though another master told between */
    expect_none(events, fd);
    list.magic = 0;
    list.master = 7;
    assert_int_equal(verdicts_write(folder, &list), TUTTI_SUCCESS);
    expect_none(events, fd);
    tutti_events_close(late);
    tutti_events_close(events);
    verdicts_path(folder, (uint32_t)geteuid(), path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing half made is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(verdicts_are_told_once)};
    if (!mkdtemp(folder))
        return 1;
    setenv("TUTTI_TRACE_DIR", folder, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
