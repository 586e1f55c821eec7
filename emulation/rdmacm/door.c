/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#define GUESTS_MAX 1024
#define GUEST_MS   5000 /* to send a request */
#define RETRY_MS   200  /* another user has the TCP port, or there is no descriptor left */
#define BACKLOG    1024
#define FIRST_PORT 32768
#define FREE_PORTS 28232
#define PORT_TRIES 200

/* A connection that has not said for whom it is. */
struct guest {
    struct list node;
    struct cm_stream stream;
    struct cm_timer timer;
};

static struct {
    unsigned forks; /* what follows is of the process after this number of them */
    int users, fd, entry, hand;
    struct cm_timer again;
    struct list guests;
    int guest_count;
} door = {.forks = UINT32_MAX};

static void begin(void)
{
    if (door.forks == watch_forks())
        return;
    if (door.hand > 0 && door.forks != UINT32_MAX)
        close(door.hand);
    door.forks = watch_forks();
    door.users = door.guest_count = 0;
    door.fd = door.entry = door.hand = -1;
    list_init(&door.guests);
    list_init(&door.again.node);
}

static socklen_t name_of(struct sockaddr_un *name, uint16_t space, uint16_t port, const char *address)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "softverbs-cm/%x/%u/%s", space, port, address);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static const char *text_of(const union cm_address *address, char out[INET6_ADDRSTRLEN])
{
    const void *bytes =
        address->any.sa_family == AF_INET6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;
    return inet_ntop(address->any.sa_family, bytes, out, INET6_ADDRSTRLEN);
}

/* A listener on all addresses that wants IPv6 alone is in nobody's way. */
#define ONLY_V6 "::only"

static int hand_socket(void)
{
    begin();
    if (door.hand < 0)
        door.hand = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return door.hand;
}

/* Gives the request and its connection to the owner of a name. 0 or errno: ECONNREFUSED without an owner. */
static int hand_to(const struct sockaddr_un *name, socklen_t size, const uint8_t *bytes, size_t length, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec data = {(void *)bytes, length};
    struct msghdr message = {.msg_name = (void *)name,
                             .msg_namelen = size,
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = fd >= 0 ? &control : NULL,
                             .msg_controllen = fd >= 0 ? sizeof(control.room) : 0};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    return sendmsg(hand_socket(), &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Whether anybody has the port at the address: an empty datagram, which its owner ignores, finds out. */
static bool in_use(uint16_t space, uint16_t port, const char *address)
{
    struct sockaddr_un name;
    socklen_t size = name_of(&name, space, port, address);
    return hand_to(&name, size, NULL, 0, -1) != ECONNREFUSED;
}

void door_refuse(int fd, const struct cm_message *request, uint32_t reason, uint32_t datagram_status)
{
    uint8_t bytes[MESSAGE_MAX];
    bool datagram = request->type == CM_SIDR_REQ;
    struct cm_message answer = {.type = datagram ? CM_SIDR_REP : CM_REJ, .status = datagram ? datagram_status : reason};
    size_t size = message_build(&answer, bytes);
    if (send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        shutdown(fd, SHUT_RDWR); /* it has gone */
    close(fd);
}

/* In the order in which the kernel looks for a listener: that of the address before that of all addresses. */
static int hand_request(const union cm_address *here, const struct cm_message *request, int fd)
{
    char own[INET6_ADDRSTRLEN];
    const char *const names[] = {text_of(here, own), here->any.sa_family == AF_INET ? "0.0.0.0" : ONLY_V6, "::"};
    uint8_t bytes[MESSAGE_MAX];
    size_t length = message_build(request, bytes);
    int err = ECONNREFUSED;
    for (int i = 0; i < 3 && err == ECONNREFUSED; i++) {
        struct sockaddr_un name;
        socklen_t size = name_of(&name, request->space, request->port, names[i]);
        err = hand_to(&name, size, bytes, length, fd);
    }
    return err;
}

static void end_guest(struct guest *guest)
{
    stream_close(&guest->stream);
    cm_timer_stop(&guest->timer);
    list_remove(&guest->node);
    door.guest_count--;
    free(guest);
}

static void guest_late(struct cm_timer *timer)
{
    end_guest(container_of(timer, struct guest, timer));
}

/* An owner whose queue is full, or who is ending, gives no answer: the other side asks again. */
static void guest_ready(void *arg, uint32_t events)
{
    struct guest *guest = arg;
    struct cm_message request;
    union cm_address here;
    socklen_t size = sizeof(here);
    enum stream_read read = stream_next(&guest->stream, &request);
    if (read == STREAM_WAIT)
        return;
    if (read == STREAM_MESSAGE && (request.type == CM_REQ || request.type == CM_SIDR_REQ) &&
        !getsockname(guest->stream.fd, &here.any, &size)) {
        int fd = stream_release(&guest->stream);
        address_plain(&here);
        if (hand_request(&here, &request, fd) == ECONNREFUSED)
            door_refuse(fd, &request, REFUSED_NO_LISTENER, SIDR_UNSUPPORTED);
        else
            close(fd);
    }
    end_guest(guest);
}

static void close_port(void)
{
    if (door.fd < 0)
        return;
    watch_remove(door.entry);
    close(door.fd);
    door.fd = door.entry = -1;
}

/* Without a descriptor to take a connection with, the port is closed for a while: those who wait ask again. */
static void welcome(void *arg, uint32_t events)
{
    int fd = accept4(door.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        close_port();
        cm_timer_set(&door.again, RETRY_MS);
    }
    struct guest *guest = fd >= 0 && door.guest_count < GUESTS_MAX ? calloc(1, sizeof(*guest)) : NULL;
    if (!guest) {
        if (fd >= 0)
            close(fd);
        return;
    }
    stream_init(&guest->stream);
    if (stream_adopt(&guest->stream, fd, EPOLLIN, guest_ready, guest)) {
        free(guest);
        return;
    }
    cm_timer_init(&guest->timer, guest_late);
    cm_timer_set(&guest->timer, GUEST_MS);
    list_push(&door.guests, &guest->node);
    door.guest_count++;
}

static int listen_on(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, off = 0, err = 0;
    union cm_address all = {.v6 = {.sin6_family = (sa_family_t)family}};
    address_set_port(&all, STREAM_PORT);
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, &all.any, address_size(&all)) || listen(fd, BACKLOG) ||
        (door.entry = watch_add(fd, EPOLLIN, welcome, NULL)) < 0)
        err = errno;
    if (err)
        close(fd);
    else
        door.fd = fd;
    return err;
}

/* Another user's process may have the port, and takes the connections. When it has gone, we take the port. */
static int open_port(void)
{
    int err = listen_on(AF_INET6);
    if (err == EAFNOSUPPORT || err == EADDRNOTAVAIL)
        err = listen_on(AF_INET);
    if (err == EADDRINUSE)
        cm_timer_set(&door.again, RETRY_MS);
    return err == EADDRINUSE ? 0 : err;
}

static void try_again(struct cm_timer *timer)
{
    if (open_port())
        cm_timer_set(&door.again, RETRY_MS);
}

/* For one identifier more, or less. */
static int open_door(void)
{
    begin();
    if (door.users++)
        return 0;
    cm_timer_init(&door.again, try_again);
    int err = open_port();
    door.users -= err != 0;
    return err;
}

static void close_door(void)
{
    begin();
    if (!door.users || --door.users)
        return;
    cm_timer_stop(&door.again);
    list_each_safe(node, &door.guests) end_guest(list_entry(node, struct guest, node));
    close_port();
}

struct arrival_box {
    uint8_t bytes[MESSAGE_MAX];
    ssize_t size;
    int fd;
};

/* False: nothing more. */
static bool receive(int from, struct arrival_box *box)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {box->bytes, sizeof(box->bytes)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_LEN(sizeof(int))}; /* one, not two */
    box->fd = -1;
    box->size = recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = box->size < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&box->fd, CMSG_DATA(header), sizeof(box->fd));
    return box->size >= 0;
}

