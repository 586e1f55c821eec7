/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance under failing system calls: the n-th call of each kind fails, for every n until none is left to fail.
 * Whatever fails, nothing crashes, hangs or leaks, each lane is told of at most once, and what arrives is right. Needs
 * LD_PRELOAD of libinject.so; without it the tests are skipped.
 */
#include "base/backoff.h"
#include "base/clock.h"
#include "inject.h"
#include "suite.h"
#include "transport/shm/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH 300000

/* An owner that allocates nothing. */
struct stub {
    struct poller *poller;
    struct transport *transport;
    struct wire_process self;
    struct lane *lane;
    int up, downs, messages, arrived, sent;
};

static struct stub left, right;
static uint8_t source[LENGTH], area[LENGTH], *shared; /* a region with the source's bytes, or NULL */

static bool on_accepted(void *context, struct lane *lane, const struct wire_hello *hello)
{
    struct stub *stub = context;
    (void)hello;
    assert_null(stub->lane);
    lane->user = stub;
    stub->lane = lane;
    stub->up = 1;
    return true;
}

static void on_up(struct lane *lane)
{
    ((struct stub *)lane->user)->up++;
}

static void on_down(struct lane *lane, tutti_result_t why)
{
    (void)why;
    assert_int_equal(((struct stub *)lane->user)->downs++, 0);
}

static void on_message(struct lane *lane, const void *bytes, size_t length)
{
    assert_memory_equal(bytes, source, length);
    ((struct stub *)lane->user)->messages++;
}

static struct place on_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)lane;
    (void)imm;
    return place_host(offset + length <= LENGTH ? area + offset : NULL);
}

static void on_arrived(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)imm;
    assert_memory_equal(area + offset, source, length);
    ((struct stub *)lane->user)->arrived++;
}

static void on_sent(struct lane *lane, uint64_t token)
{
    (void)token;
    ((struct stub *)lane->user)->sent++;
}

static void on_writable(struct lane *lane)
{
    (void)lane;
}

static void on_shared(struct lane *lane, uint64_t key, int fd)
{
    (void)lane;
    (void)key;
    close(fd);
}

static bool open_stub(struct stub *stub)
{
    struct transport_owner owner = {stub,      on_accepted, on_up,   on_down,     on_message,
                                    on_target, on_arrived,  on_sent, on_writable, on_shared};
    memset(stub, 0, sizeof *stub);
    stub->self.uid = geteuid();
    for (int i = 0; i < WIRE_UUID_BYTES; i++)
        stub->self.uuid[i] = (uint8_t)((stub == &left) + 10 * i);
    pid_t pid = getpid(); /* other runs of this program share the names of sockets */
    memcpy(stub->self.uuid + 1, &pid, sizeof pid);
    return poller_open(&stub->poller) == TUTTI_SUCCESS &&
           under_test->open(under_test, &owner, stub->poller, &stub->self, &stub->transport) == TUTTI_SUCCESS;
}

static void close_stub(struct stub *stub)
{
    if (stub->lane)
        under_test->lane_close(stub->lane);
    if (stub->transport)
        under_test->close(stub->transport);
    poller_close(stub->poller);
}

static void step(void)
{
    static unsigned turn;
    int done = under_test->poll(left.transport) + under_test->poll(right.transport);
    turn = done ? 0 : turn;
    if (!done)
        backoff(&turn);
}

static bool over(void)
{
    return !left.lane || left.downs || right.downs;
}

static void send_all(struct stub *from)
{
    struct iovec parts[2] = {{source, 1000}, {source + 1000, 5000}};
    struct put put = {.source = place_host(shared ? shared : source), .length = LENGTH};
    for (put.token = 1; put.token <= 5 && !over(); put.token++) {
        while (under_test->msg(from->lane, parts, 2) == TUTTI_IN_PROGRESS && !over())
            step();
        while (!over() && under_test->put(from->lane, &put) == TUTTI_IN_PROGRESS)
            step();
    }
}

