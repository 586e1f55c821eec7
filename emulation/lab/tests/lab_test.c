/* SPDX-License-Identifier: Apache-2.0 */
/* The lab end to end: made, used, broken and removed by the program, with real packets through real routers. */
#include "lab/tests/harness.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WIRE (1000 + 8 + 20 + 14) /* bytes that the counters see of a payload of 1000 */

/* Without IPv6 and ARP nothing but the tests' own packets is on the wire: counters are exact. */
static const char plain[] = "name: plain\nipv6: false\n";
static const char steered[] = "name: steered\nipv6: false\npolicies:\n"
                              "  - {dport: 4791, ports: 0xC000-0xFFFF, uplink: split}\n"
                              "  - {leaf: l0, ports: 20000-20099, uplink: u1}\n";

static void must(int code)
{
    assert_int_equal(code, 0);
}

static void zero(void)
{
    must(harness_run("$LAB counters --zero -n $NAME"));
}

/* A file in our folder that stands in for `ip` or `tc`: counts its calls, and does something else at the given one. */
static void stand_in(const char *program, int call, const char *action)
{
    must(harness_run(
        "mkdir -p $DIR/bin; rm -f $DIR/bin/* $DIR/calls; cat > $DIR/bin/%s <<'E'\n#!/bin/sh\necho >> $DIR/calls\n"
        "[ $(wc -l < $DIR/calls) = %d ] && { %s; }\nPATH=${PATH#$DIR/bin:}\nexec %s \"$@\"\nE\nchmod +x $DIR/bin/%s",
        program, call, action, program, program));
}

static void test_up_and_down(void **state)
{
    char out[4096];
    must(harness_up("name: x\n"));
    assert_true(harness_anything_left());
    must(harness_read(out, sizeof out, "$LAB list"));
    assert_non_null(strstr(out, harness_lab));
    pid_t sleeper = harness_start("exec $LAB run h0 -n $NAME -- sleep 1000");
    must(harness_run("until ip netns pids $NAME-h0 | grep -q .; do :; done"));
    must(harness_run("$LAB down $NAME"));
    assert_int_equal(harness_wait(sleeper), 128 + 15);
    assert_false(harness_anything_left());
    assert_int_equal(harness_run("$LAB down $NAME 2>/dev/null"), 1);
}

/* A process that ignores SIGTERM goes, too. */
static void test_down_is_final(void **state)
{
    must(harness_up(plain));
    pid_t deaf = harness_start(
        "exec $LAB run l0 -n $NAME -- sh -c 'trap \"\" TERM; echo > $DIR/deaf; while :; do sleep 1; done'");
    must(harness_run("until [ -e $DIR/deaf ]; do :; done"));
    must(harness_run("$LAB down $NAME"));
    assert_int_equal(harness_wait(deaf), 128 + 9);
    assert_false(harness_anything_left());
}

static void test_crash_then_up(void **state)
{
    static const int calls[] = {1, 2, 6, 12};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        stand_in("ip", calls[i], "kill -9 $PPID; exit 1");
        assert_int_equal(harness_run("PATH=$DIR/bin:$PATH; exec $LAB up $DIR/lab.yaml --name $NAME 2>/dev/null"), 137);
        assert_true(harness_anything_left());
        must(harness_up(plain));
        must(harness_run("$LAB run h0 -n $NAME -- true"));
        stand_in("ip", calls[i], "kill -9 $PPID; exit 1");
        assert_int_equal(harness_run("PATH=$DIR/bin:$PATH; exec $LAB up $DIR/lab.yaml --replace -n $NAME 2>/dev/null"),
                         137);
        must(harness_run("$LAB down $NAME"));
        assert_false(harness_anything_left());
    }
}

