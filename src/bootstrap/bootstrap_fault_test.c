/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die, come twice, disagree, do not come, or are aborted: all others learn it soon, and by rank. */
#include "bootstrap/bootstrap_testing.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG        clock_deadline_ms(120000)
#define OUT_OF_TIME "but not all of the 7 ranks came"

static void assert_says(const struct test_rank *rank, tutti_result_t result, const char *words)
{
    if (rank->result != result || !strstr(rank->sentence, words))
        fail_msg("rank %d: %s: \"%s\", want %s and \"%s\"", rank->rank, error_name(rank->result), rank->sentence,
                 error_name(result), words);
}

static void wrong_nonce_is_refused(void **state)
{
    struct test_root root;
    struct test_rank ranks[3], stranger[1];
    test_ranks_with(ranks, 3, 1, 8);
    test_ranks_with(stranger, 1, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    tutti_unique_id_t other = test_damaged(&root.id);
    assert_true(test_ranks_start(ranks, &root.id, 0, 2, 3, LONG));
    assert_true(test_ranks_start(stranger, &other, 2, 1, 3, LONG));
    test_ranks_join(stranger, 1);
    assert_says(stranger, TUTTI_INVALID_USAGE, "rank 2 was refused");
    assert_non_null(strstr(stranger->sentence, "nonce"));
    /* The others did not notice. */
    assert_true(test_ranks_start(ranks + 2, &root.id, 2, 1, 3, LONG));
    test_ranks_join(ranks, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ranks[i].result, TUTTI_SUCCESS);
    test_root_stop(&root);
}

static void bad_arguments(void **state)
{
    struct bootstrap *b = NULL;
    tutti_unique_id_t id = {{0}};
    assert_int_equal(bootstrap_join(&id, 0, 2, LONG, NULL, &b), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(bootstrap_join(&id, 2, 2, LONG, NULL, &b), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(bootstrap_join(&id, -1, 2, LONG, NULL, &b), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(bootstrap_join(&id, 0, 0, LONG, NULL, &b), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(bootstrap_join(&id, 0, BOOT_RANKS_MAX + 1, LONG, NULL, &b), TUTTI_INVALID_ARGUMENT);
    assert_null(b);
    bootstrap_close(NULL);
    bootstrap_root_close(NULL);
}

static void bad_ids(void **state)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_port = htons(9)}}, got;
    uint8_t nonce[BOOT_NONCE] = {1}, same[BOOT_NONCE];
    tutti_unique_id_t id;
    struct boot_id *parts = (struct boot_id *)(void *)&id;
    boot_id_put(&id, &at, nonce);
    assert_int_equal(boot_id_get(&id, &got, same), TUTTI_SUCCESS);
    assert_memory_equal(nonce, same, sizeof nonce);
    parts->root.port = 0;
    assert_int_equal(boot_id_get(&id, &got, same), TUTTI_INVALID_ARGUMENT);
    parts->version++;
    assert_int_equal(boot_id_get(&id, &got, same), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "version"));
    parts->magic = __builtin_bswap32(parts->magic);
    assert_int_equal(boot_id_get(&id, &got, same), TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(error_last(), "byte order"));
}

static void same_rank_twice_fails_all(void **state)
{
    struct test_root root;
    struct test_rank ranks[3], twin[1];
    test_ranks_with(ranks, 3, 0, 0);
    test_ranks_with(twin, 1, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 2, 4, LONG));
    assert_true(test_ranks_start(twin, &root.id, 1, 1, 4, LONG));
    test_ranks_join(ranks, 2);
    test_ranks_join(twin, 1);
    /* One that comes when all is over hears it too. */
    assert_true(test_ranks_start(ranks + 2, &root.id, 2, 1, 4, LONG));
    test_ranks_join(ranks + 2, 1);
    for (int i = 0; i < 3; i++)
        assert_says(&ranks[i], TUTTI_INVALID_USAGE, "two processes joined as rank 1");
    assert_says(twin, TUTTI_INVALID_USAGE, "two processes joined as rank 1");
    test_root_stop(&root);
}

static void different_nranks_fail_all(void **state)
{
    struct test_root root;
    struct test_rank ranks[3];
    test_ranks_with(ranks, 3, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 1, 4, LONG));
    assert_true(test_ranks_start(ranks + 1, &root.id, 1, 1, 5, LONG));
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&ranks[i], TUTTI_INVALID_USAGE, "pass the same number on all ranks");
    test_root_stop(&root);
}

