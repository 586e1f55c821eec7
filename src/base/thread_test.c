/* SPDX-License-Identifier: Apache-2.0 */
/* Threads are named, counted, free of signals, and gone when they are ended. */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) ||                                                                                   \
    defined(__SANITIZE_THREAD__) /* which have more memory than any limit from the start */
#define LIMITED false
#else
#define LIMITED true
#endif

static _Atomic bool go_on;
static sigset_t blocked;

static void *wait_for_the_end(void *argument)
{
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    while (!atomic_load(&go_on))
        usleep(100);
    *(int *)argument += 1;
    return NULL;
}

static void starts_and_ends(void **state)
{
    struct thread thread[2] = {{.runs = false}};
    int ended = 0;
    char name[16];
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    atomic_store(&go_on, false);
    assert_int_equal(thread_start(&thread[0], "tutti-test", wait_for_the_end, &ended), TUTTI_SUCCESS);
    assert_int_equal(thread_count(), 1);
    pthread_getname_np(thread[0].id, name, sizeof name);
    assert_string_equal(name, "tutti-test");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
    thread_end(&thread[1]); /* never started */
    assert_int_equal(thread_count(), 1);
    atomic_store(&go_on, true);
    thread_end(&thread[0]);
    assert_int_equal(ended, 1);
    assert_true(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT));
    assert_false(thread[0].runs);
    thread_end(&thread[0]); /* once is enough */
    assert_int_equal(thread_count(), 0);
}

static void a_child_has_none(void **state)
{
    struct thread thread;
    int ended = 0, status = -1;
    atomic_store(&go_on, false);
    assert_int_equal(thread_start(&thread, "tutti-test", wait_for_the_end, &ended), TUTTI_SUCCESS);
    pid_t child = fork();
    if (child == 0)
        _exit(thread_count());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    atomic_store(&go_on, true);
    thread_end(&thread);
}

/* In a child, whose memory is soon too little for another stack. */
static void there_is_none_left(void **state)
{
    int status = -1;
    if (!LIMITED)
        skip();
    pid_t child = fork();
    if (child == 0) {
        struct thread thread[64] = {{.runs = false}};
        int ended = 0, started = 0;
        tutti_result_t result = TUTTI_SUCCESS;
        const struct rlimit limit = {64u << 20, 64u << 20};
        atomic_store(&go_on, false);
        setrlimit(RLIMIT_AS, &limit);
        for (; started < 64 && result == TUTTI_SUCCESS; started++)
            result = thread_start(&thread[started], "tutti-test", wait_for_the_end, &ended);
        bool good = result == TUTTI_SYSTEM_ERROR && !thread[started - 1].runs && thread_count() == started - 1;
        atomic_store(&go_on, true);
        for (int i = 0; i < started; i++)
            thread_end(&thread[i]);
        _exit(good && thread_count() == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_and_ends),
        cmocka_unit_test(a_child_has_none),
        cmocka_unit_test(there_is_none_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