/* What a killed `up` had started does not make namespaces behind the back of `down`. */
static void test_crash_leaves_nobody(void **state)
{
    must(harness_run("echo 'name: x' > $DIR/lab.yaml"));
    stand_in("ip", 1, "kill -9 $PPID; until [ -e $DIR/down ]; do sleep 0.05; done; echo > $DIR/late");
    assert_int_equal(harness_run("PATH=$DIR/bin:$PATH; exec $LAB up $DIR/lab.yaml --name $NAME 2>/dev/null"), 137);
    must(harness_run("$LAB down $NAME; echo > $DIR/down; for i in 1 2 3 4 5 6 7 8 9 10; do [ ! -e $DIR/late ] && sleep "
                     "0.1; done; sleep 0.2"));
    assert_false(harness_anything_left());
}

static void test_failure_undoes(void **state)
{
    char out[4096];
    must(harness_run("echo 'name: x\nrate: 1gbit' > $DIR/shaped.yaml"));
    stand_in("tc", 3, "echo no such thing >&2; exit 1");
    assert_int_equal(harness_read(out, sizeof out, "PATH=$DIR/bin:$PATH; exec $LAB up $DIR/shaped.yaml -n $NAME 2>&1"),
                     1);
    assert_non_null(strstr(out, "no such thing"));
    assert_non_null(strstr(out, "is removed again"));
    assert_false(harness_anything_left());
    stand_in("ip", 4, "kill -TERM $PPID");
    assert_int_equal(harness_run("PATH=$DIR/bin:$PATH; exec $LAB up $DIR/shaped.yaml -n $NAME 2>/dev/null"), 143);
    assert_false(harness_anything_left());
    assert_int_equal(harness_read(out, sizeof out, "PATH=/nonexistent; $LAB up $DIR/shaped.yaml -n $NAME 2>&1"), 1);
    assert_non_null(strstr(out, "iproute2"));
    assert_false(harness_anything_left());
}

static void test_two_labs_and_strangers(void **state)
{
    char out[4096];
    must(harness_up(plain));
    must(harness_run("$LAB up $DIR/lab.yaml --name ${NAME}b >/dev/null"));
    assert_int_equal(harness_read(out, sizeof out, "$LAB hosts 2>&1"), 1);
    assert_non_null(strstr(out, "choose one with --name"));
    must(harness_run("$LAB run h0 -n ${NAME}b -- true && $LAB down ${NAME}b && $LAB run h0 -n $NAME -- true"));
    must(harness_run("ip netns add ${NAME}c-h0"));
    int refused = harness_read(out, sizeof out, "$LAB up $DIR/lab.yaml --name ${NAME}c 2>&1");
    must(harness_run("ip netns del ${NAME}c-h0"));
    assert_int_equal(refused, 1);
    assert_non_null(strstr(out, "is not tutti-lab's"));
}

/* A lab that lives is ended by who says so, and by nobody else. */
static void test_living(void **state)
{
    char out[4096];
    must(harness_up(plain));
    pid_t sleeper = harness_start("exec $LAB run h0 -n $NAME -- sleep 1000");
    must(harness_run("until ip netns pids $NAME-h0 | grep -q .; do :; done"));
    assert_int_equal(harness_read(out, sizeof out, "$LAB up $DIR/lab.yaml -n $NAME 2>&1"), 1);
    assert_non_null(strstr(out, "is up (1 processes in it); make one of another name with --name"));
    must(harness_run("$LAB list | grep -q \"^$NAME .* 4  *1$\""));
    must(harness_read(out, sizeof out, "$LAB up $DIR/lab.yaml --replace -n $NAME 2>&1"));
    assert_non_null(strstr(out, "which is up (1 processes in it)"));
    assert_int_equal(harness_wait(sleeper), 128 + 15);
    must(harness_run("umount /run/netns/$NAME-s1 && $LAB up $DIR/lab.yaml -n $NAME >/dev/null"));
}

