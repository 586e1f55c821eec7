/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and the allgather when all goes well: every n, late root, late ranks, small listen queue, few connections. */
#include "bootstrap/bootstrap_testing.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <unistd.h>

#define DEADLINE clock_deadline_ms(120000)

static int steps_of(int n)
{
    int steps = 0;
    while (1 << steps < n)
        steps++;
    return steps;
}

static struct test_rank *new_ranks(int n, int rounds, size_t size)
{
    struct test_rank *ranks = calloc((size_t)n, sizeof *ranks);
    assert_non_null(ranks);
    for (int i = 0; i < n; i++) {
        ranks[i].rounds = rounds;
        ranks[i].size = size;
    }
    return ranks;
}

static void assert_all_well(const struct test_rank *ranks, int n)
{
    for (int i = 0; i < n; i++) {
        if (ranks[i].result != TUTTI_SUCCESS)
            print_error("rank %d of %d: %s\n", i, n, ranks[i].sentence);
        assert_int_equal(ranks[i].result, TUTTI_SUCCESS);
        assert_false(ranks[i].wrong);
    }
}

static void wait_done(const struct bootstrap_root *root)
{
    uint64_t deadline = DEADLINE;
    while (!bootstrap_root_done(root) && !clock_passed(deadline))
        usleep(1000);
    assert_true(bootstrap_root_done(root));
}

static void meet(int n, int rounds, size_t size)
{
    struct test_root root;
    struct test_rank *ranks = new_ranks(n, rounds, size);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, n, n, DEADLINE));
    test_ranks_join(ranks, n);
    assert_all_well(ranks, n);
    wait_done(root.root);
    test_root_stop(&root);
    free(ranks);
}

static void every_small_n(void **state)
{
    for (int n = 1; n <= 9; n++)
        meet(n, 3, 24);
    meet(16, 2, 24);
}

static void many(void **state)
{
    meet(64, 2, 100);
    meet(256, 1, 100);
}

/* Far more than socket buffers hold: both directions must move at once. */
static void large_blocks(void **state)
{
    meet(5, 1, 3 << 20);
}

static void messages_are_logarithmic(void **state)
{
    static const int sizes[] = {2, 3, 7, 16, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int n = sizes[i], steps = steps_of(n);
        struct test_root root;
        struct test_rank *ranks = new_ranks(n, 1, 8);
        assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
        assert_true(test_ranks_start(ranks, &root.id, 0, n, n, DEADLINE));
        test_ranks_join(ranks, n);
        assert_all_well(ranks, n);
        uint64_t retries = 0; /* each may have cost either end as many messages */
        for (int r = 0; r < n; r++)
            retries += ranks[r].joined.retries;
        for (int r = 0; r < n; r++) {
            /* Hello and ready to the root; hello to each target; challenge and welcome to each source. */
            assert_true(ranks[r].joined.messages_sent <=
                        (uint64_t)(2 + 3 * steps) + 3 * retries + 2 * ranks[r].joined.strangers);
            /* An allgather and a barrier. */
            assert_int_equal(ranks[r].after.messages_sent - ranks[r].joined.messages_sent, 2 * steps);
            assert_int_equal(ranks[r].after.messages_received - ranks[r].joined.messages_received, 2 * steps);
        }
        test_root_stop(&root);
        free(ranks);
    }
}

/* An id whose root does not listen yet. Nobody else gets its port before *fd is closed. */
static tutti_unique_id_t id_of_reserved_port(int *fd)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    uint8_t nonce[BOOT_NONCE];
    tutti_unique_id_t id;
    assert_int_equal(net_reserve(&at, fd), TUTTI_SUCCESS);
    assert_int_equal(random_bytes(nonce, sizeof nonce), TUTTI_SUCCESS);
    boot_id_put(&id, &at, nonce);
    return id;
}

static void late_root(void **state)
{
    struct test_root root;
    struct test_rank *ranks = new_ranks(4, 1, 8), impatient = {0};
    int fd;
    tutti_unique_id_t id = id_of_reserved_port(&fd);
    assert_true(test_ranks_start(ranks, &id, 0, 4, 4, DEADLINE));
    assert_true(test_ranks_start(&impatient, &id, 0, 1, 4, clock_deadline_ms(300)));
    test_ranks_join(&impatient, 1);
    assert_int_equal(impatient.result, TUTTI_REMOTE_ERROR); /* by now the others have tried, too */
    assert_int_equal(test_root_start(&root, &id), TUTTI_SUCCESS);
    close(fd);
    test_ranks_join(ranks, 4);
    assert_all_well(ranks, 4);
    test_root_stop(&root);
    free(ranks);
}

static void late_ranks(void **state)
{
    struct test_root root;
    struct test_rank *ranks = new_ranks(6, 1, 8);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 3, 6, DEADLINE));
    usleep(200000);
    assert_false(bootstrap_root_done(root.root));
    assert_true(test_ranks_start(ranks + 3, &root.id, 3, 3, 6, DEADLINE));
    test_ranks_join(ranks, 6);
    assert_all_well(ranks, 6);
    test_root_stop(&root);
    free(ranks);
}

static void with_setting(const char *name, const char *value, int n)
{
    setenv(name, value, 1);
    param_reload();
    meet(n, 1, 8);
    unsetenv(name);
    param_reload();
}

static void full_listen_queue(void **state)
{
    with_setting("TUTTI_BOOTSTRAP_BACKLOG", "1", 48);
}

/* The root may hold fewer connections than there are ranks: they come again for their answer. */
static void few_connections(void **state)
{
    with_setting("TUTTI_BOOTSTRAP_CONNECTIONS", "4", 24);
}

static void over_ipv6(void **state)
{
    struct net_address at = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    int fd;
    if (net_listen(&at, 1, &fd) != TUTTI_SUCCESS)
        skip();
    close(fd);
    with_setting("TUTTI_SOCKET_FAMILY", "AF_INET6", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_n),     cmocka_unit_test(many),
        cmocka_unit_test(large_blocks),      cmocka_unit_test(messages_are_logarithmic),
        cmocka_unit_test(late_root),         cmocka_unit_test(late_ranks),
        cmocka_unit_test(full_listen_queue), cmocka_unit_test(few_connections),
        cmocka_unit_test(over_ipv6),
    };
    test_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
