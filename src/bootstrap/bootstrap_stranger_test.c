/* SPDX-License-Identifier: Apache-2.0 */
/* What strangers, and peers that speak wrongly, can do to the ports of the root and of ranks: nothing. */
#include "bootstrap/bootstrap_testing.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LONG clock_deadline_ms(120000)
#define MANY 1100 /* more than the connections without proof that a port keeps */

/* A blocking client of our own; reads wait 30 s at most. */
static int dial_blocking(const struct net_address *to)
{
    struct timeval patience = {30, 0};
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, &to->any, net_size(to)), 0);
    return fd;
}

static void put(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

static void put_frame(int fd, enum boot_type type, const void *body, size_t size)
{
    struct boot_header header = boot_header_of(type, size);
    put(fd, &header, sizeof header);
    if (size)
        put(fd, body, size);
}

/* Reads a frame. 0: closed. */
static enum boot_type get_frame(int fd, void *body, size_t room)
{
    struct boot_header header;
    ssize_t got = recv(fd, &header, sizeof header, MSG_WAITALL);
    if (got <= 0)
        return 0;
    assert_int_equal(got, sizeof header);
    assert_int_equal(boot_check_header(&header), BOOT_FINE);
    assert_true(header.size <= room);
    if (header.size)
        assert_int_equal(recv(fd, body, header.size, MSG_WAITALL), header.size);
    return (enum boot_type)header.type;
}

static void id_parts(const tutti_unique_id_t *id, struct net_address *root, uint8_t nonce[BOOT_NONCE])
{
    assert_int_equal(boot_id_get(id, root, nonce), TUTTI_SUCCESS);
}

static bool is_closed(int fd)
{
    char rest[4096];
    ssize_t got;
    while ((got = recv(fd, rest, sizeof rest, 0)) > 0)
        ;
    return got == 0 || errno == ECONNRESET;
}

static struct boot_header header_with(uint32_t magic, uint16_t version, uint16_t type, uint64_t size)
{
    return (struct boot_header){magic, version, type, size};
}

/* Each of these must get its sender dropped, and nothing else. */
static void throw_garbage_at(const struct net_address *port)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    const struct boot_header headers[] = {
        header_with(BOOT_MAGIC, BOOT_VERSION, BOOT_HELLO, UINT64_MAX),
        header_with(BOOT_MAGIC, BOOT_VERSION, BOOT_HELLO, 0),
        header_with(BOOT_MAGIC, BOOT_VERSION, BOOT_DATA, 1 << 30),
        header_with(BOOT_MAGIC, BOOT_VERSION, BOOT_PEERS, sizeof(struct boot_peers)),
        header_with(BOOT_MAGIC, BOOT_VERSION, BOOT_READY, 0),
        header_with(BOOT_MAGIC, BOOT_VERSION, 99, 0),
        header_with(BOOT_MAGIC, BOOT_VERSION + 1, BOOT_HELLO, sizeof(struct boot_hello)),
        header_with(__builtin_bswap32(BOOT_MAGIC), BOOT_VERSION, BOOT_HELLO, sizeof(struct boot_hello)),
    };
    int fd = dial_blocking(port);
    put(fd, text, sizeof text);
    assert_true(is_closed(fd));
    close(fd);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        fd = dial_blocking(port);
        put(fd, &headers[i], sizeof headers[i]);
        assert_true(is_closed(fd));
        close(fd);
    }
    /* Truncated. */
    struct boot_hello hello = {.rank = 1};
    struct boot_header header = boot_header_of(BOOT_HELLO, sizeof hello);
    fd = dial_blocking(port);
    put(fd, &header, sizeof header);
    put(fd, &hello, 20);
    close(fd);
}

