/* SPDX-License-Identifier: Apache-2.0 */
/* A table of our sockets by descriptor. An entry holds the socket's inode, so that one whose number has another owner
 * by now is spared. */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_SOCKETS (1 << 20) /* by descriptor; pages of the table that are not used take no memory */
#define MOST_RESETS  32

uint32_t fork_generation;

static ino_t inode_of[MOST_SOCKETS]; /* 0: none of ours */
static int highest = -1;
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* held while a socket is made and written down, and during fork() */
static void (*resets[MOST_RESETS])(void);
static _Atomic int reset_count;
static struct list inherited = {&inherited, &inherited};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static ino_t socket_inode(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

static void before(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (int fd = 0; fd <= highest; fd++) {
        if (inode_of[fd] && inode_of[fd] == socket_inode(fd))
            close(fd);
        if (inode_of[fd])
            inode_of[fd] = 0;
    }
    highest = -1;
    fork_generation++;
    for (int i = 0; i < reset_count; i++)
        resets[i]();
    pthread_mutex_unlock(&lock);
}

static void fork_watch(void)
{
    pthread_atfork(before, in_parent, in_child);
}

/* Code that only looks at the generation asks for no reset. */
__attribute__((constructor)) static void fork_begin(void)
{
    pthread_once(&once, fork_watch);
}

void fork_reset_by(void (*reset)(void))
{
    pthread_once(&once, fork_watch);
    int index = atomic_fetch_add(&reset_count, 1);
    if (index < MOST_RESETS)
        resets[index] = reset;
}

/* Items are kept in reach, not to be taken for leaks. Another thread may have been changing the list: only its ends are
 * touched. */
void fork_forget(struct list *list)
{
    if (!list_empty(list)) {
        list->prev->next = inherited.next;
        inherited.next->prev = list->prev;
        inherited.next = list->next;
        list->next->prev = &inherited;
    }
    list_init(list);
}

/* Under the lock. */
static int fork_write_down(int fd)
{
    if (fd < 0 || fd >= MOST_SOCKETS)
        return fd;
    inode_of[fd] = socket_inode(fd);
    highest = fd > highest ? fd : highest;
    return fd;
}

int fork_socket(int domain, int type)
{
    pthread_once(&once, fork_watch);
    pthread_mutex_lock(&lock);
    int fd = fork_write_down(socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    pthread_mutex_unlock(&lock);
    return fd;
}

int fork_accept(int fd)
{
    pthread_once(&once, fork_watch);
    pthread_mutex_lock(&lock);
    int got = fork_write_down(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    pthread_mutex_unlock(&lock);
    return got;
}
