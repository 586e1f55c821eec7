/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n 4 -- looks`: ranks that share one processor and meet over sockets. A rank that has sent gives the
 * processor away before it looks for an answer, which its peers could not give meanwhile: a look enters the kernel. The
 * system's calls are counted here in their order, by functions that stand in for the C library's.
 */
#include "tutti/tutti.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { TIMES = 400, MOST = TIMES / 2 }; /* a message whose time is taken is answered by a rank that looks */

static _Thread_local bool counts, has_sent; /* since then the thread has not yielded */
static _Atomic int sends, hasty;            /* looks right behind a send */

static void look(void)
{
    hasty += counts && has_sent;
    has_sent = false;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends += counts;
    has_sent = counts;
    return syscall(SYS_sendmsg, fd, message, flags);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
    look();
    return (int)syscall(SYS_epoll_pwait, fd, events, most, timeout, NULL, 8);
}

EXPORT ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
    look();
    return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    look();
    return syscall(SYS_recvmsg, fd, message, flags);
}

EXPORT int sched_yield(void)
{
    has_sent = false;
    return (int)syscall(SYS_sched_yield);
}

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

static void share_a_processor(void)
{
    cpu_set_t all, one;
    int first = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        exit(77);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        exit(77);
}

/* The first one makes the links, which others then have. */
static void sum(tutti_comm_t comm, int size)
{
    float sent = 1, got = 0;
    must(tutti_allreduce(&sent, &got, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), "allreduce");
    must(tutti_comm_synchronize(comm), "synchronize");
    if (got == (float)size)
        return;
    fprintf(stderr, "the sum of %d ones is %g\n", size, (double)got);
    exit(1);
}

int main(void)
{
    tutti_comm_t comm;
    int rank, size;
    share_a_processor();
    must(tutti_comm_init_from_env(&comm, NULL), "init");
    must(tutti_comm_rank(comm, &rank), "rank");
    must(tutti_comm_count(comm, &size), "size");
    sum(comm, size);
    counts = true;
    for (int i = 0; i < TIMES; i++)
        sum(comm, size);
    counts = false;
    must(tutti_comm_destroy(comm), "destroy");
    if (sends > TIMES && hasty < MOST)
        return 0;
    fprintf(stderr, "rank %d: %d of %d sends were followed by a look at once\n", rank, hasty, sends);
    return 1;
}