static void garbage_at_the_root(void **state)
{
    struct test_root root;
    struct test_rank ranks[2] = {{.rounds = 1, .size = 8}, {.rounds = 1, .size = 8}};
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    id_parts(&root.id, &at, nonce);
    throw_garbage_at(&at);
    assert_true(test_ranks_start(ranks, &root.id, 0, 1, 2, LONG));
    throw_garbage_at(&at);
    assert_true(test_ranks_start(ranks + 1, &root.id, 1, 1, 2, LONG));
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ranks[i].result, TUTTI_SUCCESS);
    test_root_stop(&root);
}

static void other_version_is_told(void **state)
{
    struct test_root root;
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    struct boot_challenge challenge;
    struct boot_failed failed;
    struct boot_header header = header_with(BOOT_MAGIC, 7, BOOT_HELLO, 8);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    id_parts(&root.id, &at, nonce);
    int fd = dial_blocking(&at);
    assert_int_equal(get_frame(fd, &challenge, sizeof challenge), BOOT_CHALLENGE);
    put(fd, &header, sizeof header);
    assert_int_equal(get_frame(fd, &failed, sizeof failed), BOOT_FAILED);
    assert_int_equal(failed.reason, BOOT_BAD_VERSION);
    assert_int_equal(failed.a, BOOT_VERSION);
    close(fd);
    test_root_stop(&root);
}

/* Connections that say nothing fill the places for newcomers; those with something to say still get in. */
static void silent_crowd(void **state)
{
    static int fds[MANY];
    struct test_root root;
    struct test_rank ranks[4] = {0};
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    id_parts(&root.id, &at, nonce);
    for (int i = 0; i < MANY; i++)
        fds[i] = dial_blocking(&at);
    assert_true(test_ranks_start(ranks, &root.id, 0, 4, 4, LONG));
    test_ranks_join(ranks, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ranks[i].result, TUTTI_SUCCESS);
    /* The first ones had to give way. */
    assert_true(is_closed(fds[0]));
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    test_root_stop(&root);
}

static void slow_stranger_is_dropped(void **state)
{
    struct test_root root;
    struct net_address at;
    uint8_t nonce[BOOT_NONCE];
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    id_parts(&root.id, &at, nonce);
    int fd = dial_blocking(&at);
    put(fd, "T", 1);
    assert_true(is_closed(fd));
    close(fd);
    test_root_stop(&root);
}

/* A rank 1 made by hand. */
struct fake {
    uint32_t nranks, timeout_ms;
    struct net_address root, here, peer;
    uint8_t nonce[BOOT_NONCE];
    int listener, root_fd, out, in; /* out: to rank 0, in: from it */
};

static struct boot_hello fake_hello(const struct fake *fake, uint32_t to)
{
    struct boot_hello hello = {
        .token = 77, .rank = 1, .nranks = fake->nranks, .to = to, .timeout_ms = fake->timeout_ms, .random = {9}};
    boot_address_put(&hello.listener, &fake->here);
    return hello;
}

/* Connects and proves itself. Returns the socket; *reply is the answer. */
static int fake_dial(const struct fake *fake, const struct net_address *to, struct boot_hello hello,
                     enum boot_type want, void *reply, size_t room)
{
    struct boot_challenge challenge;
    int fd = dial_blocking(to);
    assert_int_equal(get_frame(fd, &challenge, sizeof challenge), BOOT_CHALLENGE);
    boot_seal(fake->nonce, BOOT_HELLO, challenge.random, hello.random, &hello, sizeof hello);
    put_frame(fd, BOOT_HELLO, &hello, sizeof hello);
    assert_int_equal(get_frame(fd, reply, room), want);
    assert_true(boot_proven(fake->nonce, want, challenge.random, hello.random, reply, room));
    return fd;
}

static void fake_open(struct fake *fake, const tutti_unique_id_t *id, uint32_t nranks, uint32_t timeout_ms)
{
    struct boot_joined joined;
    *fake = (struct fake){.nranks = nranks, .timeout_ms = timeout_ms, .out = -1, .in = -1};
    id_parts(id, &fake->root, fake->nonce);
    fake->here = fake->root;
    net_set_port(&fake->here, 0);
    assert_int_equal(net_listen(&fake->here, 8, &fake->listener), TUTTI_SUCCESS);
    fcntl(fake->listener, F_SETFL, 0);
    fake->root_fd = fake_dial(fake, &fake->root, fake_hello(fake, BOOT_TO_ROOT), BOOT_JOINED, &joined, sizeof joined);
}