/* Users by sudo: each has a lab, and commands that name none mean the user's own. */
static void test_users(void **state)
{
    char out[4096];
    must(harness_run("echo 'name: x\nipv6: false\nhosts: 2\nnics: 1\nleaves: 1\nspines: 0' > $DIR/lab.yaml"));
    must(harness_run("export SUDO_UID=4000000001; $LAB up $DIR/lab.yaml -n $NAME >/dev/null"));
    must(harness_run("export SUDO_UID=4000000002; $LAB up $DIR/lab.yaml -n ${NAME}b >/dev/null"));
    assert_int_equal(harness_read(out, sizeof out, "SUDO_UID=4000000002 $LAB up $DIR/lab.yaml --replace -n $NAME 2>&1"),
                     1);
    assert_non_null(strstr(out, "is user 4000000001's"));
    must(harness_run("[ $(SUDO_UID=4000000001 $LAB run h0 -- printenv LAB_NAME) = $NAME ]"));
    must(harness_run("[ $(LAB_NAME=$NAME $LAB run h0 -- $LAB run h1 -- printenv LAB_NAME) = $NAME ]"));
    must(harness_run("SUDO_UID=4000000002 $LAB down --all && $LAB run h0 -n $NAME -- true"));
    assert_int_equal(harness_read(out, sizeof out, "SUDO_UID=4000000002 $LAB down 2>&1"), 1);
    assert_non_null(strstr(out, "no lab of yours is up, but another user's ("));
    must(harness_run("SUDO_UID=4000000001 $LAB down"));
    assert_false(harness_anything_left());
}

static void test_run(void **state)
{
    char out[8192];
    must(harness_up("name: x\n"));
    assert_int_equal(harness_run("$LAB run h0 -n $NAME -- sh -c 'exit 7'"), 7);
    assert_int_equal(harness_run("$LAB run h0 -n $NAME -- /nonexistent 2>/dev/null"), 127);
    assert_int_equal(harness_run("$LAB run h0 -n $NAME -- / 2>/dev/null"), 126);
    assert_int_equal(harness_run("$LAB run h9 -n $NAME -- true 2>/dev/null"), 125);
    assert_int_equal(harness_run("$LAB run h0 -n $NAME 2>/dev/null"), 2);
    /* As ssh and its like are called: options behind the command's name are the command's. */
    assert_int_equal(harness_run("$LAB run -n $NAME h0 sh -c 'exit $1' -h 8"), 8);
    assert_int_equal(harness_run("$LAB run -n $NAME h0 sh -c 'exit $1' -- 9"), 9);
    must(harness_read(out, sizeof out,
                      "$LAB run h3 -n $NAME -- sh -c 'hostname; echo $LAB_INDEX; ls /sys/class/net; "
                      "getent ahostsv4 h2.n1'"));
    assert_non_null(strstr(out, "h3\n3\nlo\nn0\nn1\n10.1.2.3"));
    assert_int_equal(harness_run("hostname | grep -qx h3"), 1);
    must(harness_read(out, sizeof out, "$LAB hosts -n $NAME"));
    assert_non_null(strstr(out, "h3   n1   l1   10.1.3.3        fd10:1:3:1::1\n"));
}

static void test_exec_all(void **state)
{
    char out[4096];
    must(harness_up(plain));
    must(harness_read(out, sizeof out,
                      "$LAB exec-all -n $NAME -- sh -c 'echo from $LAB_NODE; printf tail; echo err >&2' 2>&1"));
    for (int h = 0; h < 4; h++) {
        char line[32];
        snprintf(line, sizeof line, "h%d: from h%d\n", h, h);
        assert_non_null(strstr(out, line));
        snprintf(line, sizeof line, "h%d: tail\n", h);
        assert_non_null(strstr(out, line));
    }
    assert_non_null(strstr(out, "h2: err\n"));
    assert_int_equal(harness_run("$LAB exec-all -n $NAME -- sh -c '[ $LAB_NODE = h1 ] && exit 9; sleep 1000 & wait'"),
                     9);
    assert_int_equal(harness_run("$LAB exec-all -n $NAME -- sh -c '[ $LAB_NODE = h1 ] && exit 9; trap \"\" TERM; "
                                 "while :; do sleep 1000; done'"),
                     9);
    /* What was killed needs a moment to die on a busy machine. */
    must(
        harness_run("for i in $(seq 100); do [ -z \"$(ip netns pids $NAME-h0)\" ] && exit 0; sleep 0.1; done; exit 1"));
}

