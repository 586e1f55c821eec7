/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages per rank at 16, 64, 256 and 1024 ranks: they may grow with log2 n, not with n. Ranks are threads of up to 8
 * processes, for one process may not open enough files.
 */
#include "bootstrap/bootstrap_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8
#define MOST      1024

static void run_share(struct test_rank *ranks, const tutti_unique_id_t *id, int first, int count, int n)
{
    bool fine = test_ranks_start(ranks + first, id, first, count, n, clock_deadline_ms(240000));
    if (fine)
        test_ranks_join(ranks + first, count);
    _exit(fine ? 0 : 1);
}

/* files: that the root takes for what its process may open, of which an eighth are places for newcomers; 0: as it is.
 */
static void open_root(struct poller *poller, tutti_unique_id_t *id, struct bootstrap_root **root, rlim_t files)
{
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = all;
    few.rlim_cur = files ? files : all.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(bootstrap_root_open(poller, NULL, id, root), TUTTI_SUCCESS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
}

static void run_all(struct test_rank *ranks, int n, rlim_t files)
{
    struct poller *poller;
    struct bootstrap_root *root;
    tutti_unique_id_t id;
    pid_t children[PROCESSES];
    int share = n / PROCESSES, status;
    assert_int_equal(poller_open(&poller), TUTTI_SUCCESS);
    open_root(poller, &id, &root, files);
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        assert_true(children[p] >= 0);
        if (children[p] == 0)
            run_share(ranks, &id, p * share, share, n);
    }
    uint64_t deadline = clock_deadline_ms(250000);
    while (!bootstrap_root_done(root) && !clock_passed(deadline))
        poller_wait(poller, 1000);
    assert_true(bootstrap_root_done(root));
    bootstrap_root_close(root);
    poller_close(poller);
    for (int p = 0; p < PROCESSES; p++) {
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_int_equal(status, 0);
    }
}

struct most {
    uint64_t join, gather, connected, retries, bytes;
};

static void raise_to(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}

static void messages_per_rank(void **state)
{
    struct test_rank *ranks =
        mmap(NULL, MOST * sizeof *ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ranks != MAP_FAILED);
    print_message("    n  log2 n  sent to join  sent per allgather  connections  retries  ms\n");
    for (int n = 16, steps = 4; n <= MOST; n *= 4, steps += 2) {
        struct most most = {0};
        memset(ranks, 0, MOST * sizeof *ranks);
        for (int i = 0; i < n; i++) {
            ranks[i].rounds = 1;
            ranks[i].size = 64;
        }
        uint64_t start = clock_ns();
        run_all(ranks, n, 0);
        for (int i = 0; i < n; i++) {
            const struct test_rank *r = &ranks[i];
            if (r->result != TUTTI_SUCCESS)
                fail_msg("rank %d of %d: %s", i, n, r->sentence);
            assert_false(r->wrong);
            /* A program that looks for somebody else at this rank's port is sent a challenge and a refusal. */
            if (r->joined.messages_sent > 2 * r->joined.strangers)
                raise_to(&most.join, r->joined.messages_sent - 2 * r->joined.strangers);
            /* The round is an allgather and a barrier. */
            raise_to(&most.gather, (r->after.messages_sent - r->joined.messages_sent) / 2);
            raise_to(&most.connected, r->joined.connected + r->joined.accepted);
            most.retries += r->joined.retries;
        }
        print_message("%5d  %6d  %12llu  %18llu  %11llu  %7llu  %llu\n", n, steps, (unsigned long long)most.join,
                      (unsigned long long)most.gather, (unsigned long long)most.connected,
                      (unsigned long long)most.retries, (unsigned long long)((clock_ns() - start) / NS_PER_MS));
        /* An attempt that failed may have cost either end a hello, a challenge and a welcome. */
        assert_true(most.join <= (uint64_t)(2 + 3 * steps) + 3 * most.retries);
        assert_int_equal(most.gather, steps);
    }
    munmap(ranks, MOST * sizeof *ranks);
}

/* Ranks that all come at once keep the places that they have until they have had their turn. */
static void more_ranks_than_places(void **state)
{
    enum { RANKS = 64, PLACES = 8 };
    static const size_t bytes = RANKS * sizeof(struct test_rank);
    struct test_rank *ranks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t retries = 0;
    assert_true(ranks != MAP_FAILED);
    for (int i = 0; i < RANKS; i++)
        ranks[i].rounds = 1;
    run_all(ranks, RANKS, 8 * PLACES);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].result, TUTTI_SUCCESS);
        retries += ranks[i].joined.retries;
    }
    print_message("%d ranks and %d places: %llu retries\n", RANKS, PLACES, (unsigned long long)retries);
    assert_true(retries < RANKS);
    munmap(ranks, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_ranks_than_places), cmocka_unit_test(messages_per_rank)};
    test_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
