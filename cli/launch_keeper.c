/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a small process that outlives a killed launcher by a moment and kills the process groups that it leaves.
 * It is told groups by numbers on a pipe: positive to keep, negative to forget.
 */
#include "cli/launch_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_GROUPS = 65536 };

static pid_t groups[MOST_GROUPS];

static void update(pid_t word, int *count)
{
    if (word > 0 && *count < MOST_GROUPS) {
        groups[(*count)++] = word;
        return;
    }
    for (int i = 0; i < *count; i++)
        if (groups[i] == -word) {
            groups[i] = groups[--*count];
            return;
        }
}

static void keep(int fd)
{
    int count = 0;
    pid_t word;
    setsid();
    for (;;) {
        ssize_t got = read(fd, &word, sizeof word);
        if (got == sizeof word)
            update(word, &count);
        else if (!(got < 0 && errno == EINTR))
            break;
    }
    for (int i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

bool keeper_start(struct keeper *keeper)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    keeper->pid = fork();
    if (keeper->pid == 0) {
        close(ends[1]);
        keep(ends[0]);
    }
    close(ends[0]);
    keeper->fd = ends[1];
    if (keeper->pid > 0)
        return true;
    close(ends[1]);
    return false;
}

static void tell(const struct keeper *keeper, pid_t word)
{
    while (write(keeper->fd, &word, sizeof word) < 0 && errno == EINTR)
        ;
}

void keeper_add(const struct keeper *keeper, pid_t group)
{
    tell(keeper, group);
}

void keeper_forget(const struct keeper *keeper, pid_t group)
{
    tell(keeper, -group);
}

void keeper_stop(struct keeper *keeper)
{
    close(keeper->fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