/* Every source port goes where the rules say, to the byte, with ECN bits or a DSCP or without. */
static void test_steering(void **state)
{
    must(harness_up(steered));
    zero();
    assert_int_equal(harness_deliver(0xC000, 0xC000 + 63, 20, 0), 1280);
    assert_int_equal(harness_sent("l0.u0"), 1280 * WIRE);
    assert_int_equal(harness_sent("l0.u1"), 0);
    assert_int_equal(harness_deliver(0xFFFF - 63, 0xFFFF, 20, 0x6a), 1280);
    assert_int_equal(harness_sent("l0.u0"), 1280 * WIRE);
    assert_int_equal(harness_sent("l0.u1"), 1280 * WIRE);
    assert_int_equal(harness_deliver(20000, 20099, 2, 0), 200);
    assert_int_equal(harness_sent("l0.u1"), 1480 * WIRE);
}

static void test_dscp(void **state)
{
    if (harness_up("name: x\nipv6: false\npolicies:\n  - {dscp: 26, ports: 1024-65535, uplink: u1}\n"
                   "  - {ports: 1024-65535, uplink: u0}\n") != 0) {
        fprintf(stderr, "SKIPPED: this kernel has no rules by DSCP\n");
        skip();
    }
    assert_int_equal(harness_deliver(5000, 5031, 2, 26 << 2), 64);
    assert_int_equal(harness_sent("l0.u1"), 64 * WIRE);
    assert_int_equal(harness_deliver(5000, 5031, 2, 26 << 2 | 2), 64);
    assert_int_equal(harness_sent("l0.u1"), 128 * WIRE);
    assert_int_equal(harness_deliver(5000, 5031, 2, 0), 64);
    assert_int_equal(harness_sent("l0.u1"), 128 * WIRE);
    assert_int_equal(harness_sent("l0.u0"), 64 * WIRE);
}

/* Which uplink ECMP gives a source port, by trying. */
static int uplink_of(int port)
{
    zero();
    assert_int_equal(harness_deliver(port, port, 1, 0), 1);
    return harness_sent("l0.u1") > 0;
}

static double imbalance(void)
{
    uint64_t sent[] = {harness_sent("l0.u0"), harness_sent("l0.u1")};
    return balance_of(sent, 2).max_over_mean;
}

/* The kernel's hash has a secret, so a colliding pair is found first; three ports contain one. */
static void test_ecmp(void **state)
{
    int where[3], pair = 1;
    must(harness_up(plain));
    for (int i = 0; i < 3; i++)
        where[i] = uplink_of(49500 + 7 * i);
    int first = where[0] == where[1] || where[0] == where[2] ? 0 : 1;
    pair = where[0] == where[1] ? 1 : 2;
    zero();
    assert_int_equal(harness_deliver(49500 + 7 * first, 49500 + 7 * first, 200, 0), 200);
    assert_int_equal(harness_deliver(49500 + 7 * pair, 49500 + 7 * pair, 200, 0), 200);
    assert_true(imbalance() == 2);
    zero();
    assert_int_equal(harness_deliver(49152, 49152 + 255, 2, 0), 512);
    assert_true(imbalance() < 1.5);
}

/* As in a switch, nothing but addresses, protocol and ports chooses: not whether or when a socket was connected. */
static void test_ecmp_by_ports_alone(void **state)
{
    must(harness_up("name: x\nipv6: false\n"));
    for (int port = 50000; port < 50012; port++) {
        int expected = uplink_of(port);
        zero();
        for (int i = 0; i < 2; i++)
            must(harness_run("$LAB run -n $NAME h0 -- $UDP connect 10.0.0.1 10.1.2.1 4791 %d %d 1 1000 0 >/dev/null",
                             port, port));
        assert_int_equal(harness_sent(expected ? "l0.u1" : "l0.u0"), 2 * WIRE);
    }
}

