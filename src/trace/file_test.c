/* SPDX-License-Identifier: Apache-2.0 */
/* Files of black boxes: whose they are, where there is no room for one, and who removes old ones. */
#include "trace/file.h"
#include "trace/trace_testing.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

static void test_two_boxes_of_one_process(void **state)
{
    struct trace *one = trace_open(), *two = trace_open();
    assert_non_null(two);
    assert_string_not_equal(trace_path(one), trace_path(two));
    assert_int_equal(boxes_left(), 2);
    trace_close(one, false);
    trace_close(two, false);
    assert_int_equal(boxes_left(), 0);
}

/* Left by an earlier program of the same process: nobody has it open. */
static void test_box_before_exec_is_replaced(void **state)
{
    struct boxfile name = {(uint32_t)geteuid(), (uint32_t)getpid(), boxfile_start_time((uint32_t)getpid()), 0};
    char base[96], path[256];
    boxfile_name(&name, base, sizeof base);
    snprintf(path, sizeof path, "%s/%s", dir, base);
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        struct wire_box_header header = {.pid_namespace = boxfile_pid_namespace() + (uint64_t)elsewhere};
        int fd = open(path, O_CREAT | O_RDWR, 0600);
        assert_int_equal(write(fd, &header, sizeof header), sizeof header);
        close(fd);
        struct trace *trace = trace_open();
        if (elsewhere) /* of a process that has this pid in its own namespace */
            assert_string_not_equal(trace_path(trace), path);
        else
            assert_string_equal(trace_path(trace), path);
        trace_close(trace, false);
        assert_int_equal(access(path, F_OK), elsewhere ? 0 : -1);
    }
    unlink(path);
}

static void test_symlink_is_not_followed(void **state)
{
    struct boxfile name = {(uint32_t)geteuid(), (uint32_t)getpid(), boxfile_start_time((uint32_t)getpid()), 0};
    char base[96], path[256];
    boxfile_name(&name, base, sizeof base);
    snprintf(path, sizeof path, "%s/%s", dir, base);
    assert_int_equal(symlink("/nonexistent/target", path), 0);
    struct trace *trace = trace_open();
    assert_non_null(trace);
    assert_string_not_equal(trace_path(trace), path);
    struct blackbox *box;
    assert_int_equal(blackbox_read(path, &box), TUTTI_SYSTEM_ERROR);
    trace_close(trace, false);
    unlink(path);
}

static void test_no_such_folder(void **state)
{
    use_dir("/nonexistent/folder");
    assert_null(trace_open());
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    use_dir(longest);
    assert_null(trace_open());
}

