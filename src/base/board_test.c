/* SPDX-License-Identifier: Apache-2.0 */
/* The board of a host's interfaces: sums of those who live, also when some are killed in the middle. */
#include "base/board.h"
#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHERS 8
#define NIC    77u

#define FOREVER (UINT64_MAX / 2)

static uint64_t host;           /* of this run alone */
static uint64_t told = FOREVER; /* by processes that begin */
static char path[BOARD_PATH];

static int setup(void **state)
{
    host = (uint64_t)getpid() << 32 | (uint32_t)clock_ns();
    board_path(host, path);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return 0;
}

/* A process that uses the interface, until it is killed. */
static pid_t begin(uint64_t bytes)
{
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct board *board = board_open(host);
        struct board_use *use = board ? board_use(board, NIC) : NULL;
        if (!use || write(ready[1], use == board_use(board, NIC) ? "y" : "n", 1) != 1)
            _exit(1);
        atomic_fetch_add(&use->outstanding, bytes);
        atomic_fetch_add(&use->waiting, bytes / 4);
        atomic_store(&use->told, told);
        atomic_store(&use->out, bytes);
        if (write(ready[1], "y", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read(ready[0], &word, 1), 1);
        assert_int_equal(word, 'y');
    }
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void finish(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void assert_sum(struct board *board, int processes, uint64_t bytes, uint64_t out)
{
    static uint64_t now = NS_PER_S; /* each look is 10 ms after the one before */
    struct board_sum sum = board_look(board, NIC, now += 10 * NS_PER_MS);
    assert_int_equal(sum.processes, processes);
    assert_int_equal(sum.outstanding, bytes);
    assert_int_equal(sum.waiting, bytes / 4);
    assert_int_equal(sum.out, out);
    assert_int_equal(board_look(board, NIC + 1, now).processes, 0);
}

/* 1,000 and more where time is given (BOARD_TRIALS). */
static void test_right_after_each_kill(void **state)
{
    const char *told = getenv("BOARD_TRIALS");
    struct board *board = board_open(host);
    for (int i = told ? atoi(told) : 20; i > 0; i--) {
        pid_t pid = begin((uint64_t)i * 2);
        assert_sum(board, 1, (uint64_t)i * 2, (uint64_t)i * 2);
        finish(pid);
        assert_sum(board, 0, 0, 0);
    }
    board_close(board);
}

/* A process that owns one of two interfaces, until it is killed; it says which. */
static pid_t begin_owner(int *chosen)
{
    static const uint64_t nics[] = {NIC, NIC + 1};
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct board *board = board_open(host);
        word = (char)(board ? board_own(board, nics, 2) : 9);
        if (board_own(board, nics, 2) != word || write(ready[1], &word, 1) != 1)
            _exit(1);
        struct board_use *use = board_use(board, nics[(int)word]);
        atomic_fetch_add(&use->outstanding, 10);
        atomic_store(&use->pace, (uint64_t)getpid());
        if (write(ready[1], &word, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(ready[0], &word, 1), 1);
    *chosen = word;
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Each takes the interface that has the fewest owners alive, and others see what is its own there. */
static void test_owners(void **state)
{
    struct board *board = board_open(host);
    uint64_t now = 1000 * NS_PER_S;
    pid_t pid[4];
    int own[4];
    for (int i = 0; i < 4; i++) {
        pid[i] = begin_owner(&own[i]);
        assert_int_equal(own[i], i % 2);
    }
    struct board_sum sum = board_look(board, NIC, now += 10 * NS_PER_MS);
    assert_int_equal(sum.owners, 2);
    assert_int_equal(sum.outstanding, 20);
    assert_int_equal(sum.pace, pid[0] < pid[2] ? pid[0] : pid[2]);
    assert_true(sum.owner == (uint32_t)pid[0] || sum.owner == (uint32_t)pid[2]);
    finish(pid[1]);
    finish(pid[2]);
    sum = board_look(board, NIC, now += 10 * NS_PER_MS);
    assert_int_equal(sum.owners, 1);
    assert_int_equal(sum.owner, pid[0]);
    assert_int_equal(board_look(board, NIC + 1, now).owners, 1);
    pid[1] = begin_owner(&own[1]); /* its slot was the second one's; what the third one owned counts no more */
    assert_int_equal(own[1], 0);
    finish(pid[0]);
    finish(pid[1]);
    finish(pid[3]);
    sum = board_look(board, NIC, now += 10 * NS_PER_MS);
    assert_int_equal(sum.owners, 0);
    assert_int_equal(sum.owner, 0);
    board_close(board);
}

static void test_who_is_killed_is_not_counted(void **state)
{
    struct board *board = board_open(host);
    pid_t pid[OTHERS];
    uint64_t sum = 0;
    assert_non_null(board);
    assert_sum(board, 0, 0, 0);
    for (int i = 0; i < OTHERS; i++) {
        pid[i] = begin(1000u << i);
        sum += 1000u << i;
        assert_sum(board, i + 1, sum, 1000u << i);
    }
    for (int i = 0; i < OTHERS; i++) {
        finish(pid[i]);
        sum -= 1000u << i;
        assert_sum(board, OTHERS - 1 - i, sum, i == OTHERS - 1 ? 0 : 1000u << (OTHERS - 1));
    }
    board_close(board);
}

/* Borrowers that are stopped keep nobody else from an interface. */
static void test_what_waits_for_long_has_left(void **state)
{
    struct board *board = board_open(host);
    told = 100 * NS_PER_S;
    pid_t pid = begin(40);
    assert_int_equal(board_look(board, NIC, told + NS_PER_S - 1).waiting, 10);
    struct board_sum sum = board_look(board, NIC, told + NS_PER_S);
    assert_int_equal(sum.waiting, 0);
    assert_int_equal(sum.outstanding, 40);
    told = FOREVER;
    finish(pid);
    board_close(board);
}

static void (*at_unlock)(void); /* called once, when this process lets others choose again */

int fcntl(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    struct flock *lock = va_arg(more, struct flock *);
    va_end(more);
    int result = (int)syscall(SYS_fcntl, fd, command, lock);
    void (*call)(void) = at_unlock;
    if (call && command == F_SETLK && lock->l_type == F_UNLCK && lock->l_start == BOARD_SLOTS) {
        at_unlock = NULL;
        call();
    }
    return result;
}

static int beside;
static pid_t owner_beside;

static void begin_beside(void)
{
    owner_beside = begin_owner(&beside);
}

/* A process that takes the slot of a dead owner owns nothing yet, for another one that chooses right then. */
static void test_who_begins_owns_nothing_of_the_dead(void **state)
{
    int chosen;
    pid_t pid = begin_owner(&chosen);
    assert_int_equal(chosen, 0);
    finish(pid);
    at_unlock = begin_beside;
    struct board *board = board_open(host);
    assert_non_null(board);
    assert_int_equal(beside, 0);
    finish(owner_beside);
    board_close(board);
}

/* Memory of a GPU that others' relays have is asked for, and the word goes with who asks. */
static void test_memory_is_asked_for(void **state)
{
    const uint8_t uuid[16] = {1, 2, 3}, other[16] = {1, 2, 4};
    uint64_t gpu = board_gpu(uuid), now = NS_PER_S;
    assert_true(gpu && gpu != board_gpu(other));
    assert_true(board_ask_back(gpu, now, FOREVER) == 0); /* there is no board */
    struct board *board = board_open(host);
    struct board_use *use = board_use(board, gpu);
    atomic_store(&use->outstanding, 100);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!board_open(host) || board_ask_back(gpu, now, FOREVER) != 100)
            _exit(1);
        for (;;)
            pause();
    }
    for (uint64_t looks = 0; board_look(board, gpu, now).out != FOREVER; looks++) {
        assert_true(looks < 10000);
        usleep(1000);
        now += 10 * NS_PER_MS;
    }
    finish(pid);
    assert_true(board_look(board, gpu, now + 10 * NS_PER_MS).out == 0);
    board_close(board);
}

/* Slots of processes that are gone are taken by others, which begin at nothing. */
static void test_slots_are_used_again(void **state)
{
    struct board *board = board_open(host);
    for (int i = 0; i < 2 * BOARD_SLOTS / 8; i++) {
        pid_t pid = begin(50);
        if (i % 16 == 0)
            assert_sum(board, 1, 50, 50);
        finish(pid);
    }
    assert_sum(board, 0, 0, 0);
    board_close(board);
}

/* A child is not its parent: what it writes counts beside it, and the parent's slot goes on without it. */
static void test_a_child_has_a_slot_of_its_own(void **state)
{
    struct board *board = board_open(host);
    struct board_use *use = board_use(board, NIC);
    atomic_store(&use->outstanding, 5);
    pid_t child = begin(100);
    assert_int_equal(atomic_load(&use->outstanding), 5);
    assert_sum(board, 1, 100, 100);
    pid_t other = begin(1000);
    assert_sum(board, 2, 1100, 1000);
    finish(child);
    assert_sum(board, 1, 1000, 1000);
    finish(other);
    board_close(board);
}

/* One board for the process, whoever opens it: it is closed by the last. */
static void test_one_for_the_process(void **state)
{
    struct board *first = board_open(host), *second = board_open(host);
    assert_ptr_equal(first, second);
    assert_null(board_open(host + 1));
    atomic_store(&board_use(first, NIC)->outstanding, 9);
    board_close(first);
    assert_int_equal(atomic_load(&board_use(second, NIC)->outstanding), 9);
    assert_sum(second, 0, 0, 0); /* its own is not among the others */
    for (uint64_t nic = 1; nic < BOARD_NICS; nic++)
        assert_non_null(board_use(second, nic));
    assert_null(board_use(second, 1000));
    board_close(second);
    board_close(NULL);
}

/* ---- Files ---- */

static bool is_there(uint64_t of)
{
    char file[BOARD_PATH];
    board_path(of, file);
    return access(file, F_OK) == 0;
}

/* The last process that closes a board removes its file. What a killed one left is removed by one of another host; the
 * board of one that lives is not. */
static void test_files_that_nobody_uses_go(void **state)
{
    uint64_t left = host, used = host + 1, third = host + 2;
    finish(begin(10));
    assert_true(is_there(left));
    host = used;
    pid_t pid = begin(20);
    assert_false(is_there(left));
    struct board *board = board_open(used);
    assert_sum(board, 1, 20, 20);
    board_close(board);
    assert_true(is_there(used));
    board = board_open(third);
    assert_non_null(board);
    assert_true(is_there(used) && is_there(third));
    board_close(board);
    assert_false(is_there(third));
    board = board_open(used); /* it is still the file of the one that lives */
    assert_sum(board, 1, 20, 20);
    finish(pid);
    board_close(board);
    assert_false(is_there(used));
    host = left;
}

static bool swept; /* a board that is opened is removed before a slot is taken */

int __real_posix_fallocate64(int fd, off_t at, off_t size);
int __wrap_posix_fallocate64(int fd, off_t at, off_t size);
int __wrap_posix_fallocate64(int fd, off_t at, off_t size)
{
    int status;
    bool now = swept;
    swept = false;
    pid_t pid = now ? fork() : -1;
    if (pid == 0) {
        struct board *board = board_open(host + 1);
        board_close(board);
        _exit(board == NULL || is_there(host));
    }
    assert_true(!now || (waitpid(pid, &status, 0) == pid && status == 0));
    return __real_posix_fallocate64(fd, at, size);
}

static void test_a_board_is_removed_while_it_is_opened(void **state)
{
    assert_false(is_there(host));
    swept = true;
    struct board *board = board_open(host);
    assert_non_null(board);
    assert_false(swept);
    assert_true(is_there(host));
    pid_t pid = begin(20);
    assert_sum(board, 1, 20, 20); /* both have the same file */
    finish(pid);
    board_close(board);
}

/* A process whose files may not grow has no board, unless another one has made it. */
static void test_files_may_not_grow(void **state)
{
    int status;
    pid_t user = -1;
    for (int there = 0; there < 2; there++) {
        if (there)
            user = begin(20);
        pid_t pid = fork();
        if (pid == 0) {
            const struct rlimit few = {4096, 4096};
            setrlimit(RLIMIT_FSIZE, &few);
            struct board *board = board_open(host);
            board_close(board);
            _exit(there != (board != NULL));
        }
        assert_true(waitpid(pid, &status, 0) == pid && status == 0);
        assert_int_equal(is_there(host), there);
    }
    finish(user);
}

/* ---- Many threads ---- */

#define THREADS 4
#define TURNS   200
#define LOANS   50

static atomic_int looked; /* threads that have seen the others live */

/* Opens the board, uses it and closes it, as communicators that come and go; NULL: all was right. */
static const char *come_and_go(uint64_t *now)
{
    static const uint64_t nics[] = {NIC, NIC + 1};
    struct board *board = board_open(host);
    struct board_use *use = board ? board_use(board, NIC) : NULL;
    if (!use || use != board_use(board, NIC))
        return "one place for each interface";
    int own = board_own(board, nics, 2);
    if (own < 0 || own > 1 || own != board_own(board, nics, 2))
        return "the owned interface stays";
    for (int i = 0; i < LOANS; i++) {
        atomic_fetch_add(&use->outstanding, 10);
        struct board_sum sum = board_look(board, NIC, *now += NS_PER_MS);
        if (sum.outstanding > 3000 || sum.processes > 2) /* this process is not among the others */
            return "no more than the others have";
        atomic_fetch_sub(&use->outstanding, 10);
    }
    board_close(board);
    return NULL;
}

static void *thread_body(void *argument)
{
    uint64_t now = 5000 * NS_PER_S;
    const char *wrong = NULL;
    for (int i = 0; !wrong && i < TURNS; i++) {
        wrong = come_and_go(&now);
        atomic_fetch_add(&looked, i == 0);
    }
    return (void *)(uintptr_t)wrong;
}

/* Threads of one process open, look and close at once, while other processes are killed. */
static void test_threads_and_kills(void **state)
{
    pthread_t thread[THREADS];
    void *wrong;
    pid_t pid[2] = {begin(1000), begin(2000)};
    atomic_store(&looked, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, thread_body, NULL), 0);
    while (atomic_load(&looked) < THREADS)
        usleep(1000);
    finish(pid[0]);
    finish(pid[1]);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        if (wrong)
            print_error("not so: %s\n", (const char *)wrong);
        assert_null(wrong);
    }
    struct board *board = board_open(host);
    struct board_use *use = board_use(board, NIC);
    assert_int_equal(atomic_load(&use->outstanding), 0);
    assert_int_equal(atomic_load(&use->waiting), 0);
    assert_sum(board, 0, 0, 0);
    board_close(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_after_each_kill),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_who_begins_owns_nothing_of_the_dead),
        cmocka_unit_test(test_who_is_killed_is_not_counted),
        cmocka_unit_test(test_what_waits_for_long_has_left),
        cmocka_unit_test(test_memory_is_asked_for),
        cmocka_unit_test(test_slots_are_used_again),
        cmocka_unit_test(test_a_child_has_a_slot_of_its_own),
        cmocka_unit_test(test_one_for_the_process),
        cmocka_unit_test(test_files_that_nobody_uses_go),
        cmocka_unit_test(test_a_board_is_removed_while_it_is_opened),
        cmocka_unit_test(test_files_may_not_grow),
        cmocka_unit_test(test_threads_and_kills),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