static void test_hash_seed(void **state)
{
    uint64_t sent[2];
    if (access("/proc/sys/net/ipv4/fib_multipath_hash_seed", F_OK) != 0)
        skip();
    for (int i = 0; i < 2; i++) {
        must(harness_up("name: x\nipv6: false\nhash_seed: 42\n"));
        assert_int_equal(harness_deliver(50000, 50063, 1, 0), 64);
        sent[i] = harness_sent("l0.u0");
    }
    assert_int_equal(sent[0], sent[1]);
}

static void test_link_down_at_leaf(void **state)
{
    must(harness_up(steered));
    must(harness_run("$LAB link down l0.u0 -n $NAME"));
    zero();
    assert_int_equal(harness_deliver(0xC000, 0xC000 + 31, 4, 0), 128);
    assert_int_equal(harness_sent("l0.u1"), 128 * WIRE);
    must(harness_run("$LAB link up l0.u0 -n $NAME"));
    zero();
    assert_int_equal(harness_deliver(0xC000, 0xC000 + 31, 4, 0), 128);
    assert_int_equal(harness_sent("l0.u0"), 128 * WIRE);
    /* The far leaf's uplink: our leaf must not send to a spine that cannot go on. */
    must(harness_run("$LAB link down s0.l1u0 -n $NAME"));
    assert_int_equal(harness_deliver(0xC000, 0xC000 + 31, 4, 0), 128);
    assert_int_equal(harness_sent("l0.u1"), 128 * WIRE);
}

static void test_black_holes(void **state)
{
    static const char *const cuts[] = {"--at spine", "--silent"};
    for (int i = 0; i < 2; i++) {
        must(harness_up(steered));
        must(harness_run("$LAB link down l0.u0 %s -n $NAME", cuts[i]));
        assert_int_equal(harness_deliver(0xC000, 0xC000 + 31, 4, 0), 0);
        assert_int_equal(harness_sent("l0.u1"), 0);
        assert_int_equal(harness_deliver(0xE000, 0xE000 + 31, 4, 0), 128);
        must(harness_run("$LAB counters -n $NAME | grep l0.u0 | grep -q '%s'", i ? "silent" : "down at spine"));
        must(harness_run("$LAB link up 'l*.u*' -n $NAME"));
        assert_int_equal(harness_deliver(0xC000, 0xC000 + 31, 4, 0), 128);
    }
}

/* Several cuts at once, with IPv6, and everything mended in the end. */
static void test_many_cuts(void **state)
{
    must(harness_up("name: x\nuplinks: 2\npolicies:\n  - {uplink: split}\n"));
    must(harness_run("$LAB link down l0.u0 --at spine -n $NAME"));
    must(harness_run(
        "$LAB link down l1.u3 -n $NAME && $LAB link down h1.n1 -n $NAME && $LAB link down h3.n0 --at host -n $NAME"));
    must(harness_run("$LAB link down 'l0.u*' -n $NAME"));
    assert_int_equal(harness_deliver(0xC000, 0xC003, 1, 0), 0); /* no way is left */
    must(harness_run("$LAB link up '*' -n $NAME"));
    assert_int_equal(harness_deliver(0xC000, 0xC000 + 63, 2, 0), 128);
    must(harness_run("$LAB run l0 -n $NAME -- sh -c '[ $(ip -6 route show fd10:1::/32 | grep -c via) = 4 ]'"));
    must(harness_run("[ $($LAB counters -n $NAME | grep -c ' up  ') = 16 ]"));
}