/* Hears where rank 0 is. */
static void fake_peers(struct fake *fake)
{
    struct boot_peers peers;
    assert_int_equal(get_frame(fake->root_fd, &peers, sizeof peers), BOOT_PEERS);
    assert_int_equal(peers.count, 1);
    assert_true(boot_address_get(&peers.peer[0], &fake->peer));
}

/* A caller that has waited too long to be accepted has hung up, and dials again. */
static int accept_hello(int listener, const struct boot_challenge *challenge, struct boot_hello *hello)
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        struct boot_header header = boot_header_of(BOOT_CHALLENGE, sizeof *challenge);
        send(fd, &header, sizeof header, MSG_NOSIGNAL);
        send(fd, challenge, sizeof *challenge, MSG_NOSIGNAL);
        enum boot_type type = get_frame(fd, hello, sizeof *hello);
        if (type == BOOT_HELLO)
            return fd;
        assert_int_equal(type, 0);
        close(fd);
    }
}

static void fake_accept(struct fake *fake)
{
    struct boot_challenge challenge = {{5}};
    struct boot_hello hello;
    struct boot_welcome welcome = {.rank = 1};
    fake->in = accept_hello(fake->listener, &challenge, &hello);
    assert_true(boot_proven(fake->nonce, BOOT_HELLO, challenge.random, hello.random, &hello, sizeof hello));
    boot_seal(fake->nonce, BOOT_WELCOME, challenge.random, hello.random, &welcome, sizeof welcome);
    put_frame(fake->in, BOOT_WELCOME, &welcome, sizeof welcome);
}

static void fake_close(struct fake *fake)
{
    close(fake->listener);
    close(fake->root_fd);
    if (fake->in >= 0)
        close(fake->in);
    if (fake->out >= 0)
        close(fake->out);
}

