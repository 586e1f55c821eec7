/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/channel.h"

#include "verbs/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct list channels = {&channels, &channels};
static void (*on_close)(struct cm_channel *channel);
static pthread_mutex_t holds_lock = PTHREAD_MUTEX_INITIALIZER; /* inside of the lock of all, and for moments alone */
static struct list holds = {&holds, &holds};

void channel_on_close(void (*ended)(struct cm_channel *channel))
{
    on_close = ended;
}

/* Not by fstat(), which the preloaded library answers for. */
static ino_t inode_of(int fd)
{
    struct stat status;
    return fstatat(fd, "", &status, AT_EMPTY_PATH) ? 0 : status.st_ino;
}

static struct cm_channel *channel_by(ino_t inode)
{
    list_each(node, &channels)
    {
        struct cm_channel *channel = list_entry(node, struct cm_channel, node);
        if (channel->inode == inode)
            return channel;
    }
    return NULL;
}

struct cm_channel *channel_of(int fd)
{
    struct cm_channel *channel = channel_by(inode_of(fd));
    return channel && channel->near == fd ? channel : NULL;
}

void channel_hold(struct cm_hold *hold, int fd)
{
    pthread_mutex_lock(&holds_lock);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *hold = (struct cm_hold){.fd = own < 0 ? fd : own, .near = fd, .inode = inode_of(own < 0 ? fd : own)};
    list_push(&holds, &hold->node);
    pthread_mutex_unlock(&holds_lock);
}

/* By the system's call: the preloaded close() takes the lock of all. The program may have closed the number. */
static void close_hold(const struct cm_hold *hold)
{
    if (hold->fd != hold->near && inode_of(hold->fd) == hold->inode)
        syscall(SYS_close, hold->fd);
}

void channel_let_go(struct cm_hold *hold)
{
    pthread_mutex_lock(&holds_lock);
    list_remove(&hold->node);
    close_hold(hold);
    pthread_mutex_unlock(&holds_lock);
    if (inode_of(hold->near) == hold->inode)
        return;
    cm_lock();
    channel_reap();
    cm_unlock();
}

struct cm_channel *channel_held(const struct cm_hold *hold)
{
    return channel_by(hold->inode);
}

void channel_each_id(void (*each)(struct list *node))
{
    list_each(node, &channels)
    {
        struct cm_channel *channel = list_entry(node, struct cm_channel, node);
        list_each_safe(id, &channel->ids) each(id);
    }
}

static void drain(int fd)
{
    char bytes[64];
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

static void end_channel(struct cm_channel *channel)
{
    struct list *node;
    on_close(channel);
    while ((node = list_pop(&channel->events)))
        free(list_entry(node, struct cm_event, node));
    watch_remove(channel->entry);
    close(channel->far);
    list_remove(&channel->node);
    free(channel);
}

static void far_ready(void *arg, uint32_t events)
{
    struct cm_channel *channel = arg;
    if (events & (EPOLLHUP | EPOLLERR))
        end_channel(channel);
    else
        drain(channel->far);
}

bool channel_reap(void)
{
    bool any = false;
    list_each_safe(node, &channels)
    {
        struct cm_channel *channel = list_entry(node, struct cm_channel, node);
        struct pollfd far = {channel->far, 0, 0};
        if (channel->inherited || poll(&far, 1, 0) != 1 || !(far.revents & POLLHUP))
            continue;
        end_channel(channel);
        any = true;
    }
    return any;
}

static void lock_all(void)
{
    cm_lock();
    pthread_mutex_lock(&holds_lock);
}

static void unlock_all(void)
{
    pthread_mutex_unlock(&holds_lock);
    cm_unlock();
}

/* A child of fork gives its hold on the parent's channels up, under the same numbers: writing to them is refused. */
static void disinherit(void)
{
    watch_forget();
    list_each(node, &channels)
    {
        struct cm_channel *channel = list_entry(node, struct cm_channel, node);
        int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (dead >= 0 && channel_of(channel->near) == channel && !channel->inherited)
            dup3(dead, channel->near, O_CLOEXEC);
        if (dead >= 0)
            close(dead);
        channel->inode = inode_of(channel->near);
        channel->inherited = true;
        list_init(&channel->events);
        list_init(&channel->ids);
    }
    list_each(node, &holds) close_hold(list_entry(node, struct cm_hold, node));
    list_init(&holds);
    unlock_all();
}

static void follow_forks(void)
{
    engine_lock(); /* forks take the locks in the reverse order of this: ours before the engine's, as place_find does */
    engine_unlock();
    pthread_atfork(lock_all, unlock_all, disinherit);
}

static int open_pair(struct cm_channel *channel, int flags)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return errno;
    channel->near = pair[0];
    channel->far = pair[1];
    if (flags & O_NONBLOCK)
        fcntl(channel->near, F_SETFL, O_RDWR | O_NONBLOCK);
    channel->inode = inode_of(channel->near);
    channel->entry = watch_add(channel->far, EPOLLIN, far_ready, channel);
    if (channel->entry >= 0)
        return 0;
    int err = errno;
    close(pair[0]);
    close(pair[1]);
    return err;
}

int channel_open(int flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct cm_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return -1;
    pthread_once(&once, follow_forks);
    list_init(&channel->events);
    list_init(&channel->ids);
    int err = watch_start();
    if (!err)
        err = open_pair(channel, flags);
    if (err) {
        free(channel);
        errno = err;
        return -1;
    }
    list_push(&channels, &channel->node);
    return channel->near;
}

/* A byte for each event, while there is room, so that those who wait for edges see each: at least one while any waits.
 */
int channel_post(struct cm_channel *channel, const struct cm_event *event)
{
    struct cm_event *copy = malloc(sizeof(*copy));
    if (!copy)
        return ENOMEM;
    *copy = *event;
    list_push(&channel->events, &copy->node);
    if (send(channel->far, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return 0; /* full of bytes, or closed */
    return 0;
}

/* The number of an end that the program has closed may be another file's. */
static void settle(struct cm_channel *channel)
{
    if (list_empty(&channel->events) && channel_of(channel->near) == channel)
        drain(channel->near);
}

struct cm_event *channel_take(struct cm_channel *channel, const struct cm_hold *hold)
{
    struct list *node = list_pop(&channel->events);
    if (list_empty(&channel->events))
        drain(hold->fd);
    return node ? list_entry(node, struct cm_event, node) : NULL;
}

void channel_drop(struct cm_channel *channel, const void *of, void (*dropped)(struct cm_id *child))
{
    list_each_safe(node, &channel->events)
    {
        struct cm_event *event = list_entry(node, struct cm_event, node);
        if (event->of != of && event->child != of)
            continue;
        list_remove(node);
        if (event->child && event->child != of && dropped)
            dropped(event->child);
        free(event);
    }
    settle(channel);
}

void channel_move(struct cm_channel *from, struct cm_channel *to, const struct cm_id *id,
                  void (*moved)(struct cm_event *event, struct cm_channel *to))
{
    list_each_safe(node, &from->events)
    {
        struct cm_event *event = list_entry(node, struct cm_event, node);
        if (event->id != id)
            continue;
        list_remove(node);
        moved(event, to);
        channel_post(to, event);
        free(event);
    }
    settle(from);
}
