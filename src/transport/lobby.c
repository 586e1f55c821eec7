/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting strangers, and reading their greeting. */
#include "transport/lobby.h"
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

#define MOST_GUESTS 256
#define PATIENCE_MS 10000 /* for a greeting */
#define REOPEN_MS   100   /* a door that was shut for want of descriptors or room */
#define BATCH       64    /* guests let in at once */

struct lobby_guest {
    struct poll_source source;
    struct lobby *lobby;
    struct list node;
    struct transport_timer timer;
    size_t got;
    int fds[LOBBY_FDS];
    unsigned char greeting[LOBBY_GREETING];
};

static void close_all(int fds[LOBBY_FDS])
{
    for (int i = 0; i < LOBBY_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static void keep_or_close(const int *came, size_t count, int fds[LOBBY_FDS])
{
    for (size_t i = 0; i < count; i++) {
        int place = 0;
        while (place < LOBBY_FDS && fds[place] >= 0)
            place++;
        if (place < LOBBY_FDS)
            fds[place] = came[i];
        else
            close(came[i]);
    }
}

ssize_t lobby_receive(int fd, void *bytes, size_t size, int fds[LOBBY_FDS])
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * LOBBY_FDS)];
    } control;
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return got;
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of; part_of = CMSG_NXTHDR(&message, part_of)) {
        if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS)
            continue;
        int came[LOBBY_FDS + 1];
        size_t length = part_of->cmsg_len - CMSG_LEN(0);
        length = length < sizeof came ? length : sizeof came;
        memcpy(came, CMSG_DATA(part_of), length);
        keep_or_close(came, length / sizeof(int), fds);
    }
    return got;
}

/* Frees the guest; its descriptors are the caller's. */
static void forget(struct lobby_guest *guest)
{
    struct lobby *lobby = guest->lobby;
    transport_timer_clear(lobby->transport, &guest->timer);
    poller_remove(lobby->transport->inner, &guest->source);
    list_remove(&guest->node);
    lobby->guests--;
    free(guest);
}

static void show_out(struct lobby_guest *guest)
{
    int fd = guest->source.fd;
    close_all(guest->fds);
    forget(guest); /* before the close: while a forked child has a copy of it, a closed descriptor stays in the poller */
    close(fd);
}

static void guest_expired(struct transport_timer *timer)
{
    struct lobby_guest *guest = container_of(timer, struct lobby_guest, timer);
    log_info("a connection to transport %s said no greeting in time: closed", guest->lobby->transport->ops->name);
    show_out(guest);
}

static void guest_ready(struct poll_source *source, uint32_t events)
{
    struct lobby_guest *guest = container_of(source, struct lobby_guest, source);
    struct lobby *lobby = guest->lobby;
    (void)events;
    ssize_t got = lobby_receive(source->fd, guest->greeting + guest->got, lobby->greeting - guest->got, guest->fds);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        show_out(guest);
        return;
    }
    guest->got += (size_t)got;
    if (guest->got < lobby->greeting)
        return;
    unsigned char greeting[LOBBY_GREETING];
    int fds[LOBBY_FDS], fd = source->fd;
    memcpy(greeting, guest->greeting, sizeof greeting);
    memcpy(fds, guest->fds, sizeof fds);
    forget(guest);
    lobby->greeted(lobby, fd, greeting, fds);
}

static void shut(struct lobby_door *door)
{
    struct transport *transport = door->lobby->transport;
    poller_remove(transport->inner, &door->source);
    door->shut = true;
    transport_timer_set(transport, &door->reopen, REOPEN_MS);
}

static void reopen(struct transport_timer *timer)
{
    struct lobby_door *door = container_of(timer, struct lobby_door, reopen);
    struct transport *transport = door->lobby->transport;
    if (poller_add(transport->inner, &door->source, EPOLLIN) == TUTTI_SUCCESS)
        door->shut = false;
    else
        transport_timer_set(transport, &door->reopen, REOPEN_MS);
}

/* True if there is room, made if need be by showing out the oldest guest that had a second to speak. */
static bool make_room(struct lobby *lobby)
{
    if (lobby->guests < MOST_GUESTS)
        return true;
    struct lobby_guest *oldest = list_entry(lobby->waiting.next, struct lobby_guest, node);
    if (clock_ns() + (PATIENCE_MS - 1000) * NS_PER_MS < oldest->timer.at)
        return false;
    show_out(oldest);
    return true;
}

static void let_in(struct lobby *lobby, int fd)
{
    struct lobby_guest *guest = calloc(1, sizeof *guest);
    if (!guest) {
        close(fd);
        return;
    }
    guest->source = (struct poll_source){.fd = fd, .ready = guest_ready};
    guest->lobby = lobby;
    guest->timer.expired = guest_expired;
    list_init(&guest->timer.node);
    for (int i = 0; i < LOBBY_FDS; i++)
        guest->fds[i] = -1;
    if (poller_add(lobby->transport->inner, &guest->source, EPOLLIN) != TUTTI_SUCCESS) {
        close(fd);
        free(guest);
        return;
    }
    lobby->guests++;
    list_push(&lobby->waiting, &guest->node);
    transport_timer_set(lobby->transport, &guest->timer, PATIENCE_MS);
    guest_ready(&guest->source, EPOLLIN); /* most say their greeting at once */
}

static void door_ready(struct poll_source *source, uint32_t events)
{
    struct lobby_door *door = container_of(source, struct lobby_door, source);
    (void)events;
    for (int i = 0; i < BATCH; i++) {
        if (!make_room(door->lobby)) {
            shut(door);
            return;
        }
        int fd = fork_accept(source->fd);
        if (fd >= 0) {
            let_in(door->lobby, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_warn("transport %s cannot accept a connection: %s; trying again", door->lobby->transport->ops->name,
                     strerror(errno));
            shut(door);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

void lobby_init(struct lobby *lobby, struct transport *transport, size_t greeting,
                void (*greeted)(struct lobby *lobby, int fd, const void *greeting, int fds[LOBBY_FDS]))
{
    *lobby = (struct lobby){.transport = transport, .greeting = greeting, .greeted = greeted};
    list_init(&lobby->waiting);
}

tutti_result_t lobby_open(struct lobby *lobby, struct lobby_door *door, int fd)
{
    *door = (struct lobby_door){.source = {.fd = fd, .ready = door_ready}, .lobby = lobby, .reopen.expired = reopen};
    list_init(&door->reopen.node);
    tutti_result_t result = poller_add(lobby->transport->inner, &door->source, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        close(fd);
        door->source.fd = -1;
    }
    return result;
}

void lobby_close(struct lobby_door *door)
{
    if (door->source.fd < 0)
        return;
    if (door->shut)
        transport_timer_clear(door->lobby->transport, &door->reopen);
    else
        poller_remove(door->lobby->transport->inner, &door->source);
    close(door->source.fd);
    door->source.fd = -1;
}

void lobby_fini(struct lobby *lobby)
{
    while (lobby->waiting.next && !list_empty(&lobby->waiting))
        show_out(list_entry(lobby->waiting.next, struct lobby_guest, node));
}