static void test_host_links(void **state)
{
    must(harness_up("name: x\n"));
    must(harness_run("$LAB link down h0.n0 -n $NAME"));
    assert_int_equal(harness_run("$LAB run h0 -n $NAME -- grep -q 1 /sys/class/net/n0/carrier"), 1);
    must(harness_run("$LAB link up h0.n0 -n $NAME"));
    must(harness_run("$LAB run h0 -n $NAME -- grep -q 1 /sys/class/net/n0/carrier"));
    must(harness_run("$LAB link down h0.n0 --at host -n $NAME && $LAB link up h0.n0 -n $NAME"));
    assert_int_equal(harness_deliver(5000, 5003, 1, 0), 4);
    must(harness_run("$LAB run h0 -n $NAME -- ip -6 route get fd10:1:2:0::1 from fd10:0:0:0::1 | grep -q 'dev n0'"));
    must(harness_run("$LAB link down h2.n0 --silent -n $NAME"));
    must(harness_run("$LAB run h2 -n $NAME -- grep -q 1 /sys/class/net/n0/carrier"));
    assert_int_equal(harness_deliver(5000, 5003, 1, 0), 0);
    assert_int_equal(harness_run("$LAB link down h0.n0 --at spine -n $NAME 2>/dev/null"), 1);
    assert_int_equal(harness_run("$LAB link down l0.u0 --at host -n $NAME 2>/dev/null"), 1);
    assert_int_equal(harness_run("$LAB link down l0.u9 -n $NAME 2>/dev/null"), 1);
    assert_int_equal(harness_run("$LAB link sideways l0.u0 -n $NAME 2>/dev/null"), 2);
}

/* An upper bound that holds however slow the machine is: bucket and queue, and the rate times the time that has passed.
 */
static void test_rate(void **state)
{
    const uint64_t burst = 72 << 10, queue = 2 << 20, rate = 8000000;
    must(harness_up(steered));
    must(harness_run("$LAB rate l0.u0 8mbit -n $NAME"));
    must(harness_run("$LAB counters -n $NAME | grep l0.u0 | grep -q 8mbit"));
    zero();
    uint64_t begin = clock_ns();
    must(harness_run("$LAB run -n $NAME h0 -- $UDP send 10.0.0.1 10.1.2.2 9 49152 49152 1 10 0 >/dev/null || true"));
    must(harness_run(
        "$LAB run -n $NAME h0 -- $UDP send 10.0.0.1 10.1.2.1 4791 49152 49160 1000 1000 0 >/dev/null || true"));
    uint64_t sent = harness_sent("l0.u0"), ns = clock_ns() - begin;
    assert_true(sent <= burst + queue + rate / 8 * (ns / 1000) / 1000000);
    assert_true(sent >= 10 * WIRE);
    assert_true(harness_drops("l0.u0") > 0);
    must(harness_run("$LAB rate 'l*.u*' none -n $NAME"));
    assert_int_equal(harness_run("$LAB counters -n $NAME | grep -q 8mbit"), 1);
    assert_int_equal(harness_deliver(49152, 49160, 100, 0), 900);
    assert_int_equal(harness_run("$LAB rate l0.u0 fast -n $NAME 2>/dev/null"), 2);
}

/* Two windows of softverbs at once wait at a slow uplink, and are not dropped there. */
static void test_queue(void **state)
{
    must(harness_up(steered));
    must(harness_run("$LAB rate l0.u0 100mbit -n $NAME"));
    zero();
    harness_deliver(0xC000, 0xC009, 200, 0);
    assert_true(harness_sent("l0.u0") > 0);
    assert_int_equal(harness_drops("l0.u0"), 0);
}

