/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts went through, by day: what counts, what is kept, and files that are none. */
#include "days/days.h"

#include "base/clock.h"
#include "base/error.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY_NS (24ull * 3600 * NS_PER_S)
#define NOON   (20000 * DAY_NS + DAY_NS / 2) /* 2024-10-04 */

static void event(struct blackbox *box, uint64_t number, uint32_t kind)
{
    box->events[box->event_count++] = (struct blackbox_event){.number = number, .kind = kind};
}

static void test_counts(void **state)
{
    struct days days;
    struct blackbox_event events[8];
    struct blackbox box = {.header = {.pid = 5}, .alive = true, .now = NS_PER_S, .events = events};
    assert_true(days_open(&days));
    event(&box, 1, WIRE_EVENT_LANE_DOWN);
    box.pauses[box.pause_count++] = (struct blackbox_pause){.count = 9, .longest = NS_PER_S};
    box.pauses[box.pause_count++] = (struct blackbox_pause){.count = 3, .longest = 5 * NS_PER_S};
    days_note(&days, &box, "h3", NOON); /* what was before this look does not count */
    assert_int_equal(days.count, 0);
    event(&box, 2, WIRE_EVENT_LANE_DOWN);
    event(&box, 3, WIRE_EVENT_LANE_BACK);
    event(&box, 4, WIRE_EVENT_LANE_DOWN);
    box.pauses[0].count += 5, box.pauses[1].count += 2;
    days_note(&days, &box, "h3", NOON);
    days_note(&days, &box, "h3", NOON);
    assert_int_equal(days.count, 1);
    assert_true(days.rows->lanes == 2 && days.rows->pauses == 2 && days.rows->slow == 0 && days.rows->changed);
    days_note_verdict(&days, "h3", FINDING_SLOW, NOON + DAY_NS);
    days_note_verdict(&days, "h3", FINDING_SLOW, NOON + DAY_NS);
    days_note_verdict(&days, "", FINDING_SLOWED, NOON); /* of no host */
    assert_int_equal(days.count, 2);
    assert_int_equal(days.rows[1].verdicts[FINDING_SLOW], 2);
    assert_string_equal(days.rows[1].day, "2024-10-05");
    days_close(&days);
}

/* 20 calls a second for ten minutes, and one for two, all of the time in calls: two slow minutes. */
static void test_slow_minutes(void **state)
{
    struct days days;
    struct blackbox_op op = {.state = WIRE_OP_RUNNING, .begin = 1};
    struct blackbox_comm comm = {.ops = &op, .op_count = 1, .opened = 1};
    struct blackbox box = {.header = {.pid = 5}, .alive = true, .comms = &comm, .comm_count = 1};
    assert_true(days_open(&days));
    for (uint64_t i = 0; i < 73; i++) {
        const struct blackbox_sample *last = i ? &box.samples[i - 1] : &(struct blackbox_sample){0};
        box.samples[i] = (struct blackbox_sample){(i + 1) * 10 * NS_PER_S, last->calls + (i < 61 ? 200 : 10),
                                                  last->bytes + (i < 61 ? 200 : 10)};
    }
    for (box.sample_count = 10; box.sample_count <= 73; box.sample_count++) {
        box.now = box.samples[box.sample_count - 1].at;
        days_note(&days, &box, "h3", NOON + box.now);
    }
    assert_int_equal(days.count, 1);
    assert_in_range(days.rows->slow, 2, 3);
    days_close(&days);
}

static void test_file(void **state)
{
    struct days days, again;
    char dir[] = "/tmp/tutti-days-XXXXXX", path[64], text[512] = "";
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/days", dir);
    assert_true(days_open(&days) && days_open(&again));
    assert_int_equal(days_load(&days, path), TUTTI_SUCCESS); /* none so far */
    for (unsigned i = 0; i < DAYS_MOST + 10; i++) {
        char host[16];
        snprintf(host, sizeof host, "h%u", i % 100);
        days_note_verdict(&days, host, FINDING_LINK, NOON + i / 100 * DAY_NS);
    }
    assert_int_equal(days.count, DAYS_MOST); /* the oldest have gone */
    assert_true(strcmp(days.rows[0].day, "2024-10-04") == 0 && days.rows[DAYS_MOST - 1].verdicts[FINDING_LINK] == 1);
    assert_int_equal(days_save(&days, path), TUTTI_SUCCESS);
    assert_int_equal(days_load(&again, path), TUTTI_SUCCESS);
    assert_int_equal(again.count, DAYS_MOST);
    assert_false(days_changed(&again));
    for (size_t i = 0; i < DAYS_MOST; i++) {
        assert_string_equal(again.rows[i].host, days.rows[i].host);
        assert_memory_equal(again.rows[i].verdicts, days.rows[i].verdicts, sizeof days.rows[i].verdicts);
    }
    static const char *const wrong[] = {"nonsense\n", "2024-10-04 h\x1b[3m lanes 1 pauses 2 slow 3 verdicts -\n",
                                        "2024/10/04 h3 lanes 1 pauses 2 slow 3 verdicts -\n"};
    for (size_t i = 0; i < 3; i++) {
        FILE *out = fopen(path, "w");
        fputs(wrong[i], out);
        fclose(out);
        assert_int_equal(days_load(&again, path), TUTTI_INVALID_USAGE);
    }
    assert_int_equal(days_save(&days, dir), TUTTI_SYSTEM_ERROR); /* a folder */
    snprintf(text, sizeof text, "%s.new", dir);
    unlink(text);
    assert_int_equal(days_load(&again, dir), TUTTI_SYSTEM_ERROR);
    unlink(path);
    mkfifo(path, 0600);
    assert_int_equal(days_load(&again, path), TUTTI_SUCCESS); /* does not wait for a writer */
    unlink(path);
    rmdir(dir);
    days_close(&days);
    days_close(&again);
}

static void test_print(void **state)
{
    struct days days;
    struct day_row row;
    char *text = NULL;
    size_t size;
    assert_true(days_open(&days));
    static const char *const lines[] = {"2026-11-20 h1 lanes 9 pauses 0 slow 0 verdicts slow:9",
                                        "2026-11-22 h3 lanes 4 pauses 12 slow 7 verdicts slow:2,link:1",
                                        "2026-11-23 h1 lanes 1 pauses 0 slow 0 verdicts -",
                                        "2026-11-24 h3 lanes 0 pauses 1 slow 0 verdicts slow:1,unheard-of:4",
                                        "2026-11-25 h1 lanes 0 pauses 1 slow 0 verdicts -",
                                        "2026-11-26 h1 lanes 0 pauses 1 slow 0 verdicts -",
                                        "2026-11-27 h1 lanes 0 pauses 1 slow 0 verdicts -",
                                        "2026-11-28 h1 lanes 0 pauses 1 slow 0 verdicts -"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(days_read_row(lines[i], &row) && days_add(&days, &row));
    assert_true(days_read_row(lines[2], &row) && days_add(&days, &row)); /* the same day once more is added */
    assert_int_equal(days.rows[2].lanes, 2);
    FILE *out = open_memstream(&text, &size);
    days_print(&days, out);
    fclose(out);
    const char *h3 = strstr(
                   text,
                   "\nh3                                4       13        7  slow:3,link:1, on 2 of these days\n"),
               *h1 = strstr(text, "\nh1                                2        4        0  -\n");
    if (!h3 || !h1 || h3 > h1)
        fail_msg("%s", text);
    free(text);
    days_close(&days);
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_slow_minutes),
                                       cmocka_unit_test(test_file), cmocka_unit_test(test_print)};
    return cmocka_run_group_tests_name("days", tests, NULL, NULL);
}