/* Starts a real rank 0 that then makes one allgather of 8 bytes, and a fake rank 1 that is joined with it. */
static void meet_fake(struct test_root *root, struct test_rank *rank, struct fake *fake, bool noise)
{
    struct boot_welcome welcome;
    *rank = (struct test_rank){.rounds = 1, .size = 8};
    assert_int_equal(test_root_start(root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(rank, &root->id, 0, 1, 2, LONG));
    fake_open(fake, &root->id, 2, 60000);
    fake_peers(fake);
    if (noise) {
        throw_garbage_at(&fake->peer);
        /* Proven, but not the one that is expected there. */
        struct boot_hello hello = fake_hello(fake, 3);
        struct boot_challenge challenge;
        int fd = dial_blocking(&fake->peer);
        assert_int_equal(get_frame(fd, &challenge, sizeof challenge), BOOT_CHALLENGE);
        boot_seal(fake->nonce, BOOT_HELLO, challenge.random, hello.random, &hello, sizeof hello);
        put_frame(fd, BOOT_HELLO, &hello, sizeof hello);
        assert_true(is_closed(fd));
        close(fd);
    }
    fake->out = fake_dial(fake, &fake->peer, fake_hello(fake, 0), BOOT_WELCOME, &welcome, sizeof welcome);
    fake_accept(fake);
    put_frame(fake->root_fd, BOOT_READY, NULL, 0);
}

static void garbage_at_a_rank(void **state)
{
    struct test_root root;
    struct test_rank rank;
    struct fake fake;
    struct {
        struct boot_data data;
        char bytes[8];
    } step = {{0, 0}, ""}, got, barrier = {{1, 0}, ""};
    meet_fake(&root, &rank, &fake, true);
    for (size_t i = 0; i < sizeof step.bytes; i++)
        step.bytes[i] = (char)(31 + (int)i * 7);
    put_frame(fake.out, BOOT_DATA, &step, sizeof step);
    put_frame(fake.out, BOOT_DATA, &barrier, sizeof barrier.data);
    assert_int_equal(get_frame(fake.in, &got, sizeof got), BOOT_DATA);
    test_ranks_join(&rank, 1);
    assert_int_equal(rank.result, TUTTI_SUCCESS);
    assert_false(rank.wrong);
    fake_close(&fake);
    test_root_stop(&root);
}

/* After a good join: what if the peer's data are wrong? */
static void expect_after(const void *bytes, size_t size, bool hang_up, tutti_result_t want)
{
    struct test_root root;
    struct test_rank rank;
    struct fake fake;
    meet_fake(&root, &rank, &fake, false);
    if (size)
        put(fake.out, bytes, size);
    if (hang_up)
        shutdown(fake.out, SHUT_WR);
    test_ranks_join(&rank, 1);
    assert_int_equal(rank.result, want);
    assert_non_null(strstr(rank.sentence, "rank 1"));
    fake_close(&fake);
    test_root_stop(&root);
}

static void wrong_data(void **state)
{
    struct {
        struct boot_header header;
        union {
            struct boot_data data;
            struct boot_failed failed;
        };
    } frame = {.header = boot_header_of(BOOT_DATA, sizeof(struct boot_data) + 8)};
    expect_after("", 0, true, TUTTI_REMOTE_ERROR);
    expect_after(&frame, 10, true, TUTTI_REMOTE_ERROR);
    expect_after(&frame, 24, true, TUTTI_REMOTE_ERROR);
    frame.data.sequence = 9;
    expect_after(&frame, 24, false, TUTTI_INVALID_USAGE);
    frame.data.sequence = 0;
    frame.header.size = UINT64_MAX;
    expect_after(&frame, 24, false, TUTTI_INVALID_USAGE);
    frame.header = boot_header_of(BOOT_FAILED, sizeof(struct boot_failed));
    frame.failed = (struct boot_failed){.reason = BOOT_DIED, .rank = 1};
    expect_after(&frame, sizeof frame, false, TUTTI_REMOTE_ERROR);
    expect_after(&frame, 30, true, TUTTI_REMOTE_ERROR);
    frame.failed.reason = 4711;
    expect_after(&frame, sizeof frame, false, TUTTI_REMOTE_ERROR);
}

/* A member of the root that says something else than that it is ready. */
static void wrong_word_to_the_root(void **state)
{
    struct test_root root;
    struct test_rank rank = {0};
    struct fake fake;
    struct boot_challenge nonsense = {{0}};
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    fake_open(&fake, &root.id, 2, 60000);
    put_frame(fake.root_fd, BOOT_CHALLENGE, &nonsense, sizeof nonsense);
    assert_true(test_ranks_start(&rank, &root.id, 0, 1, 2, LONG));
    test_ranks_join(&rank, 1);
    assert_int_equal(rank.result, TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(rank.sentence, "rank 1 died"));
    fake_close(&fake);
    test_root_stop(&root);
}

/* What answers at the root's address is not the root. */
/* The others would wait longer, but not without this one. */
static void missing_rank_is_named(void **state)
{
    struct test_root root;
    struct test_rank ranks[3] = {0};
    struct fake fake;
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 1, 5, LONG));
    assert_true(test_ranks_start(ranks + 1, &root.id, 3, 2, 5, LONG));
    fake_open(&fake, &root.id, 5, 3000);
    test_ranks_join(ranks, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].result, TUTTI_REMOTE_ERROR);
        assert_non_null(strstr(ranks[i].sentence, "1 of 5 ranks did not come in time, the first is rank 2"));
    }
    fake_close(&fake);
    test_root_stop(&root);
}

