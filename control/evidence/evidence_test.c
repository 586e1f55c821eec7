/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence about real processes: what they wait for, their stacks, other programs that do not end; and texts as the
 * system and its daemons write them. */
#include "evidence/parts.h"

#include "base/clock.h"
#include "wire/boxfile.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Real processes ---- */

static pid_t play(void (*part)(int fd), int fd)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        part(fd);
        for (;;)
            pause();
    }
    return child;
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    boxfile_slurp(path, text, sizeof text);
    const char *after = strrchr(text, ')');
    return after ? after[2] : 0;
}

/* Waits until the process is in a call that has this line, or any, and ends the process. */
static void expect_wait(pid_t pid, const char *words)
{
    char line[EVIDENCE_LINE] = "";
    while (!awaited_line((uint32_t)pid, line) || !strstr(line, words))
        if (state_of(pid) == 'Z' || state_of(pid) == 0)
            fail_msg("it ended before \"%s\": %s", words, line);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void reads(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        _exit(1);
}

static void locks(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    flock(open(path, O_RDWR), LOCK_EX);
}

static void polls(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    poll(&one, 1, -1);
}

static void test_waits_for_files(void **state)
{
    int ends[2], file;
    char path[] = "/tmp/tutti-evidence-XXXXXX", words[96];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(words, sizeof words, " waits in read of a pipe to process %d (", getpid());
    expect_wait(play(reads, ends[0]), words);
    expect_wait(play(polls, ends[0]), " waits in poll of a pipe to process ");
    close(ends[0]);
    close(ends[1]);
    assert_true((file = mkstemp(path)) >= 0);
    assert_int_equal(flock(file, LOCK_EX), 0);
    snprintf(words, sizeof words, " waits in flock of %s (", path);
    expect_wait(play(locks, file), words);
    close(file);
    unlink(path);
}

static void test_waits_for_a_socket(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    char words[96];
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(there, (struct sockaddr *)&at, sizeof at), 0);
    snprintf(words, sizeof words, " to 127.0.0.1:%d, 0 bytes to send, 0 to read, sent again 0 times",
             ntohs(at.sin_port));
    expect_wait(play(reads, there), words);
    close(there);
    close(door);
}

/* ---- Stacks, and programs that do not end ---- */

static void rests(int fd)
{
}

static void test_child_is_bounded(void **state)
{
    char out[256];
    char *const slow[] = {"sh", "-c", "echo first; sleep 600 & echo $!; wait", NULL};
    char *const none[] = {"tutti-no-such-program", NULL}, *const endless[] = {"yes", NULL},
                *const much[] = {"seq", "100000", NULL}, *const fine[] = {"echo", "a", NULL};
    assert_true(child_run(fine, 60000, out, sizeof out));
    assert_string_equal(out, "a\n");
    assert_false(child_run(none, 60000, out, sizeof out));
    assert_true(child_run(much, 60000, out, sizeof out)); /* more than there is room for */
    assert_int_equal(strlen(out), sizeof out - 1);
    assert_false(child_run(endless, 50, out, sizeof out));
    assert_false(child_run(slow, 500, out, sizeof out));
    int other;
    if (sscanf(out, "first\n%d", &other) == 1) /* its group has gone, too */
        while (kill(other, 0) == 0 && state_of(other) != 'Z')
            usleep(1000);
}

static void test_stacks(void **state)
{
    char *text = NULL;
    pid_t child = play(rests, 0);
    while (state_of(child) != 'S')
        usleep(1000);
    stacks_add(&text, (uint32_t)child);
    assert_non_null(text);
    assert_non_null(strstr(text, ": state S"));
    if (access("/usr/bin/gdb", X_OK) == 0 && !strstr(text, "by gdb"))
        print_message("gdb says nothing here: %s", text);
    while (state_of(child) != 'S') /* it goes on */
        usleep(1000);
    free(text);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    text = NULL;
    stacks_add(&text, 4000001); /* a process that has gone */
    assert_non_null(strstr(text, "no stack of the program"));
    free(text);
}

/* A process whose child has not come back from vfork is in state D. */
static void waits_in_kernel(int fd)
{
    pid_t self = getpid();
    if (vfork() == 0) {
        while (getppid() == self) /* which may be killed at once */
            usleep(1000);
        _exit(0);
    }
}

static void test_no_debugger_in_state_d(void **state)
{
    char *text = NULL;
    pid_t child = play(waits_in_kernel, 0);
    while (state_of(child) != 'D')
        usleep(1000);
    stacks_add(&text, (uint32_t)child);
    kill(child, SIGKILL);
    assert_non_null(strstr(text, "no debugger was asked: a thread is in state D"));
    assert_null(strstr(text, "by gdb"));
    free(text);
    waitpid(child, NULL, 0);
}