/* The papers' networks: every NIC of every host reaches those of all others. */
static void test_examples(void **state)
{
    static const char *const examples[] = {"two-leaves", "dual-homed", "bonded", "rails", "oversubscribed"};
    if (!getenv("LAB_SOURCES"))
        skip();
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        must(harness_run("$LAB up $LAB_SOURCES/examples/%s.yaml --replace -n $NAME >/dev/null 2>&1", examples[i]));
        must(harness_run("rm -rf $DIR/done && mkdir $DIR/done && $LAB hosts -n $NAME --json >$DIR/hosts && "
                         "$LAB exec-all -n $NAME -- "
                         "python3 $LAB_SOURCES/emulation/lab/tests/reach.py $DIR/hosts $DIR/done"));
    }
}

/* A program none of us wrote: iperf3, TCP through the spines. */
static void test_iperf3(void **state)
{
    if (harness_run("command -v iperf3 >/dev/null") != 0) {
        fprintf(stderr, "SKIPPED: iperf3 is not installed\n");
        skip();
    }
    must(harness_up("name: x\nipv6: false\nrate: 500mbit\n"));
    pid_t server = harness_start("exec $LAB run h2 -n $NAME -- iperf3 -s -1 >/dev/null");
    must(harness_run("until $LAB run h2 -n $NAME -- sh -c 'ss -Hltn | grep -q :5201'; do :; done"));
    zero();
    must(harness_run("$LAB run h0 -n $NAME -- iperf3 -4 -c h2.n0 -B 10.0.0.1 -n 3M >/dev/null"));
    must(harness_wait(server));
    assert_true(harness_sent("h0.n0") >
                1 << 20); /* iperf3 counts what it writes, and leaves before all of it is sent */
    assert_true(harness_sent("l0.u0") + harness_sent("l0.u1") == harness_sent("h0.n0"));
}

static void test_reports(void **state)
{
    char out[65536];
    must(harness_up(plain));
    assert_int_equal(harness_deliver(5000, 5063, 2, 0), 128);
    must(harness_run("$LAB counters --json -n $NAME | python3 -m json.tool >/dev/null"));
    must(harness_run("$LAB hosts --json -n $NAME | python3 -m json.tool >/dev/null"));
    must(harness_run("$LAB counters --for 0.05 --json -n $NAME | python3 -m json.tool >/dev/null"));
    must(harness_read(out, sizeof out, "$LAB watch --interval 0.05 --count 2 -n $NAME"));
    assert_non_null(strstr(strstr(out, "UP Mbit/s") + 1, "UP Mbit/s"));
    must(harness_run("$LAB draw -o $DIR/x.svg -n $NAME && $LAB draw --for 0.05 -n $NAME > $DIR/y.svg"));
    must(harness_run(
        "python3 -c 'import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]' $DIR/x.svg $DIR/y.svg"));
    must(harness_run("! $LAB draw -o /nonexistent/x.svg -n $NAME 2>/dev/null"));
}

/* A watcher has sockets in all networks of a lab, which live on through them. */
static void watch_until(const char *change, const char *said)
{
    char out[256];
    must(harness_up(plain));
    pid_t watcher = harness_start("exec $LAB watch --interval 0.05 -n $NAME >$DIR/table 2>$DIR/said");
    must(harness_run("until grep -q UPLINKS $DIR/table; do sleep 0.01; done"));
    must(harness_run(change));
    assert_int_equal(harness_wait(watcher), 1);
    must(harness_read(out, sizeof out, "cat $DIR/said; rm $DIR/table"));
    assert_non_null(strstr(out, said));
}

static void test_watch_ends_with_the_lab(void **state)
{
    watch_until("$LAB down $NAME", "was taken down\n");
    watch_until("$LAB up $DIR/lab.yaml --replace --name $NAME >/dev/null 2>&1", "was taken down, and is up anew\n");
    /* An `up` that is slow between its two halves, by the lock that commands take. */
    watch_until("cd /run/tutti-lab && flock . sh -c 'mv $NAME/topology.yaml $DIR/kept; sleep 0.5; "
                "cp $DIR/kept $NAME/topology.yaml'",
                "was taken down, and is up anew\n");
}