static void missing_root(void **state)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    uint8_t nonce[BOOT_NONCE] = {0};
    tutti_unique_id_t id;
    struct test_rank rank[1];
    int fd;
    test_ranks_with(rank, 1, 0, 0);
    /* Bound, not listening: refuses, and nobody else can take it. One of those that the library makes of variables. */
    for (uint16_t port = NET_PORT_FIRST; net_set_port(&at, port), net_reserve(&at, &fd) != TUTTI_SUCCESS; port++)
        ;
    boot_id_put(&id, &at, nonce);
    assert_true(test_ranks_start(rank, &id, 0, 1, 2, clock_deadline_ms(300)));
    test_ranks_join(rank, 1);
    assert_says(rank, TUTTI_REMOTE_ERROR, "and the id is new; the port is made of what the launcher told all ranks");
    close(fd);
}

/* A process that joins and does nothing else until it is killed. */
static pid_t fork_rank(const tutti_unique_id_t *id, int rank, int nranks)
{
    pid_t child = fork();
    if (child == 0) {
        struct bootstrap *b;
        tutti_result_t result = bootstrap_join(id, rank, nranks, LONG, NULL, &b);
        if (result == TUTTI_SUCCESS)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_true(child > 0);
    return child;
}

static void reap(pid_t child)
{
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void killed_while_joining(void **state)
{
    struct test_root root;
    struct test_rank ranks[2];
    test_ranks_with(ranks, 2, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    pid_t victim = fork_rank(&root.id, 2, 4);
    assert_true(test_ranks_start(ranks, &root.id, 0, 2, 4, LONG));
    /* Killed before it reached the root or after: either way rank 2 is the first that is missing. */
    usleep(200000);
    kill(victim, SIGKILL);
    reap(victim);
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&ranks[i], TUTTI_REMOTE_ERROR, "rank 2");
    test_root_stop(&root);
}

/* A rank dies when its own join is complete; others may still be joining or exchanging. */
static void killed_after_joining(void **state)
{
    struct test_root root;
    struct test_rank ranks[7];
    pid_t victim;
    test_ranks_with(ranks, 7, 3, 64);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    victim = fork_rank(&root.id, 7, 8);
    assert_true(test_ranks_start(ranks, &root.id, 0, 7, 8, LONG));
    test_ranks_join(ranks, 7);
    reap(victim);
    for (int i = 0; i < 7; i++)
        assert_says(&ranks[i], TUTTI_REMOTE_ERROR, "rank 7 died");
    test_root_stop(&root);
}

/* Joins and exchanges until a timer ends the process, maybe before it has joined. */
static pid_t fork_for(const tutti_unique_id_t *id, int rank, int nranks, int us)
{
    pid_t child = fork();
    if (child == 0) {
        struct bootstrap *b;
        const struct itimerval soon = {.it_value.tv_usec = us};
        setitimer(ITIMER_REAL, &soon, NULL);
        tutti_result_t result = bootstrap_join(id, rank, nranks, LONG, NULL, &b);
        while (result == TUTTI_SUCCESS && test_gather(b, 64, &result) && result == TUTTI_SUCCESS)
            result = bootstrap_barrier(b);
        _exit(1);
    }
    assert_true(child > 0);
    return child;
}

/* Some have joined, some not; those next to it leave at once. Nobody blames them. A rank that died before it came to
 * the root is not known there. Where the root is busy, a rank's own deadline may come first, and others then hear of
 * that. False: a rank that lives was starved and too late, so the run says nothing. */
static bool kill_within(int us)
{
    struct test_root root;
    struct test_rank ranks[6];
    bool late = false, starved = false;
    test_ranks_with(ranks, 6, 1 << 30, 64);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 6, 7, clock_deadline_ms(1500)));
    pid_t victim = fork_for(&root.id, 6, 7, us);
    test_ranks_join(ranks, 6);
    reap(victim);
    test_root_stop(&root);
    for (int i = 0; i < 6; i++) {
        late = late || strstr(ranks[i].sentence, OUT_OF_TIME);
        starved = starved || (strstr(ranks[i].sentence, "of 7 ranks did not come in time") &&
                              !strstr(ranks[i].sentence, "the first is rank 6"));
    }
    for (int i = 0; i < 6 && !starved; i++)
        if (!strstr(ranks[i].sentence, OUT_OF_TIME) &&
            !(late && strstr(ranks[i].sentence, " failed; its own log says why")))
            assert_says(&ranks[i], TUTTI_REMOTE_ERROR, "rank 6");
    return !starved;
}