static bool is_stream(int fd)
{
    int type = 0;
    union cm_address peer;
    socklen_t size = sizeof(type), length = sizeof(peer);
    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM &&
           !getpeername(fd, &peer.any, &length) && address_known(&peer);
}

static door_fn arrive_at;

static void knock(void *arg, uint32_t events)
{
    struct cm_id *id = arg;
    struct arrival_box box;
    struct cm_message request;
    if (!receive(id->door.fd, &box) || box.fd < 0)
        return;
    if (is_stream(box.fd) && message_parse(&request, box.bytes, (size_t)box.size) == box.size &&
        (request.type == CM_REQ || request.type == CM_SIDR_REQ))
        arrive_at(id, &request, box.fd);
    else
        close(box.fd);
}

static int take_name(struct cm_id *id, uint16_t port)
{
    char text[INET6_ADDRSTRLEN];
    struct sockaddr_un name;
    bool only = id->only_family && id->from.any.sa_family == AF_INET6 && address_is_any(&id->from);
    socklen_t size = name_of(&name, id->space, port, only ? ONLY_V6 : text_of(&id->from, text));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = fd < 0 || bind(fd, (struct sockaddr *)&name, size) ? errno : open_door();
    if (err) {
        if (fd >= 0)
            close(fd);
        return err;
    }
    id->door.entry = watch_add(fd, EPOLLIN, knock, id);
    if (id->door.entry < 0) {
        err = errno;
        close(fd);
        close_door();
        return err;
    }
    id->door.fd = fd;
    address_set_port(&id->from, port);
    return 0;
}

/* An address of one interface and all addresses are in each other's way; the latter are not found by name. */
static bool in_the_way(const struct cm_id *id, uint16_t port)
{
    bool v4 = id->from.any.sa_family == AF_INET, any = address_is_any(&id->from);
    if (id->reuse)
        return false;
    return (v4 && !any && in_use(id->space, port, "0.0.0.0")) || ((!any || v4) && in_use(id->space, port, "::")) ||
           (!v4 && any && !id->only_family && in_use(id->space, port, "0.0.0.0"));
}

uint16_t door_any_port(void)
{
    uint16_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint16_t)getpid();
    return (uint16_t)(FIRST_PORT + random % FREE_PORTS);
}

int door_reserve(struct cm_id *id, door_fn arrive)
{
    uint16_t port = address_port(&id->from);
    int err = EADDRINUSE;
    arrive_at = arrive;
    if (port)
        return in_the_way(id, port) ? EADDRINUSE : take_name(id, port);
    for (int i = 0; i < PORT_TRIES && err == EADDRINUSE; i++) {
        port = door_any_port();
        err = in_the_way(id, port) ? EADDRINUSE : take_name(id, port);
    }
    return err == EADDRINUSE ? EADDRNOTAVAIL : err;
}

void door_leave(struct cm_id *id)
{
    if (id->door.fd < 0)
        return;
    watch_remove(id->door.entry);
    close(id->door.fd);
    id->door = (struct cm_door){-1, -1};
    close_door();
}