/* Rank 1 asks again and again, faster than the root's clock ticks, whether rank 0 has come. */
static void hellos_do_not_stop_the_clock(void **state)
{
    struct test_root root;
    struct fake fake = {.nranks = 2, .timeout_ms = 500};
    struct boot_failed failed;
    enum boot_type type = BOOT_LATER;
    setenv("TUTTI_BOOTSTRAP_CONNECTIONS", "1", 1);
    param_reload();
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    id_parts(&root.id, &fake.root, fake.nonce);
    fake.here = fake.root;
    for (int i = 0; i < 1000 && type == BOOT_LATER; i++) {
        struct boot_challenge challenge;
        struct boot_hello hello = fake_hello(&fake, BOOT_TO_ROOT);
        int fd = dial_blocking(&fake.root);
        assert_int_equal(get_frame(fd, &challenge, sizeof challenge), BOOT_CHALLENGE);
        boot_seal(fake.nonce, BOOT_HELLO, challenge.random, hello.random, &hello, sizeof hello);
        put_frame(fd, BOOT_HELLO, &hello, sizeof hello);
        type = get_frame(fd, &failed, sizeof failed);
        close(fd);
        usleep(5000);
    }
    assert_int_equal(type, BOOT_FAILED);
    assert_int_equal(failed.reason, BOOT_MISSING);
    assert_int_equal(failed.rank, 0);
    test_root_stop(&root);
    unsetenv("TUTTI_BOOTSTRAP_CONNECTIONS");
    param_reload();
}

/* The connection of the last rank breaks, and it dials again before the root has noticed: nobody else hears of it. */
static void last_rank_dials_again(void **state)
{
    struct test_root root;
    struct fake fake;
    struct boot_joined joined;
    struct boot_peers peers;
    int fds[2];
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    fake_open(&fake, &root.id, 2, 60000);
    struct boot_hello last = fake_hello(&fake, BOOT_TO_ROOT);
    last.rank = 0;
    for (int i = 0; i < 2; i++) {
        fds[i] = fake_dial(&fake, &fake.root, last, BOOT_JOINED, &joined, sizeof joined);
        assert_int_equal(get_frame(fds[i], &peers, sizeof peers), BOOT_PEERS);
    }
    fake_peers(&fake);
    put_frame(fake.root_fd, BOOT_READY, NULL, 0);
    assert_int_equal(get_frame(fake.root_fd, &peers, sizeof peers), 0);
    close(fds[0]);
    close(fds[1]);
    fake_close(&fake);
    test_root_stop(&root);
}

static void false_root(void **state)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    struct test_rank rank = {0};
    struct boot_challenge challenge = {{0}};
    struct boot_hello hello;
    struct boot_joined joined = {{0}};
    uint8_t nonce[BOOT_NONCE] = {0};
    tutti_unique_id_t id;
    int listener;
    assert_int_equal(net_listen(&at, 8, &listener), TUTTI_SUCCESS);
    fcntl(listener, F_SETFL, 0);
    boot_id_put(&id, &at, nonce);
    assert_true(test_ranks_start(&rank, &id, 0, 1, 2, LONG));
    int fd = accept(listener, NULL, NULL);
    put(fd, "220 mail.example.org ESMTP", 26);
    close(fd);
    fd = accept_hello(listener, &challenge, &hello);
    put_frame(fd, BOOT_JOINED, &joined, sizeof joined);
    test_ranks_join(&rank, 1);
    assert_int_equal(rank.result, TUTTI_INVALID_USAGE);
    assert_non_null(strstr(rank.sentence, "is not our root"));
    close(fd);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_at_the_root),
        cmocka_unit_test(other_version_is_told),
        cmocka_unit_test(silent_crowd),
        cmocka_unit_test(slow_stranger_is_dropped),
        cmocka_unit_test(garbage_at_a_rank),
        cmocka_unit_test(wrong_data),
        cmocka_unit_test(wrong_word_to_the_root),
        cmocka_unit_test(missing_rank_is_named),
        cmocka_unit_test(hellos_do_not_stop_the_clock),
        cmocka_unit_test(false_root),
        cmocka_unit_test(last_rank_dials_again),
    };
    test_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