static void killed_at_any_time(void **state)
{
    for (int turn = 0; turn < 24; turn++)
        for (int tries = 1; !kill_within(1000 + turn * 170); tries++)
            assert_true(tries < 3);
}

static void root_closed_early(void **state)
{
    struct test_root root;
    struct test_rank ranks[2];
    bootstrap_stop_t never = 0;
    test_ranks_with(ranks, 2, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    ranks[0].abort = ranks[1].abort = &never;
    assert_true(test_ranks_start(ranks, &root.id, 0, 2, 3, clock_deadline_ms(5000)));
    usleep(300000);
    test_root_stop(&root);
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&ranks[i], TUTTI_REMOTE_ERROR, "root at 127.0.0.1:");
}

static void root_killed(void **state)
{
    int pipes[2];
    struct test_rank ranks[2];
    tutti_unique_id_t id;
    test_ranks_with(ranks, 2, 0, 0);
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        struct poller *poller;
        struct bootstrap_root *root;
        if (poller_open(&poller) == TUTTI_SUCCESS && bootstrap_root_open(poller, NULL, &id, &root) == TUTTI_SUCCESS &&
            write(pipes[1], &id, sizeof id) == sizeof id)
            for (;;)
                poller_wait(poller, -1);
        _exit(1);
    }
    assert_int_equal(read(pipes[0], &id, sizeof id), sizeof id);
    assert_true(test_ranks_start(ranks, &id, 0, 2, 3, clock_deadline_ms(5000)));
    usleep(300000);
    kill(child, SIGKILL);
    reap(child);
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++)
        assert_says(&ranks[i], TUTTI_REMOTE_ERROR, "root at 127.0.0.1:");
    close(pipes[0]);
    close(pipes[1]);
}