/* What a killed `down` has left: a sentence says what to do. */
static void test_half_a_lab(void **state)
{
    char out[512];
    must(harness_up(plain));
    must(harness_run("umount /run/netns/$NAME-s1"));
    assert_int_equal(harness_read(out, sizeof out, "$LAB counters -n $NAME 2>&1"), 1);
    assert_non_null(strstr(out, "the lab is incomplete: run \"tutti-lab up\" again, or \"tutti-lab down\""));
    must(harness_run("$LAB down $NAME"));
    assert_false(harness_anything_left());
}

static void test_usage(void **state)
{
    char out[8192];
    must(harness_read(out, sizeof out, "$LAB --help && $LAB up --help"));
    assert_non_null(strstr(out, "exec-all [--] CMD"));
    must(harness_run("[ $($LAB up $DIR/lab.yaml --dry-run | grep -c '^netns add') = 8 ]"));
    /* The manual has every option. */
    if (getenv("LAB_SOURCES"))
        must(harness_run(
            "page=$(sed 's/\\\\-/-/g' $LAB_SOURCES/docs/man/emulation/tutti-lab.1); for option in "
            "$($LAB --help | grep -o -- ' --[a-z-]*'); do case $page in *$option*) ;; *) exit 1 ;; esac; done"));
    static const char *const bad[] = {"",
                                      "fly",
                                      "up",
                                      "up a b",
                                      "up a --json",
                                      "counters --for",
                                      "counters --for soon",
                                      "watch --count 0",
                                      "run h0 --",
                                      "list -- x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(harness_run("$LAB %s >/dev/null 2>&1", bad[i]), 2);
    assert_int_equal(
        harness_read(out, sizeof out, "echo 'name: x\nhosts: no' > $DIR/bad.yaml; $LAB up $DIR/bad.yaml 2>&1"), 1);
    assert_non_null(strstr(out, "/bad.yaml:2:8: hosts: \"no\" is not a whole number"));
}

static void test_not_root(void **state)
{
    char out[1024];
    if (harness_run(
            "command -v setpriv >/dev/null && setpriv --reuid 65534 --clear-groups $LAB --help >/dev/null 2>&1") != 0)
        skip();
    assert_int_equal(harness_read(out, sizeof out, "setpriv --reuid 65534 --clear-groups $LAB up x.yaml 2>&1"), 1);
    assert_non_null(strstr(out, "needs root"));
}

static int remove_lab(void **state)
{
    harness_run("$LAB down $NAME 2>/dev/null");
    return harness_anything_left();
}

#define LAB_TEST(name) cmocka_unit_test_teardown(name, remove_lab)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_up_and_down),
        LAB_TEST(test_down_is_final),
        LAB_TEST(test_crash_then_up),
        LAB_TEST(test_crash_leaves_nobody),
        LAB_TEST(test_failure_undoes),
        LAB_TEST(test_two_labs_and_strangers),
        LAB_TEST(test_living),
        LAB_TEST(test_users),
        LAB_TEST(test_run),
        LAB_TEST(test_exec_all),
        LAB_TEST(test_steering),
        LAB_TEST(test_dscp),
        LAB_TEST(test_ecmp),
        LAB_TEST(test_ecmp_by_ports_alone),
        LAB_TEST(test_hash_seed),
        LAB_TEST(test_link_down_at_leaf),
        LAB_TEST(test_black_holes),
        LAB_TEST(test_many_cuts),
        LAB_TEST(test_host_links),
        LAB_TEST(test_rate),
        LAB_TEST(test_queue),
        LAB_TEST(test_examples),
        LAB_TEST(test_iperf3),
        LAB_TEST(test_reports),
        LAB_TEST(test_watch_ends_with_the_lab),
        LAB_TEST(test_half_a_lab),
        LAB_TEST(test_usage),
        LAB_TEST(test_not_root),
    };
    int code = harness_begin();
    if (code)
        return code;
    code = cmocka_run_group_tests(tests, NULL, NULL);
    harness_end();
    return code;
}