static void test_unwritable_folder(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        chmod(dir, 0500);
        _exit(geteuid() == 0 && setuid(65534) != 0 ? 2 : trace_open() != NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    chmod(dir, 0700);
}

static void test_file_size_limit(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {100000, 100000};
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(trace_open() != NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(boxes_left(), 0);
}

/* On a tmpfs of 128 KiB there is room for the box and two communicators; the next has none and nothing crashes. */
static void test_full_disk(void **state)
{
    if (mount("tmpfs", dir, "tmpfs", 0, "size=128k") != 0)
        skip();
    struct trace *trace = trace_open();
    assert_non_null(trace);
    struct trace_comm *comms[4];
    for (int i = 0; i < 4; i++)
        comms[i] = trace_comm_open(trace, (uint64_t)i, "c", 0, 1, 1);
    assert_non_null(comms[0]);
    assert_null(comms[3]);
    for (uint64_t seq = 0; seq < 2 * WIRE_BOX_OPS; seq++)
        for (int i = 0; i < 4; i++)
            trace_op_end(comms[i],
                         trace_op_begin(comms[i], seq, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 1024, 4096),
                         TUTTI_SUCCESS);
    struct blackbox *box = must_read(trace_path(trace));
    assert_true(box->counters[WIRE_COUNTER_COMMS_UNRECORDED] >= 1);
    blackbox_free(box);
    int fd = open(trace_path(trace), O_RDONLY | O_CLOEXEC);
    close(fd);
    trace_close(trace, false);
    char path[300];
    snprintf(path, sizeof path, "%s/fill", dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(posix_fallocate(fd, 0, 100 * 1024), 0);
    close(fd);
    assert_null(trace_open());
    assert_int_equal(boxes_left(), 0);
    unlink(path);
    assert_int_equal(umount(dir), 0);
}

static void make_old_box(uint32_t pid, time_t age, bool touch)
{
    struct trace *trace = trace_open();
    char from[PATH_MAX], to[256], base[96];
    snprintf(from, sizeof from, "%s", trace_path(trace));
    trace_close(trace, true);
    struct boxfile name = {(uint32_t)geteuid(), pid, 1, 0};
    boxfile_name(&name, base, sizeof base);
    snprintf(to, sizeof to, "%s/%s", dir, base);
    assert_int_equal(rename(from, to), 0);
    struct wire_box_clock clocks[2];
    int fd = open(to, O_RDWR | O_CLOEXEC);
    off_t at = offsetof(struct wire_box_header, opened);
    assert_int_equal(pread(fd, clocks, sizeof clocks, at), sizeof clocks);
    clocks[0].realtime_ns -= (uint64_t)age * NS_PER_S;
    clocks[1].realtime_ns -= (uint64_t)age * NS_PER_S;
    assert_int_equal(pwrite(fd, clocks, sizeof clocks, at), sizeof clocks);
    struct timespec times[2] = {{.tv_sec = time(NULL) - (touch ? 200000 : 0)},
                                {.tv_sec = time(NULL) - (touch ? 200000 : 0)}};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void test_old_boxes_are_swept(void **state)
{
    make_old_box(4000001, 0, true); /* an old file whose process died just now */
    make_old_box(4000002, 200000, false);
    make_old_box(4000003, 200000, true); /* died two days ago */
    assert_int_equal(boxes_left(), 3);
    for (int i = 0; i < 2000 && boxes_left() == 3; i++) /* some process sweeps */
        trace_close(trace_open(), false);
    assert_int_equal(boxes_left(), 2);
}

/* A job that crashed again and again today. The oldest of all lives. */
static void test_the_newest_of_the_dead_are_kept(void **state)
{
    struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct trace *living = trace_open();
    struct boxfile name = {(uint32_t)geteuid(), 4000000, 1, 0};
    char newest[256], base[96];
    assert_int_equal(utimensat(AT_FDCWD, trace_path(living), long_ago, 0), 0);
    for (; name.pid < 4000300; name.pid++) {
        struct timespec times[2] = {{.tv_sec = time(NULL) - 4000300 + name.pid}, {.tv_sec = 0}};
        times[1] = times[0];
        make_old_box(name.pid, 0, false);
        boxfile_name(&name, base, sizeof base);
        snprintf(newest, sizeof newest, "%s/%s", dir, base);
        assert_int_equal(utimensat(AT_FDCWD, newest, times, 0), 0);
    }
    trace_file_sweep(dir);
    assert_int_equal(boxes_left(), 256 + 1);
    assert_int_equal(access(newest, F_OK), 0);
    assert_int_equal(access(trace_path(living), F_OK), 0);
    trace_close(living, false);
}

/* A container's /dev/shm may be small. */
static void test_the_dead_leave_room(void **state)
{
    if (mount("tmpfs", dir, "tmpfs", 0, "size=2m") != 0)
        skip();
    for (uint32_t pid = 4000000; pid < 4000020; pid++)
        make_old_box(pid, 0, false);
    size_t before = (size_t)boxes_left();
    trace_file_sweep(dir);
    size_t after = (size_t)boxes_left();
    assert_true(after > 0 && after < before);
    struct statvfs disk;
    assert_int_equal(statvfs(dir, &disk), 0);
    assert_true((disk.f_blocks - disk.f_bfree) * 4 <= disk.f_blocks + 4); /* folders take some */
    assert_int_equal(umount(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_two_boxes_of_one_process),
        CASE(test_box_before_exec_is_replaced),
        CASE(test_symlink_is_not_followed),
        CASE(test_no_such_folder),
        CASE(test_unwritable_folder),
        CASE(test_file_size_limit),
        CASE(test_full_disk),
        CASE(test_old_boxes_are_swept),
        CASE(test_the_newest_of_the_dead_are_kept),
        CASE(test_the_dead_leave_room),
    };
    return cmocka_run_group_tests_name("trace file", tests, NULL, NULL);
}
