/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: strangers, wrong secrets, garbage on the port, and descriptors that are handed over. */
#include "base/clock.h"
#include "fork.h"
#include "suite.h"

#include "transport/shm/shm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_shm(void)
{
    return strcmp(under_test->name, "shm") == 0;
}

/* The abstract name of the socket of `uuid`. */
static socklen_t name_of(const uint8_t *uuid, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int used = snprintf(out->sun_path, sizeof out->sun_path, "@tutti-");
    for (int i = 0; i < WIRE_UUID_BYTES; i++)
        used += snprintf(out->sun_path + used, sizeof out->sun_path - (size_t)used, "%02x", uuid[i]);
    out->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)used);
}

/* A bare connection to where `self` listens. */
static int knock(const struct wire_process *self)
{
    const struct wire_address *at = strcmp(under_test->name, "verbs") == 0 ? self->verbs : self->tcp;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    struct sockaddr_un un;
    socklen_t length = name_of(self->uuid, &un);
    memcpy(&in.sin_addr, at->bytes, 4);
    int fd = is_shm() ? socket(AF_UNIX, SOCK_SEQPACKET, 0) : socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    int result =
        is_shm() ? connect(fd, (struct sockaddr *)&un, length) : connect(fd, (struct sockaddr *)&in, sizeof in);
    assert_int_equal(result, 0);
    return fd;
}

static bool was_closed(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void wrong_secret_is_refused(void **state)
{
    struct pair pair;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    struct wire_process lie = pair.b.self;
    lie.secret[3] ^= 1;
    pair.at = end_open(&pair.a, &lie, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_DOWN] == 1);
    assert_int_equal(pair.at->counts[NOTE_UP], 0);
    assert_int_equal(pair.b.count, 0);
    pair_close(&pair);
}

/* All at once, for what is shorter than a greeting is shown out only when patience ends. */
static void garbage_is_shown_out(void **state)
{
    enum { GUESTS = 50 };
    int fds[GUESTS], left = GUESTS;
    struct pair pair;
    uint64_t random = 9;
    (void)state;
    pair_open(&pair);
    for (int guest = 0; guest < GUESTS; guest++) {
        uint8_t bytes[2000];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)random_next(&random);
        fds[guest] = knock(&pair.b.self);
        size_t length = is_shm() ? sizeof(struct shm_hello) : 300 + (size_t)random_next(&random) % 1700;
        assert_int_equal(send(fds[guest], bytes, length, MSG_NOSIGNAL), length);
        pair_step(&pair);
    }
    uint64_t deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    while (left > 0) {
        pair_step(&pair);
        party_sleep(&pair.b, 5);
        for (int guest = 0; guest < GUESTS; guest++) {
            if (fds[guest] >= 0 && was_closed(fds[guest])) {
                close(fds[guest]);
                fds[guest] = -1;
                left--;
            }
        }
        assert_false(clock_passed(deadline));
    }
    assert_int_equal(pair.b.count, 1);
    assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    pair_close(&pair);
}

/* Guests that hang up half way, or say nothing, keep nobody out. */
static void silent_strangers_do_not_block(void **state)
{
    enum { GUESTS = 300 };
    static int fds[GUESTS];
    struct pair pair;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    for (int i = 0; i < GUESTS; i++) {
        fds[i] = knock(&pair.b.self);
        if (i % 3 == 0) {
            assert_int_equal(send(fds[i], "UTTH", 4, MSG_NOSIGNAL), 4);
            if (i % 2 == 0) {
                close(fds[i]);
                fds[i] = -1;
            }
        }
        if (i % 10 == 0)
            pair_step(&pair);
    }
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_UP] && (pair.bt = end_accepted(&pair.b, 0)));
    for (int i = 0; i < GUESTS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pair_close(&pair);
}

/* Of a stranger that hangs up nothing is left, also while a child that ran no fork handlers has a copy of its
 * descriptor. */
static void stranger_leaves_beside_a_child(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int stranger = knock(&pair.b.self);
    for (int i = 0; i < 2000; i++)
        pair_step(&pair);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    assert_int_equal(shutdown(stranger, SHUT_RDWR), 0);
    for (int i = 0; i < 2000; i++)
        pair_step(&pair);
    assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(stranger);
    pair_close(&pair);
}

