/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of two processes. */
#include "fork.h"
#include "base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void solo_swap(struct solo *solo, const void *out, void *in, size_t size)
{
    assert_int_equal(send(solo->fd, out, size, MSG_NOSIGNAL), size);
    assert_int_equal(recv(solo->fd, in, size, MSG_WAITALL), size);
}

void solo_accept(struct solo *solo)
{
    party_until(&solo->party, (solo->end = end_accepted(&solo->party, 0)));
}

static void run_child(struct solo *solo, void (*body)(struct solo *solo, void *context), void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion must not return to the runner's copy */
    party_open(&solo->party);
    solo_swap(solo, &solo->party.self, &solo->peer, sizeof solo->peer);
    solo_accept(solo);
    body(solo, context);
    party_close(&solo->party);
    _exit(0);
}

pid_t solo_fork(struct solo *solo, void (*body)(struct solo *solo, void *context), void *context)
{
    int fds[2];
    memset(solo, 0, sizeof *solo);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    solo->fd = fds[child == 0];
    close(fds[child != 0]);
    if (child == 0)
        run_child(solo, body, context);
    party_open(&solo->party);
    solo_swap(solo, &solo->party.self, &solo->peer, sizeof solo->peer);
    solo->end = end_open(&solo->party, &solo->peer, 0, 1);
    party_until(&solo->party, solo->end->counts[NOTE_UP]);
    return child;
}

void solo_join(struct solo *solo, pid_t child, bool killed)
{
    int status = 0;
    party_close(&solo->party);
    close(solo->fd);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (killed)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