/* A short life: open, connect, send both ways, share, close. True if all came. */
static bool scenario(void)
{
    uint64_t deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    bool opened = open_stub(&left);
    opened = open_stub(&right) && opened;
    if (opened && under_test->lane_open(left.transport, &right.self, 0, 1, 0, 0, &left, &left.lane) != TUTTI_SUCCESS)
        left.lane = NULL;
    while (opened && !over() && !(left.up && right.up) && !clock_passed(deadline))
        step();
    if (opened && !over()) {
        send_all(&left);
        send_all(&right);
    }
    while (opened && !over() && !(left.arrived == 5 && right.arrived == 5 && left.sent == 5) && !clock_passed(deadline))
        step();
    assert_false(clock_passed(deadline));
    bool whole = left.arrived == 5 && right.arrived == 5 && left.messages == 5 && right.messages == 5 && left.sent == 5;
    close_stub(&left);
    close_stub(&right);
    return whole;
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 512; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void fail_each(const char *function)
{
    assert_true(scenario()); /* what is opened once for the process is open from here on */
    int fds = count_fds();
    unsigned long fired = 1;
    for (int n = 1; fired && n < 400; n++) {
        char specification[64];
        snprintf(specification, sizeof specification, "%s:%d", function, n);
        assert_true(inject_arm(specification));
        bool whole = scenario();
        fired = inject_disarm();
        if (!fired)
            assert_true(whole);
        assert_int_equal(count_fds(), fds);
    }
}

static void each_call_fails_once(void **state)
{
    static const char *const functions[] = {"malloc",    "calloc",  "realloc",      "connect", "accept4",
                                            "send",      "sendmsg", "recv",         "recvmsg", "socket",
                                            "epoll_ctl", "mmap",    "memfd_create", "eventfd"};
    (void)state;
    if (!inject_present())
        skip();
    for (size_t i = 0; i < LENGTH; i++)
        source[i] = (uint8_t)(i * 7 >> 3);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        fail_each(functions[i]);
}

static void share_source(void)
{
    shared = region_alloc(LENGTH);
    assert_non_null(shared);
    memcpy(shared, source, LENGTH);
}

static void unshare_source(void)
{
    assert_true(region_free(shared));
    shared = NULL;
}

static void each_call_fails_with_regions(void **state)
{
    (void)state;
    if (!inject_present())
        skip();
    share_source();
    fail_each("mmap");
    fail_each("sendmsg");
    fail_each("malloc");
    fail_each("calloc");
    fail_each("realloc");
    unshare_source();
}

/* The software RDMA device makes calls of its own, from a thread of its own, which are not to be counted or cut into
 * pieces. */
static bool calls_are_ours(void)
{
    return inject_present() && strcmp(under_test->name, "verbs") != 0;
}

/* The system gives no memfd at all: a file in /dev/shm does as well. */
static void works_without_memfd(void **state)
{
    (void)state;
    if (!inject_present())
        skip();
    assert_true(inject_arm("memfd_create:1+"));
    share_source();
    assert_true(scenario());
    inject_disarm();
    unshare_source();
}

static void works_in_small_pieces(void **state)
{
    (void)state;
    if (!calls_are_ours() || under_test->caps & TRANSPORT_SAME_HOST)
        skip(); /* packets of a unix socket come whole */
    for (int most = 23; most < 2000; most += most < 150 ? 50 : 700) {
        char specification[64];
        snprintf(specification, sizeof specification, "short:%d", most);
        assert_true(inject_arm(specification));
        bool whole = scenario();
        inject_disarm();
        assert_true(whole);
    }
}

/* The network is in the way: the sentence is not the one for a peer that is gone. */
static void peer_out_of_reach(void **state)
{
    struct pair pair;
    (void)state;
    if (!inject_present())
        skip();
    party_open(&pair.a);
    party_open(&pair.b);
    assert_true(inject_arm("connect:1+"));
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    inject_disarm();
    party_until(&pair.a, pair.at->counts[NOTE_DOWN]);
    assert_int_equal(end_last(pair.at, NOTE_DOWN)->id, TUTTI_SYSTEM_ERROR);
    pair_close(&pair);
}

/* What there is no memory to keep is refused like what there is no room for. */
static void message_without_memory(void **state)
{
    struct pair pair;
    struct iovec part = {source, 6000};
    tutti_result_t result = TUTTI_SUCCESS;
    unsigned long kept = 0;
    (void)state;
    if (!calls_are_ours())
        skip();
    pair_open(&pair);
    while (result == TUTTI_SUCCESS && !kept) { /* until the socket is full, and messages are kept */
        assert_true(inject_arm("malloc:1000"));
        result = under_test->msg(pair.at->lane, &part, 1);
        kept = inject_calls();
        inject_disarm();
    }
    if (kept) {
        assert_int_equal(result, TUTTI_SUCCESS);
        assert_true(inject_arm("malloc:1+"));
        result = under_test->msg(pair.at->lane, &part, 1);
        inject_disarm();
    }
    assert_int_equal(result, TUTTI_IN_PROGRESS);
    pair_until(&pair, pair.at->counts[NOTE_WRITABLE]);
    assert_int_equal(under_test->msg(pair.at->lane, &part, 1), TUTTI_SUCCESS);
    pair_close(&pair);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(message_without_memory), cmocka_unit_test(peer_out_of_reach),
    cmocka_unit_test(each_call_fails_once),   cmocka_unit_test(each_call_fails_with_regions),
    cmocka_unit_test(works_in_small_pieces),
};
const struct group faults_group = {"faults", tests, sizeof tests / sizeof *tests};

/* A process of its own: where memfd has worked once a refusal is an error. */
static const struct CMUnitTest unsealed[] = {cmocka_unit_test(works_without_memfd)};
const struct group unsealed_group = {"unsealed", unsealed, sizeof unsealed / sizeof *unsealed};