/* No descriptors left for a while: accepting pauses, and goes on. */
static void survives_want_of_descriptors(void **state)
{
    struct pair pair;
    struct rlimit old, low;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    int stranger = knock(&pair.b.self), highest = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)highest, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 2000; i++)
        pair_step(&pair);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    close(highest);
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_UP] && (pair.bt = end_accepted(&pair.b, 0)));
    close(stranger);
    pair_close(&pair);
}

/* The abstract name is not to be had: the socket stands in /dev/shm, private, and goes away. */
static void works_without_abstract_sockets(void **state)
{
    struct pair pair;
    struct sockaddr_un name;
    struct stat status;
    uint8_t uuid[WIRE_UUID_BYTES] = {1, 2, 3, (uint8_t)getpid(), (uint8_t)(getpid() >> 8)};
    char path[200] = "/dev/shm/";
    (void)state;
    if (!is_shm())
        skip();
    int squatter = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    socklen_t length = name_of(uuid, &name);
    assert_int_equal(bind(squatter, (struct sockaddr *)&name, length), 0);
    snprintf(path + 9, sizeof path - 9, "%s", name.sun_path + 1);
    party_open(&pair.a);
    party_open_as(&pair.b, uuid);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_UP] && (pair.bt = end_accepted(&pair.b, 0)));
    assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    pair_close(&pair);
    close(squatter);
    assert_int_equal(stat(path, &status), -1);
}

static int new_file(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, 8), 8);
    return fd;
}

static uint64_t keys_seen, order_errors;

/* A descriptor comes before the messages that were sent after it, whatever their lane. */
static void check_shared(struct end *end, const struct note *note, const void *bytes)
{
    char text[8] = "";
    uint64_t key;
    (void)end;
    if (note->kind == NOTE_SHARED) {
        assert_int_equal(pread(note->fd, text, 8, 0), 8);
        memcpy(&key, text, 8);
        assert_int_equal(key, note->id);
        assert_true(fcntl(note->fd, F_GETFD) & FD_CLOEXEC);
        close(note->fd);
        keys_seen = key;
    } else if (note->kind == NOTE_MESSAGE) {
        memcpy(&key, bytes, 8);
        order_errors += key > keys_seen;
    }
}

static void share_body(struct solo *solo, void *context)
{
    struct end *other;
    (void)context;
    party_until(&solo->party, (other = end_accepted(&solo->party, 1)));
    solo->end->hook = other->hook = check_shared;
    party_until(&solo->party, solo->end->counts[NOTE_DOWN]);
    assert_int_equal(keys_seen, 200);
    assert_int_equal(order_errors, 0);
    assert_true(other->counts[NOTE_MESSAGE] == 200);
}

static void shares_descriptors_in_order(void **state)
{
    struct solo solo;
    (void)state;
    if (!(under_test->caps & TRANSPORT_SHARES)) {
        struct pair pair;
        pair_open(&pair);
        assert_int_equal(under_test->share(pair.at->lane, 1, 0), TUTTI_INVALID_USAGE);
        pair_close(&pair);
        return;
    }
    pid_t child = solo_fork(&solo, share_body, NULL);
    struct end *other = end_open(&solo.party, &solo.peer, 1, 1);
    party_until(&solo.party, other->counts[NOTE_UP]);
    for (uint64_t key = 1; key <= 200; key++) {
        char text[8];
        memcpy(text, &key, 8);
        int fd = new_file(text);
        party_until(&solo.party, under_test->share(solo.end->lane, key, fd) == TUTTI_SUCCESS);
        close(fd);
        struct iovec part = {&key, 8};
        party_until(&solo.party, under_test->msg(other->lane, &part, 1) == TUTTI_SUCCESS);
    }
    char byte = 0;
    end_close(other);
    end_close(solo.end);
    (void)byte;
    solo_join(&solo, child, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(wrong_secret_is_refused),        cmocka_unit_test(garbage_is_shown_out),
    cmocka_unit_test(silent_strangers_do_not_block),  cmocka_unit_test(stranger_leaves_beside_a_child),
    cmocka_unit_test(survives_want_of_descriptors),   cmocka_unit_test(shares_descriptors_in_order),
    cmocka_unit_test(works_without_abstract_sockets),
};
const struct group hostile_group = {"hostile", tests, sizeof tests / sizeof *tests};
