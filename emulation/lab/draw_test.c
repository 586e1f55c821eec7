/* SPDX-License-Identifier: Apache-2.0 */
/* Balance, tables, JSON and pictures of made-up counters. */
#include "wiring/config.h"
#include "lab/draw.h"
#include "lab/report.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_balance(void **state)
{
    struct balance even = balance_of((uint64_t[]){5, 5, 5, 5}, 4), one = balance_of((uint64_t[]){0, 8, 0, 0}, 4);
    assert_true(even.mean == 5 && even.variance == 0 && even.max_over_mean == 1);
    assert_true(one.mean == 2 && one.variance == 12 && one.max_over_mean == 4);
    assert_true(balance_of(NULL, 0).max_over_mean == 1);
    assert_true(balance_of((uint64_t[]){0, 0}, 2).max_over_mean == 1);
}

static void load(const char *yaml, struct lab_topology *topology, struct counters *counters)
{
    assert_int_equal(config_parse("t", yaml, strlen(yaml), topology), TUTTI_SUCCESS);
    *counters = (struct counters){.topology = topology,
                                  .links = calloc((size_t)topology->link_count + 1, sizeof *counters->links)};
    assert_non_null(counters->links);
    for (int i = 0; i < topology->link_count; i++)
        counters->links[i] =
            (struct counters_link){.up = {(uint64_t)i * 1000000, (uint64_t)i, 0}, .rate = topology->links[i].rate};
}

/* Even over the uplinks of the only leaf that sends is even, also where other leaves send nothing. */
static void test_one_way(void **state)
{
    struct lab_topology topology;
    struct counters counters;
    load("name: a\n", &topology, &counters);
    for (int i = 0; i < topology.link_count; i++) {
        const struct lab_link *link = &topology.links[i];
        bool sends = link->uplink && topology.nodes[link->lower.node].index == 0;
        counters.links[i].up.bytes = sends ? 4000 : 0;
    }
    struct balance all = counters_balance(&counters, -1, true);
    assert_true(all.max_over_mean == 1 && all.variance == 0 && all.mean == 2000);
    counters_free(&counters);
    topology_free(&topology);
}

