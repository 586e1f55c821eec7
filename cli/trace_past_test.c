/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated looks do not read boxes that can never matter again. */
#include "cli/trace_set.h"
#include "cli/trace_stage.h"

#include <stdio.h>

static void busy(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_calls(world, 10, 20);
}

/* The number of boxes that were read. */
static size_t unreadable; /* of them, and of those that are past */

static size_t look(struct view_past *past)
{
    const struct view_options options = {.command = "trace", .dir = stage_dir, .quiet = true, .past = past};
    struct view_set set;
    assert_true(view_load(&options, &set));
    size_t read = set.read;
    unreadable = set.unreadable;
    view_unload(&set);
    return read;
}

static void make_noise(const char *path)
{
    static const char noise[10000] = "noise that is no box";
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_int_equal(write(fd, noise, sizeof noise), sizeof noise);
    close(fd);
}

static void test_the_dead_beside_the_living(void **state)
{
    struct view_past past = {0};
    stage_play(2, busy);
    stage_kill(1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(look(&past), 2); /* they share a communicator */
    assert_int_equal(past.count, 0);
    stage_kill(0);
    assert_int_equal(look(&past), 2);
    assert_int_equal(look(&past), 0);
    assert_int_equal(look(NULL), 2);
    assert_int_equal(past.count, 2);
    view_free_past(&past);
    assert_int_equal(look(&past), 2);
    view_free_past(&past);
}

static void test_another_file_of_the_same_name(void **state)
{
    struct view_past past = {0};
    char path[160], kept[170], living[160];
    snprintf(path, sizeof path, "%s/tutti-%u-4000000-4.box", stage_dir, (unsigned)geteuid());
    snprintf(kept, sizeof kept, "%s.kept", path); /* so that the next file has another inode */
    make_noise(path);
    assert_int_equal(look(&past), 1);
    assert_int_equal(look(&past), 0);
    assert_int_equal(unreadable, 1); /* counted, though it is not read */
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    assert_int_equal(look(&past), 1); /* the same inode, written anew */
    assert_int_equal(look(&past), 0);
    assert_int_equal(rename(path, kept), 0);
    make_noise(path);
    assert_int_equal(look(&past), 1);
    assert_int_equal(past.count, 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(look(&past), 0);
    assert_int_equal(past.count, 0); /* nothing grows */
    assert_int_equal(unreadable, 0);
    snprintf(living, sizeof living, "%s/tutti-%u-%d-%ju.box", stage_dir, (unsigned)geteuid(), (int)getpid(),
             (uintmax_t)boxfile_start_time((uint32_t)getpid()));
    make_noise(living);
    for (int i = 0; i < 2; i++)
        assert_int_equal(look(&past), 1); /* it may be in the making */
    view_free_past(&past);
}

/* A living process whose box cannot be read may have to do with any of the dead. */
static void test_the_dead_beside_a_box_in_the_making(void **state)
{
    struct view_past past = {0};
    char living[160];
    stage_play(2, busy);
    stage_kill(0);
    stage_kill(1);
    snprintf(living, sizeof living, "%s/tutti-%u-%d-%ju.box", stage_dir, (unsigned)geteuid(), (int)getpid(),
             (uintmax_t)boxfile_start_time((uint32_t)getpid()));
    make_noise(living);
    for (int i = 0; i < 2; i++)
        assert_int_equal(look(&past), 3);
    assert_int_equal(unlink(living), 0);
    assert_int_equal(look(&past), 2);
    assert_int_equal(look(&past), 0);
    view_free_past(&past);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, stage_make_dir, stage_remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_the_dead_beside_the_living),
        CASE(test_another_file_of_the_same_name),
        CASE(test_the_dead_beside_a_box_in_the_making),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
