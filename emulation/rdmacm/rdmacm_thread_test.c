/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager and threads that are cancelled, or asleep in a channel that is closed; and forks. */
#include "rdmacm/rdmacm_testing.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct doomed {
    int fd;
    _Atomic bool cancelled;
};

static void *take_one(void *arg)
{
    struct doomed *doomed = arg;
    while (!doomed->cancelled)
        ;
    cm_event_now(doomed->fd);
    pthread_testcancel();
    return NULL;
}

/* A thread that is cancelled leaves the lock behind. */
static void threads_are_cancelled(void **state)
{
    struct two two = ask(RDMA_PS_TCP, 2);
    struct doomed doomed = {.fd = two.server};
    struct pollfd wait = {two.server, POLLIN, 0};
    pthread_t thread;
    void *result = NULL;
    cm_asker(two.client, CLIENT + 1, RDMA_PS_TCP, PORT, "");
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    assert_int_equal(pthread_create(&thread, NULL, take_one, &doomed), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    doomed.cancelled = true;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_true(cm_quiet(two.server)); /* it had the event */
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, ""), 0);
    end(&two);
}

struct sleeper {
    int fd;
    pthread_t thread;
    _Atomic pid_t tid;
    _Atomic bool awake;
    struct rdma_ucm_event_resp event;
};

static void *sleep_for_event(void *arg)
{
    struct sleeper *sleeper = arg;
    struct rdma_ucm_get_event cmd = {(uintptr_t)&sleeper->event};
    sleeper->tid = gettid();
    int err = cm_err(sleeper->fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(sleeper->event));
    sleeper->awake = true;
    return (void *)(intptr_t)err;
}

/* Until the thread sleeps in this call of the system. */
static void assert_sleeps_in(const struct sleeper *sleeper, long call)
{
    char path[64], text[32];
    long in = -1;
    for (int i = 0; i < PATIENCE_MS && in != call; i++) {
        assert_false(sleeper->awake);
        snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", sleeper->tid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        close(fd);
        text[n > 0 ? n : 0] = 0;
        in = n > 0 && text[0] != 'r' ? atol(text) : -1; /* a number, or "running" */
        poll(NULL, 0, in == call ? 0 : 1);
    }
    assert_int_equal(in, call);
}

/* The channel is closed when the thread has come as far as the lock; then the thread sleeps in what nobody can name. */
static void fall_asleep(struct sleeper *sleeper, int fd)
{
    *sleeper = (struct sleeper){.fd = fd};
    cm_lock();
    assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_for_event, sleeper), 0);
    assert_sleeps_in(sleeper, SYS_futex);
    close(fd);
    cm_unlock();
    softverbs_cm_closed();
    assert_sleeps_in(sleeper, SYS_recvfrom);
}

static int open_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* As the kernel keeps a file while a call is inside: the thread sleeps on, and the channel goes with the thread's call.
 */
static void a_closed_channel_lets_threads_sleep(void **state)
{
    int before = open_files();
    struct two two = connect_both();
    struct sleeper sleeper;
    void *result;
    fall_asleep(&sleeper, two.client);
    pid_t pid = fork(); /* keeps nothing of it */
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(pause());
    }
    assert_int_equal(pthread_cancel(sleeper.thread), 0);
    assert_int_equal(pthread_join(sleeper.thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(two.server);
    softverbs_cm_closed();
    two = connect_both(); /* the port is free */
    fall_asleep(&sleeper, two.client);
    cm_destroy(two.server, two.child);
    assert_int_equal(pthread_join(sleeper.thread, &result), 0);
    assert_null(result);
    assert_int_equal(sleeper.event.event, CM_DISCONNECTED);
    close(two.server);
    softverbs_cm_closed();
    assert_int_equal(open_files(), before);
}

/* A child of fork is refused its parent's channel, and does not keep it open. */
static void a_fork_takes_nothing_along(void **state)
{
    struct two two = connect_both();
    int ends[2], status;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        struct rdma_ucm_disconnect cmd = {two.asker};
        char byte;
        close(ends[1]);
        int err = cm_err(two.client, RDMA_USER_CM_CMD_DISCONNECT, &cmd, sizeof(cmd), 0);
        _exit(err != EPERM || read(ends[0], &byte, 1)); /* until the parent has seen that all ends without us */
    }
    close(ends[0]);
    close(two.client);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(two.server);
}

/* As when a number that was a channel's comes back as one of ours, and is closed with the lock held. */
static void a_close_of_our_own_does_not_wait_for_itself(void **state)
{
    struct two two = connect_both();
    assert_int_equal(dup2(STDERR_FILENO, two.client), two.client); /* closed without a call of close() */
    alarm(PATIENCE_MS / 1000);
    cm_lock();
    softverbs_cm_closed();
    cm_unlock();
    alarm(0);
    close(two.client);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    close(two.server);
    softverbs_cm_closed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_cancelled),
        cmocka_unit_test(a_closed_channel_lets_threads_sleep),
        cmocka_unit_test(a_fork_takes_nothing_along),
        cmocka_unit_test(a_close_of_our_own_does_not_wait_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