/* Elements are closed in the order in which they were opened, attributes are quoted, and there is one root. */
static void check_well_formed(const char *xml)
{
    char open[16][24];
    int depth = 0, roots = 0;
    for (const char *at = strchr(xml, '<'); at; at = strchr(at, '<')) {
        bool closing = at[1] == '/';
        const char *name = at + 1 + closing, *end = strchr(at, '>');
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz"), quotes = 0;
        assert_non_null(end);
        assert_true(length > 0 && length < sizeof open[0]);
        for (const char *p = at; p < end; p++)
            quotes += *p == '"';
        assert_true(quotes % 2 == 0);
        if (closing) {
            assert_true(--depth >= 0 && strlen(open[depth]) == length && strncmp(open[depth], name, length) == 0);
        } else if (end[-1] != '/') {
            roots += depth == 0;
            assert_true(depth < 16);
            memcpy(open[depth], name, length);
            open[depth++][length] = 0;
        }
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
    assert_null(strstr(xml, "nan"));
    assert_null(strstr(xml, "inf"));
}

static void draw_one(const char *yaml, double seconds, const char *expected)
{
    struct lab_topology topology;
    struct counters counters;
    struct text out = {0};
    load(yaml, &topology, &counters);
    counters.seconds = seconds;
    counters.links[0].state = COUNTERS_SILENT;
    assert_int_equal(draw_svg(&counters, &out), TUTTI_SUCCESS);
    check_well_formed(out.data);
    assert_non_null(strstr(out.data, expected));
    text_free(&out);
    counters_free(&counters);
    topology_free(&topology);
}

static void test_draw(void **state)
{
    draw_one("name: a\nrate: 200mbit\n", 0, "11.00 MB");
    draw_one("name: a\nrate: 200mbit\n", 2, "44.0 Mb/s");
    draw_one("name: a\nhosts: 1\nnics: 1\nleaves: 1\nspines: 0\n", 0, ">silent<");
    draw_one("name: a\nhosts: 64\nnics: 8\nleaves: 16\nspines: 8\nuplinks: 2\n", 1, "l15 received");
}

struct segment {
    double x, y, to_x, to_y;
};

/* The lines of a picture: paths with a stroke. */
static int read_segments(const char *svg, struct segment *out, int room)
{
    int count = 0;
    for (const char *at = strstr(svg, "<path d=\"M"); at; at = strstr(at + 1, "<path d=\"M")) {
        struct segment *next = &out[count];
        const char *end = strchr(at, '>');
        if (sscanf(at, "<path d=\"M%lf %lfL%lf %lf\" ", &next->x, &next->y, &next->to_x, &next->to_y) == 4 &&
            memmem(at, (size_t)(end - at), "stroke=", 7))
            assert_true(++count < room);
    }
    return count;
}

/* Is any point of the line in the box around a word? */
static bool is_under(const struct segment *line, double x, double y, double width, double height)
{
    for (int i = 0; i <= 400; i++) {
        double at_x = line->x + (line->to_x - line->x) * i / 400, at_y = line->y + (line->to_y - line->y) * i / 400;
        if (fabs(at_x - x) < width / 2 && fabs(at_y - y) < height / 2)
            return true;
    }
    return false;
}

/* The words of a class: how many there are. */
static int check_words(const char *svg, const char *class, const struct segment *lines, int count)
{
    char start[32];
    int words = 0;
    snprintf(start, sizeof start, "class=\"%s\"", class);
    for (const char *at = strstr(svg, start); at; at = strstr(at + 1, start), words++) {
        double x, y;
        char word[32];
        assert_int_equal(sscanf(at + strlen(start), " x=\"%lf\" y=\"%lf\">%31[^<]", &x, &y, word), 3);
        for (int i = 0; i < count; i++)
            if (is_under(&lines[i], x, y - 3.5, 6 * (double)strlen(word), 10))
                fail_msg("\"%s\" at %.1f %.1f lies on a line", word, x, y);
    }
    return words;
}

/* Every link is loaded both ways and one is broken: most have numbers, and none lies on a line. */
static void check_labels(const char *yaml)
{
    static struct segment lines[200];
    struct lab_topology topology;
    struct counters counters;
    struct text out = {0};
    load(yaml, &topology, &counters);
    for (int i = 0; i < topology.link_count; i++)
        counters.links[i].up = counters.links[i].down = (struct counters_side){10000000 + (uint64_t)i * 1000000, 1, 0};
    counters.links[topology.link_count - 1].state = COUNTERS_LOWER_DOWN;
    assert_int_equal(draw_svg(&counters, &out), TUTTI_SUCCESS);
    int count = read_segments(out.data, lines, 200);
    assert_int_equal(count, 2 * topology.link_count);
    int words = check_words(out.data, "amount", lines, count);
    assert_int_equal(check_words(out.data, "broken", lines, count), 1);
    assert_true(words >= 2 * topology.link_count * 8 / 10);
    text_free(&out);
    counters_free(&counters);
    topology_free(&topology);
}

static void test_labels(void **state)
{
    check_labels("name: clos\n");
    check_labels("name: dual\nleaves: 4\nwiring: rail\n");
    check_labels("name: over\nhosts: 8\nnics: 1\n");
    check_labels("name: one\nhosts: 1\nnics: 1\nleaves: 1\nspines: 0\n");
}

static void test_subtract(void **state)
{
    struct lab_topology topology;
    struct counters now, before;
    load("name: a\n", &topology, &now);
    before = now;
    before.links = calloc((size_t)topology.link_count, sizeof *before.links);
    assert_non_null(before.links);
    before.links[3].up.bytes = 1000000;
    before.links[4].up.bytes = 5000000; /* more than now: began again */
    counters_subtract(&now, &before, 2);
    assert_int_equal(now.links[3].up.bytes, 2000000);
    assert_int_equal(now.links[4].up.bytes, 4000000);
    assert_true(now.seconds == 2);
    counters_free(&before);
    counters_free(&now);
    topology_free(&topology);
}

static void test_report(void **state)
{
    struct lab_topology topology;
    struct counters counters;
    struct text out = {0};
    load("name: a\nrate: 200mbit\n", &topology, &counters);
    counters.links[8].state = COUNTERS_LOWER_DOWN;
    report_table(&counters, &out);
    assert_non_null(strstr(out.data, "l1.u1    s1.l1u1   200mbit   up                11000000"));
    assert_non_null(strstr(out.data, "down at leaf"));
    text_clear(&out);
    report_json(&counters, &out);
    assert_non_null(
        strstr(out.data, "{\"of\": \"l1\", \"sent\": {\"mean\": 10500000.0, \"variance\": 250000000000.0, "));
    text_clear(&out);
    report_hosts(&topology, false, &out);
    assert_non_null(strstr(out.data, "h3   n1   l1   10.1.3.3        fd10:1:3:1::1\n"));
    text_free(&out);
    counters_free(&counters);
    topology_free(&topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balance), cmocka_unit_test(test_one_way),  cmocka_unit_test(test_draw),
        cmocka_unit_test(test_labels),  cmocka_unit_test(test_subtract), cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
