/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs, for a bounded time. */
#include "evidence/parts.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENDING_MS 1000 /* for a program that was killed: it may be in state D itself, and is left then */

void evidence_clean(char *text)
{
    for (; *text; text++)
        *text = (unsigned char)*text < 32 || (unsigned char)*text > 126 ? '?' : *text;
}

/* Takes what comes until the end or the deadline. False: the deadline came. */
static bool take(int fd, uint64_t deadline, char *out, size_t size)
{
    char spare[4096];
    size_t used = 0;
    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (clock_passed(deadline) || poll(&one, 1, clock_left_ms(deadline)) <= 0)
            return out[used] = 0, false;
        bool full = used + 1 >= size;
        ssize_t got = read(fd, full ? spare : out + used, full ? sizeof spare : size - used - 1);
        if (got <= 0)
            return out[used] = 0, true;
        used += full ? 0 : (size_t)got;
    }
}

static bool ended(pid_t pid, uint64_t deadline, int *status)
{
    pid_t got;
    while ((got = waitpid(pid, status, WNOHANG)) == 0 && !clock_passed(deadline))
        poll(NULL, 0, 5);
    return got == pid;
}

static pid_t spawn(char *const argv[], int out)
{
    /* gdb must not ask servers for symbols */
    char *const environment[] = {"LC_ALL=C",
                                 "TERM=dumb",
                                 "HOME=/nonexistent",
                                 "DEBUGINFOD_URLS=",
                                 "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                 NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = -1;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    if (posix_spawnp(&pid, argv[0], &files, &attributes, argv, environment) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

bool child_run(char *const argv[], int ms, char *out, size_t size)
{
    int ends[2], status = 1;
    *out = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = spawn(argv, ends[1]);
    close(ends[1]);
    uint64_t deadline = clock_ns() + (uint64_t)ms * NS_PER_MS;
    bool fine = pid > 0 && take(ends[0], deadline, out, size) && ended(pid, deadline, &status);
    close(ends[0]);
    if (pid > 0 && !fine) {
        kill(-pid, SIGKILL);
        ended(pid, clock_ns() + ENDING_MS * NS_PER_MS, &status);
    }
    return fine && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