static void abort_while_joining(void **state)
{
    struct test_root root;
    struct test_rank ranks[3];
    bootstrap_stop_t abort = 0;
    test_ranks_with(ranks, 3, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    ranks[1].abort = &abort;
    assert_true(test_ranks_start(ranks, &root.id, 0, 3, 4, LONG));
    usleep(200000);
    atomic_store(&abort, true);
    test_ranks_join(ranks + 1, 1);
    assert_says(&ranks[1], TUTTI_REMOTE_ERROR, "aborted on rank 1");
    /* Unless rank 1 had not yet reached the root, which is then one more that is missing. */
    assert_true(test_ranks_start(ranks + 1, &root.id, 1, 1, 5, LONG));
    test_ranks_join(ranks, 3);
    assert_true(ranks[0].result != TUTTI_SUCCESS && ranks[2].result != TUTTI_SUCCESS);
    test_root_stop(&root);
}

/* Ranks that joined well, for what goes wrong later. */
struct pair {
    struct bootstrap *b;
    const tutti_unique_id_t *id;
    int rank, n;
    const bootstrap_stop_t *abort;
    pthread_t thread;
};

static void *pair_join(void *arg)
{
    struct pair *p = arg;
    return (void *)(intptr_t)bootstrap_join(p->id, p->rank, p->n, LONG, p->abort, &p->b);
}

static void join_all(struct pair *pairs, int n, const bootstrap_stop_t *abort)
{
    struct test_root root;
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    for (int i = 0; i < n; i++) {
        pairs[i] = (struct pair){.id = &root.id, .rank = i, .n = n, .abort = abort};
        assert_int_equal(pthread_create(&pairs[i].thread, NULL, pair_join, &pairs[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        void *result;
        pthread_join(pairs[i].thread, &result);
        assert_int_equal((intptr_t)result, TUTTI_SUCCESS);
    }
    test_root_stop(&root);
}

static void close_all(struct pair *pairs, int n)
{
    for (int i = 0; i < n; i++)
        bootstrap_close(pairs[i].b);
}

static void *gather_small(void *arg)
{
    struct pair *p = arg;
    char mine[8] = "", all[64];
    return (void *)(intptr_t)bootstrap_allgather(p->b, mine, 8, all);
}

static void silent_rank_is_named(void **state)
{
    struct pair pairs[2];
    join_all(pairs, 2, NULL);
    bootstrap_set_deadline(pairs[0].b, clock_deadline_ms(100));
    assert_int_equal((intptr_t)gather_small(&pairs[0]), TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(error_last(), "rank 1 sent nothing"));
    /* The failure stays, and the other is told. */
    assert_int_equal(bootstrap_barrier(pairs[0].b), TUTTI_REMOTE_ERROR);
    bootstrap_set_deadline(pairs[1].b, LONG);
    assert_int_equal(bootstrap_barrier(pairs[1].b), TUTTI_INVALID_USAGE);
    close_all(pairs, 2);
}

static void failure_reaches_all(void **state)
{
    struct pair pairs[5];
    join_all(pairs, 5, NULL);
    for (int i = 1; i < 5; i++)
        assert_int_equal(pthread_create(&pairs[i].thread, NULL, gather_small, &pairs[i]), 0);
    bootstrap_close(pairs[0].b);
    for (int i = 1; i < 5; i++) {
        void *result;
        pthread_join(pairs[i].thread, &result);
        assert_int_equal((intptr_t)result, TUTTI_REMOTE_ERROR);
    }
    close_all(pairs + 1, 4);
}

static void different_sizes(void **state)
{
    struct pair pairs[2];
    char mine[4] = "", all[8];
    join_all(pairs, 2, NULL);
    void *result;
    assert_int_equal(pthread_create(&pairs[1].thread, NULL, gather_small, &pairs[1]), 0);
    assert_int_equal(bootstrap_allgather(pairs[0].b, mine, 4, all), TUTTI_INVALID_USAGE);
    assert_non_null(strstr(error_last(), "rank 1"));
    pthread_join(pairs[1].thread, &result);
    assert_int_equal((intptr_t)result, TUTTI_INVALID_USAGE);
    assert_int_equal(bootstrap_allgather(pairs[1].b, mine, (size_t)2 << 30, all), TUTTI_INVALID_USAGE);
    close_all(pairs, 2);
}

static void abort_while_exchanging(void **state)
{
    struct pair pairs[2];
    for (int named = 0; named < 2; named++) {
        bootstrap_stop_t abort = 0;
        join_all(pairs, 2, &abort);
        atomic_store(&abort, named ? bootstrap_stop_for(BOOTSTRAP_DIED, 9) : BOOTSTRAP_ABORT);
        assert_int_equal((intptr_t)gather_small(&pairs[0]), TUTTI_REMOTE_ERROR);
        atomic_store(&abort, 0);
        gather_small(&pairs[1]); /* what rank 0 sent before */
        assert_int_equal(bootstrap_barrier(pairs[1].b), TUTTI_REMOTE_ERROR);
        assert_non_null(strstr(error_last(), named ? "rank 9 died" : "rank 0 was aborted"));
        close_all(pairs, 2);
    }
}

/* Nobody else can listen at the port of the id: another test that runs beside this one, say. Nor does the socket. */
static int keep_port(const tutti_unique_id_t *id)
{
    struct boot_id made;
    memcpy(&made, id, sizeof made);
    assert_int_equal(made.root.family, 4);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(made.root.port)};
    memcpy(&at.sin_addr, made.root.host, sizeof at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* An id whose root has gone: used already, or made by a process that ended. Its ranks do not wait for the deadline. */
static void used_id(void **state)
{
    struct test_root root;
    struct test_rank ranks[2], again[1];
    test_ranks_with(ranks, 2, 1, 8);
    test_ranks_with(again, 1, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 2, 2, LONG));
    test_ranks_join(ranks, 2);
    tutti_unique_id_t id = root.id;
    test_root_stop(&root);
    int kept = keep_port(&id);
    assert_true(test_ranks_start(again, &id, 0, 1, 2, LONG));
    test_ranks_join(again, 1);
    close(kept);
    assert_says(again, TUTTI_REMOTE_ERROR, "rank 0 found nobody at 127.0.0.1:");
    assert_non_null(strstr(again->sentence, "has been used already"));
}

/* As many files as there are. In the child: all that are allowed. */
static void limit_files(bool to_what_is_open)
{
    struct rlimit files;
    int fd = dup(STDERR_FILENO);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = to_what_is_open ? (rlim_t)fd : files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    close(fd);
}

/* At a port that no test beside this one is given when the root has gone: below those that the kernel gives out. */
static void start_apart(struct test_root *root)
{
    struct boot_id made;
    tutti_unique_id_t id;
    assert_int_equal(test_root_start(root, NULL), TUTTI_SUCCESS);
    id = root->id;
    test_root_stop(root);
    memcpy(&made, &id, sizeof made);
    for (int i = 0; i < 100; i++) {
        made.root.port = (uint16_t)(10000 + (getpid() + 101 * i) % 20000);
        memcpy(&id, &made, sizeof made);
        if (test_root_start(root, &id) == TUTTI_SUCCESS) {
            root->id = id; /* which says that the root has listened */
            return;
        }
    }
    fail_msg("no port is free: %s", error_last());
}

static void root_without_descriptors(void **state)
{
    struct test_root root;
    struct test_rank rank[1];
    int status;
    start_apart(&root);
    test_ranks_with(rank, 1, 0, 0);
    limit_files(true);
    pid_t child = fork();
    if (child == 0) {
        limit_files(false);
        close_range(3, ~0u, 0); /* the root's port, too */
        *rank = (struct test_rank){.id = &root.id, .rank = 1, .nranks = 2, .deadline = clock_deadline_ms(30000)};
        test_rank_run(rank);
        bool right = rank->result == TUTTI_REMOTE_ERROR && strstr(rank->sentence, "ran out of files");
        if (!right)
            fprintf(stderr, "%d: %s\n", (int)rank->result, rank->sentence);
        _exit(!right);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    limit_files(false);
    assert_int_equal(status, 0);
    test_root_stop(&root);
}

/* What `say` writes to the log, whose lines go to standard error. Freed by the caller. */
static char *logged(const char *level, void (*say)(void))
{
    char *text = calloc(1, 8192);
    FILE *file = tmpfile();
    int kept = dup(STDERR_FILENO);
    setenv("TUTTI_DEBUG", level, 1);
    setenv("TUTTI_INIT_WARN", "10ms", 1);
    param_reload();
    dup2(fileno(file), STDERR_FILENO);
    say();
    dup2(kept, STDERR_FILENO);
    close(kept);
    setenv("TUTTI_DEBUG", "none", 1);
    unsetenv("TUTTI_INIT_WARN");
    param_reload();
    rewind(file);
    assert_true(fread(text, 1, 8191, file) < 8191);
    fclose(file);
    return text;
}

static void wait_for_nobody(void)
{
    struct net_address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    uint8_t nonce[BOOT_NONCE] = {0};
    tutti_unique_id_t id;
    struct test_rank rank[1];
    int fd;
    test_ranks_with(rank, 1, 0, 0);
    assert_int_equal(net_reserve(&at, &fd), TUTTI_SUCCESS);
    boot_id_put(&id, &at, nonce);
    assert_true(test_ranks_start(rank, &id, 3, 1, 4, clock_deadline_ms(3000)));
    test_ranks_join(rank, 1);
    close(fd);
}

static void wait_for_others(void)
{
    struct test_root root;
    struct test_rank rank[1];
    test_ranks_with(rank, 1, 0, 0);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(rank, &root.id, 2, 1, 7, clock_deadline_ms(3000)));
    test_ranks_join(rank, 1);
    test_root_stop(&root);
}

static void meet_in_peace(void)
{
    struct test_root root;
    struct test_rank ranks[3];
    test_ranks_with(ranks, 3, 1, 8);
    assert_int_equal(test_root_start(&root, NULL), TUTTI_SUCCESS);
    assert_true(test_ranks_start(ranks, &root.id, 0, 3, 3, LONG));
    test_ranks_join(ranks, 3);
    test_root_stop(&root);
}

static void assert_logged(const char *level, void (*say)(void), const char *words, bool wanted)
{
    char *text = logged(level, say);
    if (!strstr(text, words) == wanted)
        fail_msg("\"%s\" is %s the log:\n%s", words, wanted ? "not in" : "in", text);
    free(text);
}

static void waiting_is_told(void **state)
{
    assert_logged("warn", wait_for_nobody, "rank 3 of 4 cannot reach the root at 127.0.0.1:", true);
    assert_logged("warn", wait_for_nobody, " s more (TUTTI_INIT_TIMEOUT): rank 3 of 4 cannot reach", true);
    assert_logged("warn", wait_for_others, "6 of 7 ranks have not joined a new communicator after 0 s: rank 0-1, 3-6",
                  true);
    assert_logged("info", meet_in_peace, "joining failed", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_nonce_is_refused),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(bad_ids),
        cmocka_unit_test(same_rank_twice_fails_all),
        cmocka_unit_test(different_nranks_fail_all),
        cmocka_unit_test(missing_root),
        cmocka_unit_test(killed_while_joining),
        cmocka_unit_test(killed_after_joining),
        cmocka_unit_test(killed_at_any_time),
        cmocka_unit_test(root_closed_early),
        cmocka_unit_test(root_killed),
        cmocka_unit_test(abort_while_joining),
        cmocka_unit_test(silent_rank_is_named),
        cmocka_unit_test(failure_reaches_all),
        cmocka_unit_test(used_id),
        cmocka_unit_test(root_without_descriptors),
        cmocka_unit_test(waiting_is_told),
        cmocka_unit_test(different_sizes),
        cmocka_unit_test(abort_while_exchanging),
    };
    test_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
