/* SPDX-License-Identifier: Apache-2.0 */
/* Places as users write them, and the distances that follow. */
#include "base/error.h"
#include "base/param.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct wire_process at(const char *text)
{
    static uint64_t hosts;
    struct wire_process process = {.host = ++hosts};
    if (*text)
        assert_true(path_parse_place(text, process.place));
    return process;
}

static enum wire_distance distance(const char *one, const char *other)
{
    struct wire_process a = at(one), b = at(other);
    assert_int_equal(wire_distance(&a, &b), wire_distance(&b, &a));
    assert_int_equal(wire_distance(&a, &a), WIRE_DISTANCE_HOST);
    return wire_distance(&a, &b);
}

static void the_nearest_of_what_both_are_in(void **state)
{
    const char *here = "campus=c,building=b,zone=z,rack=r";
    assert_int_equal(distance(here, "rack=r,zone=z,building=b,campus=c"), WIRE_DISTANCE_RACK);
    assert_int_equal(distance(here, "campus=c,building=b,zone=z,rack=r2"), WIRE_DISTANCE_ZONE);
    assert_int_equal(distance(here, "campus=c,building=b,zone=z2,rack=r"),
                     WIRE_DISTANCE_BUILDING); /* another rack of the same name */
    assert_int_equal(distance(here, "campus=c,building=b2,zone=z,rack=r"), WIRE_DISTANCE_CAMPUS);
    assert_int_equal(distance(here, "campus=c2,building=b,zone=z,rack=r"), WIRE_DISTANCE_FAR);
}

static void what_is_not_told_is_one_and_the_same(void **state)
{
    assert_int_equal(distance("rack=1", "rack=1"), WIRE_DISTANCE_RACK);
    assert_int_equal(distance("rack=1", "rack=2"), WIRE_DISTANCE_ZONE);
    assert_int_equal(distance("zone=1", "zone=1"), WIRE_DISTANCE_ZONE); /* perhaps in two racks */
    assert_int_equal(distance("zone=1", "zone=1,rack=1"), WIRE_DISTANCE_ZONE);
    assert_int_equal(distance("zone=1,rack=1", "rack=1"), WIRE_DISTANCE_BUILDING);
    assert_int_equal(distance("campus=1", "campus=1"), WIRE_DISTANCE_CAMPUS);
    assert_int_equal(distance("", "rack=1"), WIRE_DISTANCE_FAR);
    assert_int_equal(distance("", ""), WIRE_DISTANCE_FAR);
    assert_int_equal(distance("rack=ab,zone=c", "rack=b,zone=ca"), WIRE_DISTANCE_BUILDING);
}

static void names_of_levels_follow_the_table(void **state)
{
    char text[64];
    for (unsigned i = 0; i < WIRE_PLACES; i++) {
        struct wire_process one = at(""), other = at("");
        snprintf(text, sizeof text, "%s=x", wire_distance_name(WIRE_DISTANCE_RACK + i));
        assert_true(path_parse_place(text, one.place) && path_parse_place(text, other.place));
        assert_int_equal(wire_distance(&one, &other), WIRE_DISTANCE_RACK + i);
    }
    assert_string_equal(wire_distance_name(WIRE_DISTANCES), "?");
}

static tutti_result_t told(const char *place, const char *file, struct wire_process *self)
{
    setenv("TUTTI_PLACE", place, 1);
    setenv("TUTTI_PLACE_FILE", file, 1);
    setenv("TUTTI_DEBUG", "none", 1);
    param_reload();
    *self = (struct wire_process){0};
    return path_settings(self);
}

static void places_that_are_none(void **state)
{
    static const char *const texts[] = {
        "r7",       "rack",          "rack=",   "=r7",      ",rack=1",       "rack=1,",       "rack=1,,zone=1",
        "rak=1",    "rack=1,rack=1", "rack =1", "rack=a b", "rack=1;zone=2", "host=h",        "far=1",
        "rack=1=2", "zone=1,rack",   " rack=1", "RACK=1",   "rackzone=1",    "rack=1 zone=2", "rack=\t"};
    struct wire_process self;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_false(path_parse_place(texts[i], self.place));
        assert_int_equal(told(texts[i], "", &self), TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(error_last(), "TUTTI_PLACE: \""));
        assert_non_null(strstr(error_last(), texts[i]));
    }
}

/* ---- Files ---- */

static char path[] = "/tmp/tutti-place-XXXXXX";

static void write_file(const char *format, const char *host)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, format, host);
    assert_int_equal(fclose(file), 0);
}

static tutti_result_t told_by_file(const char *format, struct wire_process *self)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    write_file(format, host);
    return told("", path, self);
}

static void the_first_line_that_fits(void **state)
{
    struct wire_process self, rack = at("zone=z1,rack=r1");
    static const char *const files[] = {"# hosts\n\nno-such-host rack=r9\n%s zone=z1,rack=r1\n* rack=r2\n",
                                        "%s\t zone=z1,rack=r1 \t# here\r\n", "* zone=z1,rack=r1",
                                        "  %s   zone=z1,rack=r1"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(told_by_file(files[i], &self), TUTTI_SUCCESS);
        assert_memory_equal(self.place, rack.place, sizeof rack.place);
    }
    assert_int_equal(told_by_file("no-such-host rubbish\n%s\n", &self), TUTTI_SUCCESS); /* its place is not told */
    assert_true(self.place[0] == 0 && self.place[WIRE_PLACES - 1] == 0);
    write_file("%s rubbish\n", "*");
    assert_int_equal(told("zone=z1,rack=r1", path, &self), TUTTI_SUCCESS);
    assert_memory_equal(self.place, rack.place, sizeof rack.place);
}

static void files_that_do_not_tell(void **state)
{
    struct wire_process self;
    assert_int_equal(told("", "/nonexistent/places", &self), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "cannot read /nonexistent/places: No such file"));
    assert_int_equal(told_by_file("no-such-host rack=1\n#%s rack=2\n", &self), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), " has no line for host "));
    assert_int_equal(told_by_file("\n\n%s rack=1 zone=1", &self), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), ", line 3: \"rack=1 zone=1\" is no place"));
    assert_int_equal(told("", "/", &self), TUTTI_INVALID_ARGUMENT);
}

static void random_texts_end_no_process(void **state)
{
    static const char letters[] = "rack=zone,buildg *\t#\n1";
    struct wire_process self;
    for (unsigned i = 0; i < 20000; i++) {
        char text[24] = "";
        for (unsigned j = 0; j < i % (sizeof text - 1); j++)
            text[j] = letters[(unsigned)rand() % (sizeof letters - 1)];
        struct path_windows windows;
        bool right = path_parse_place(text, self.place);
        assert_true(!right || self.place[WIRE_PLACES - 1]);
        path_parse_windows(text, &windows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_of_what_both_are_in),  cmocka_unit_test(what_is_not_told_is_one_and_the_same),
        cmocka_unit_test(names_of_levels_follow_the_table), cmocka_unit_test(places_that_are_none),
        cmocka_unit_test(the_first_line_that_fits),         cmocka_unit_test(files_that_do_not_tell),
        cmocka_unit_test(random_texts_end_no_process),
    };
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
