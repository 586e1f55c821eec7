/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting strangers, and reading their greeting. */
#include "transport/acceptor.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/param.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_PENDING 256
#define PATIENCE_MS  10000 /* for a greeting */
#define REOPEN_MS    100   /* a listening socket that was shut for want of descriptors or room */
#define BATCH        64    /* connections let in at once */

struct acceptor_pending {
    struct poll_source source;
    struct acceptor *acceptor;
    struct list node;
    struct transport_timer timer;
    size_t got;
    int fds[ACCEPTOR_FDS];
    unsigned char greeting[ACCEPTOR_GREETING];
};

static void close_all(int fds[ACCEPTOR_FDS])
{
    for (int i = 0; i < ACCEPTOR_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static void keep_or_close(const int *came, size_t count, int fds[ACCEPTOR_FDS])
{
    for (size_t i = 0; i < count; i++) {
        int place = 0;
        while (place < ACCEPTOR_FDS && fds[place] >= 0)
            place++;
        if (place < ACCEPTOR_FDS)
            fds[place] = came[i];
        else
            close(came[i]);
    }
}

ssize_t acceptor_receive(int fd, void *bytes, size_t size, int fds[ACCEPTOR_FDS])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * ACCEPTOR_FDS)];
    } control;
    struct iovec part = {bytes, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return got;
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of; part_of = CMSG_NXTHDR(&message, part_of)) {
        if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS)
            continue;
        int came[ACCEPTOR_FDS + 1];
        size_t length = part_of->cmsg_len - CMSG_LEN(0);
        length = length < sizeof came ? length : sizeof came;
        memcpy(came, CMSG_DATA(part_of), length);
        keep_or_close(came, length / sizeof(int), fds);
    }
    return got;
}

/* Frees the connection; its descriptors are the caller's. */
static void acceptor_forget(struct acceptor_pending *pending)
{
    struct acceptor *acceptor = pending->acceptor;
    transport_timer_clear(acceptor->transport, &pending->timer);
    poller_remove(acceptor->transport->inner, &pending->source);
    list_remove(&pending->node);
    acceptor->pending--;
    free(pending);
}

static void show_out(struct acceptor_pending *pending)
{
    int fd = pending->source.fd;
    close_all(pending->fds);
    acceptor_forget(
        pending); /* before the close: while a forked child has a copy of it, a closed descriptor stays in the poller */
    close(fd);
}

static void pending_expired(struct transport_timer *timer)
{
    struct acceptor_pending *pending = container_of(timer, struct acceptor_pending, timer);
    log_info("a connection to transport %s said no greeting in time: closed", pending->acceptor->transport->ops->name);
    show_out(pending);
}

static void pending_ready(struct poll_source *source, uint32_t events)
{
    struct acceptor_pending *pending = container_of(source, struct acceptor_pending, source);
    struct acceptor *acceptor = pending->acceptor;
    (void)events;
    ssize_t got =
        acceptor_receive(source->fd, pending->greeting + pending->got, acceptor->greeting - pending->got, pending->fds);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        show_out(pending);
        return;
    }
    pending->got += (size_t)got;
    if (pending->got < acceptor->greeting)
        return;
    unsigned char greeting[ACCEPTOR_GREETING];
    int fds[ACCEPTOR_FDS], fd = source->fd;
    memcpy(greeting, pending->greeting, sizeof greeting);
    memcpy(fds, pending->fds, sizeof fds);
    acceptor_forget(pending);
    acceptor->greeted(acceptor, fd, greeting, fds);
}

static void shut(struct acceptor_socket *listening)
{
    struct transport *transport = listening->acceptor->transport;
    poller_remove(transport->inner, &listening->source);
    listening->shut = true;
    transport_timer_set(transport, &listening->reopen, REOPEN_MS);
}

static void reopen(struct transport_timer *timer)
{
    struct acceptor_socket *listening = container_of(timer, struct acceptor_socket, reopen);
    struct transport *transport = listening->acceptor->transport;
    if (poller_add(transport->inner, &listening->source, EPOLLIN) == TUTTI_SUCCESS)
        listening->shut = false;
    else
        transport_timer_set(transport, &listening->reopen, REOPEN_MS);
}

/* True if there is room, made if need be by showing out the oldest connection that had a second to speak. */
static bool acceptor_make_room(struct acceptor *acceptor)
{
    if (acceptor->pending < MOST_PENDING)
        return true;
    struct acceptor_pending *oldest = list_entry(acceptor->waiting.next, struct acceptor_pending, node);
    if (clock_ns() + (PATIENCE_MS - 1000) * NS_PER_MS < oldest->timer.at)
        return false;
    show_out(oldest);
    return true;
}

static void let_in(struct acceptor *acceptor, int fd)
{
    struct acceptor_pending *pending = calloc(1, sizeof *pending);
    if (!pending) {
        close(fd);
        return;
    }
    pending->source = (struct poll_source){.fd = fd, .ready = pending_ready};
    pending->acceptor = acceptor;
    pending->timer.expired = pending_expired;
    list_init(&pending->timer.node);
    for (int i = 0; i < ACCEPTOR_FDS; i++)
        pending->fds[i] = -1;
    if (poller_add(acceptor->transport->inner, &pending->source, EPOLLIN) != TUTTI_SUCCESS) {
        close(fd);
        free(pending);
        return;
    }
    acceptor->pending++;
    list_push(&acceptor->waiting, &pending->node);
    transport_timer_set(acceptor->transport, &pending->timer, PATIENCE_MS);
    pending_ready(&pending->source, EPOLLIN); /* most say their greeting at once */
}

static void listening_ready(struct poll_source *source, uint32_t events)
{
    struct acceptor_socket *listening = container_of(source, struct acceptor_socket, source);
    (void)events;
    for (int i = 0; i < BATCH; i++) {
        if (!acceptor_make_room(listening->acceptor)) {
            shut(listening);
            return;
        }
        int fd = fork_accept(source->fd);
        if (fd >= 0) {
            let_in(listening->acceptor, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_warn("transport %s cannot accept a connection: %s; trying again",
                     listening->acceptor->transport->ops->name, strerror(errno));
            shut(listening);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

void acceptor_init(struct acceptor *acceptor, struct transport *transport, size_t greeting,
                   void (*greeted)(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS]))
{
    *acceptor = (struct acceptor){.transport = transport, .greeting = greeting, .greeted = greeted};
    list_init(&acceptor->waiting);
}

tutti_result_t acceptor_open(struct acceptor *acceptor, struct acceptor_socket *listening, int fd)
{
    *listening = (struct acceptor_socket){
        .source = {.fd = fd, .ready = listening_ready}, .acceptor = acceptor, .reopen.expired = reopen};
    list_init(&listening->reopen.node);
    tutti_result_t result = poller_add(acceptor->transport->inner, &listening->source, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        close(fd);
        listening->source.fd = -1;
    }
    return result;
}

void acceptor_close(struct acceptor_socket *listening)
{
    if (listening->source.fd < 0)
        return;
    if (listening->shut)
        transport_timer_clear(listening->acceptor->transport, &listening->reopen);
    else
        poller_remove(listening->acceptor->transport->inner, &listening->source);
    close(listening->source.fd);
    listening->source.fd = -1;
}

void acceptor_fini(struct acceptor *acceptor)
{
    while (acceptor->waiting.next && !list_empty(&acceptor->waiting))
        show_out(list_entry(acceptor->waiting.next, struct acceptor_pending, node));
}
