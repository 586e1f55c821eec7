/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that TUTTI_BACKUP keeps. */
#include "base/param.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct transport_nic nics[] = {
    {.name = "mlx5_0", .port = 1}, {.name = "mlx5_0", .port = 2}, {.name = "mlx5_1", .port = 1}};

/* Roles of the lanes, a letter each: d, b, and upper case for those that carry messages too. */
static const char *roles(const char *wish, struct path_question question)
{
    static char text[LINK_MAX_LANES + 1];
    struct path_wish wishes[LINK_MAX_LANES];
    setenv("TUTTI_BACKUP", wish, 1);
    param_reload();
    question.nic = nics;
    int count = path_lanes_and_backups(NULL, &question, wishes);
    for (int i = 0; i < count; i++) {
        unsigned data = wishes[i].roles & (PATH_DATA | PATH_BACKUP);
        text[i] = "-db?"[data == PATH_BACKUP ? 2 : data == PATH_DATA ? 1 : data ? 3 : 0];
        if (wishes[i].roles & PATH_CONTROL)
            text[i] = text[i] == '-' ? 'm' : (char)(text[i] - 'a' + 'A');
    }
    text[count] = 0;
    return text;
}

static void lanes_of_named_interfaces_are_kept(void **state)
{
    const struct path_question data = {.likely = 6, .most = 8, .nics = 3};
    assert_string_equal(roles("", data), "dddddd");
    assert_string_equal(roles("mlx5_1", data), "ddbddb");
    assert_string_equal(roles("mlx5_0", data), "bbdbbd");
    assert_string_equal(roles("=mlx5_0:2", data), "dbddbd");
    assert_string_equal(roles("mlx5_0:2,mlx5_1", data), "dbbdbb");
    assert_string_equal(roles("^mlx5_0:1", data), "dbbdbb");
    assert_string_equal(roles("^mlx5_1", data), "bbdbbd");
    assert_string_equal(roles("eth", data), "dddddd");
    assert_string_equal(roles("mlx5", data), "dddddd"); /* all: then none is */
}

static void messages_go_on(void **state)
{
    const struct path_question both = {.messages = true, .data = true, .likely = 3, .most = 8, .nics = 3},
                               beside = {.messages = true, .likely = 3, .most = 8, .nics = 3},
                               untold = {.messages = true, .data = true, .likely = 2, .most = 8};
    assert_string_equal(roles("=mlx5_0:1", both), "Bdd");
    assert_string_equal(roles("mlx5_1", both), "Ddb");
    assert_string_equal(roles("mlx5_1", beside), "m--");
    assert_string_equal(roles("mlx5_1", untold), "Dd");
}

/* The nearest share, the others are kept for their failure; not where the distance of any is unknown. */
static void farther_ones_are_kept(void **state)
{
    const struct path_question data = {.likely = 6, .most = 8, .nics = 3};
    const int far[][3] = {{10, 21, 10}, {21, 32, 32}, {10, 10, 10}, {10, 21, 0}};
    static const char *const expected[] = {"dbddbd", "dbbdbb", "dddddd", "dddddd"};
    for (int i = 0; i < 4; i++) {
        for (int n = 0; n < 3; n++)
            nics[n].distance = far[i][n];
        assert_string_equal(roles("", data), expected[i]);
        assert_string_equal(roles("auto", data), expected[i]);
        assert_string_equal(roles("none", data), "dddddd");
        assert_string_equal(roles("mlx5_1", data), "ddbddb"); /* named ones, and no others */
    }
    for (int n = 0; n < 3; n++)
        nics[n].distance = 0;
}

static void fewer_queue_pairs_to_the_near(void **state)
{
    struct path_question data = {.likely = 6, .most = 8, .nics = 3};
    const char *const texts[] = {"rack=1,campus=4", "rack=0", "campus=1", "rack=1/4K", "rack=1@5", "rack"};
    const char *const expected[] = {"ddd", "dddddd", "dddddd", "dddddd", "dddddd", "dddddd"};
    data.distance = WIRE_DISTANCE_RACK;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("TUTTI_QUEUES", texts[i], 1);
        assert_string_equal(roles("", data), expected[i]);
    }
    setenv("TUTTI_QUEUES", "rack=1,campus=4", 1);
    assert_string_equal(roles("mlx5_1", data), "ddb");
    data.distance = WIRE_DISTANCE_CAMPUS;
    assert_string_equal(roles("", data), "dddddd"); /* no more than there are */
    data.distance = WIRE_DISTANCE_FAR;
    assert_string_equal(roles("", data), "dddddd");
    data.distance = WIRE_DISTANCE_RACK;
    data.messages = true; /* TCP */
    data.nics = 0;
    assert_string_equal(roles("", data), "m-----");
    unsetenv("TUTTI_QUEUES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_of_named_interfaces_are_kept),
        cmocka_unit_test(messages_go_on),
        cmocka_unit_test(farther_ones_are_kept),
        cmocka_unit_test(fewer_queue_pairs_to_the_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