/* Another user sees less, and is told so. */
static void test_other_user(void **state)
{
    int status, ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = play(reads, ends[0]), stranger = fork();
    if (stranger == 0) {
        char line[EVIDENCE_LINE], *text = NULL;
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(77);
        bool told = awaited_line((uint32_t)child, line);
        stacks_add(&text, (uint32_t)child);
        _exit(!told && text && strstr(text, "no stack of the program") ? 0 : 1);
    }
    waitpid(stranger, &status, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* ---- Texts ---- */

static void test_choose(void **state)
{
    char out[128];
    assert_true(stacks_choose("warning: x\n[New LWP 5]\n\nThread 1 (LWP 5):\n#0  pause () at p.c:29\n\x1b[31m#1\n", out,
                              sizeof out));
    assert_string_equal(out, "Thread 1 (LWP 5):\n#0  pause () at p.c:29\n");
    assert_true(stacks_choose("Process 7: python3 a.py\nThread 7 (idle): \"MainThread\"\n    wait (a\x1b\xff.py:3)\n",
                              out, sizeof out));
    assert_string_equal(out, "Thread 7 (idle): \"MainThread\"\n    wait (a??.py:3)\n");
    assert_false(stacks_choose("ptrace: Operation not permitted.\n", out, sizeof out));
}

static void test_tables(void **state)
{
    char out[128];
    static const char tcp[] =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100\n"
        "   1: 0100007F:C350 0200007F:1F90 01 00000010:00000002 01:00000014 00000003     0        0 12 1 0 20\n";
    assert_true(awaited_tcp(tcp, 11, out, sizeof out));
    assert_string_equal(out, "TCP 127.0.0.1:8080, which listens");
    assert_true(awaited_tcp(tcp, 12, out, sizeof out));
    assert_string_equal(out, "TCP 127.0.0.1:50000 to 127.0.0.2:8080, 16 bytes to send, 2 to read, sent again 3 times");
    assert_false(awaited_tcp(tcp, 13, out, sizeof out));
    assert_true(
        awaited_tcp("0: 00000000000000000000000001000000:0016 00000000000000000000000001000000:0017 01 0:0 0:0 0 "
                    "0 0 5\n",
                    5, out, sizeof out));
    assert_string_equal(out, "TCP [::1]:22 to [::1]:23, 0 bytes to send, 0 to read, sent again 0 times");
    static const char mounts[] =
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:50 / /data rw shared:1 - nfs4 srv:/data rw\n"
        "24 22 0:51 / /dat rw - tmpfs none rw\n";
    assert_true(awaited_mount(mounts, "/data/set/a", out, sizeof out));
    assert_string_equal(out, "nfs4, srv:/data");
    assert_true(awaited_mount(mounts, "/database", out, sizeof out));
    assert_string_equal(out, "ext4, /dev/sda1");
}

static void test_counters(void **state)
{
    static struct nic before, now;
    char line[EVIDENCE_LINE];
    static const char *const names[] = {"RetransSegs", NULL};
    strcpy(before.name, "eth9");
    now = before;
    nic_take_device(&before, "face |bytes\n  eth9: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    nic_take_device(&now, " eth99: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n  eth9: 8 9 3 40 5 6 7 8 9 10 12 12 13 14 15 16\n");
    assert_int_equal(before.count, 9);
    assert_true(nic_line(&before, &now, 3 * NS_PER_S, line));
    assert_string_equal(line, "eth9: rx_dropped +36, tx_errors +1 in 3.0 s");
    assert_true(nic_line(&now, &now, 3 * NS_PER_S, line));
    assert_string_equal(line, "eth9: no error, drop, pause or retransmission in 3.0 s");
    now.count = before.count = 0;
    nic_take_device(&now, "eth9: 1 2 3\neth9: 1\n");
    assert_int_equal(now.count, 1); /* a row that ends early */
    nic_take_table(&before, "Ip: A\nIp: 1\nTcp: InSegs RetransSegs\nTcp: 5 70\n", "Tcp:", names);
    assert_true(before.count == 1 && before.counters[0].value == 70);
    nic_read(&now, "lo", (uint32_t)getpid());
    assert_true(now.here && now.count >= 9);
    nic_read(&now, "../../etc", (uint32_t)getpid());
    assert_int_equal(now.count, 0);
    assert_true(nic_counts("rx_pause_ctrl_phy") && nic_counts("rp_cnp_handled") &&
                nic_counts("np_ecn_marked_roce_packets"));
    assert_true(nic_counts("local_ack_timeout_err") && nic_counts("port_xmit_wait") && !nic_counts("rx_bytes"));
}

/* As lldpcli 1.0.16 printed it, shortened; with several interfaces it is an array. */
static void test_neighbour(void **state)
{
    char line[EVIDENCE_LINE];
    static const char one[] = "{\"lldp\": {\"interface\": {\"evl0\": {\"via\": \"LLDP\", \"age\": \"0 day, 00:00:01\", "
                              "\"chassis\": {\"vm\": {\"id\": "
                              "{\"type\": \"mac\", \"value\": \"ba:ea\"}, \"descr\": \"leaf switch\"}}, \"port\": "
                              "{\"id\": {\"type\": \"mac\", "
                              "\"value\": \"ba:ea\"}, \"descr\": \"evl1\", \"ttl\": \"120\"}}}}}";
    static const char several[] = "{\"lldp\": {\"interface\": [{\"eth0\": {}}, {\"eth1\": {\"chassis\": "
                                  "{\"leaf\\u001b1\": {}}, \"port\": {\"id\": "
                                  "{\"type\": \"ifname\", \"value\": \"Ethernet4\"}}}}]}}";
    assert_true(neighbour_in(one, strlen(one), "evl0", line));
    assert_string_equal(line, "evl0 is at port evl1 of switch vm, says LLDP");
    assert_true(neighbour_in(several, strlen(several), "eth1", line));
    assert_string_equal(line, "eth1 is at port Ethernet4 of switch leaf?1, says LLDP");
    assert_false(neighbour_in(several, strlen(several), "eth0", line));
    assert_false(neighbour_in("{\"lldp\": {}}", 12, "eth0", line));
    assert_false(neighbour_in("error", 5, "eth0", line));
    assert_false(neighbour_line("tutti-no-such-interface", line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_files),
        cmocka_unit_test(test_waits_for_a_socket),
        cmocka_unit_test(test_child_is_bounded),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_no_debugger_in_state_d),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_neighbour),
    };
    return cmocka_run_group_tests_name("evidence", tests, NULL, NULL);
}
