/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane over RDMA does with any bytes of the TCP connection by which it opens: the first byte of the input says
 * whether a peer greets us or answers us, and what of that is right. The next ones change the words about its queue
 * pair, and the rest follows in pieces. Needs the software RDMA device (TUTTI_IBVERBS_LIBRARY), and root; without it
 * there is nothing to do.
 */
#include "transport/verbs/lane.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTS  1 /* we connect, and are answered */
#define ANY_INFO  2 /* the words about the queue pair are changed */
#define ANY_HELLO 4 /* those before, too, but for the secret */
#define LARGE     8

static struct transport *transport;
static struct poller *poller;
static struct wire_process self;
static struct wire_process peer;
static struct lane *lane;
static int listening = -1;
static bool is_down;

static bool on_accepted(void *context, struct lane *fresh, const struct wire_hello *hello)
{
    (void)context;
    lane = fresh;
    is_down = false;
    return hello->epoch % 4 != 3;
}
static void on_down(struct lane *which, tutti_result_t why)
{
    (void)which;
    (void)why;
    is_down = true;
}
static void on_message(struct lane *which, const void *bytes, size_t length)
{
    (void)which;
    (void)bytes;
    (void)length;
    abort(); /* nothing goes over the queue pair */
}
static struct place on_target(struct lane *which, uint32_t imm, uint64_t offset, size_t length)
{
    (void)which;
    (void)imm;
    (void)offset;
    (void)length;
    abort();
}
static void on_arrived(struct lane *which, uint32_t imm, uint64_t offset, size_t length)
{
    on_message(which, &imm, offset + length);
}
static void on_sent(struct lane *which, uint64_t token)
{
    (void)which;
    (void)token;
}
static void on_lane(struct lane *which)
{
    (void)which;
}
static void on_shared(struct lane *which, uint64_t key, int fd)
{
    (void)which;
    (void)key;
    close(fd);
}

/* The peer: a socket of ours. */
static void listen_as_peer(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&at, size) || listen(listening, 64) ||
        getsockname(listening, (struct sockaddr *)&at, &size))
        abort();
    memset(peer.uuid, 9, sizeof peer.uuid);
    peer.verbs[0] = (struct wire_address){.family = 4, .port = ntohs(at.sin_port)};
    memcpy(peer.verbs[0].bytes, &at.sin_addr, 4);
}

static bool start(void)
{
    static const struct transport_owner owner = {NULL,      on_accepted, on_lane, on_down, on_message,
                                                 on_target, on_arrived,  on_sent, on_lane, on_shared};
    static bool tried;
    if (tried)
        return transport;
    tried = true;
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
    setenv("TUTTI_DEBUG", "none", 1);
    setenv("TUTTI_TRANSPORT", "verbs", 1);
    memset(self.secret, 7, sizeof self.secret);
    if (poller_open(&poller) || transport_verbs.open(&transport_verbs, &owner, poller, &self, &transport)) {
        printf("NOT FUZZED: no RDMA device, see TUTTI_IBVERBS_LIBRARY\n");
        return false;
    }
    listen_as_peer();
    return true;
}

static void steps(int count)
{
    for (int i = 0; i < count; i++) {
        transport->ops->poll(transport);
        poller_wait(poller, 0);
    }
}

/* A queue pair as a peer's could be, changed by the input. */
static struct verbs_info info_of(const uint8_t *data, size_t size)
{
    struct verbs_info info = {.qp = 0x123456, .psn = 1, .mtu = 3, .link_layer = 2, .receives = VERBS_RECEIVES};
    uint8_t *bytes = (uint8_t *)&info;
    static const uint8_t loopback[4] = {127, 0, 0, 1};
    memset(info.gid + 10, 0xff, 2);
    memcpy(info.gid + 12, loopback, 4);
    for (size_t i = 0; (data[0] & ANY_INFO) && i < sizeof info && i + 2 < size; i++)
        bytes[i] ^= data[i + 2];
    return info;
}

/* The end of a connection that the lane has; -1: there is none. */
static int greet(const uint8_t *data, size_t size)
{
    struct verbs_hello words = {.hello = {.magic = WIRE_HELLO_MAGIC, .version = WIRE_HELLO_VERSION, .from = self}};
    int fds[2], none[ACCEPTOR_FDS] = {-1, -1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        return -1;
    for (size_t i = 0; (data[0] & ANY_HELLO) && i < sizeof words.hello && i + 2 < size; i++)
        ((uint8_t *)&words.hello)[i] ^= data[i + 2];
    memcpy(words.hello.secret, self.secret, sizeof words.hello.secret);
    words.info = info_of(data, size);
    verbs_greeted(&((struct verbs_transport *)transport)->acceptor, fds[0], &words, none);
    return fds[1];
}

static int be_answered(const uint8_t *data, size_t size)
{
    struct verbs_welcome words = {.welcome = {.magic = SOCKET_WELCOME_MAGIC, .version = WIRE_HELLO_VERSION}};
    if (transport->ops->lane_open(transport, &peer, 0, 1, 0, 0, NULL, &lane) != TUTTI_SUCCESS) {
        lane = NULL;
        return -1;
    }
    steps(3);
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    memcpy(words.welcome.uuid, peer.uuid, sizeof peer.uuid);
    for (size_t i = 0; (data[0] & ANY_HELLO) && i < sizeof words.welcome && i + 2 < size; i++)
        ((uint8_t *)&words.welcome)[i] ^= data[i + 2];
    words.info = info_of(data, size);
    if (send(fd, &words, sizeof words, MSG_NOSIGNAL) < 0)
        steps(1);
    steps(3);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!start() || size < 2)
        return 0;
    is_down = false;
    int fd = data[0] & CONNECTS ? be_answered(data, size) : greet(data, size);
    size_t piece = 1 + (size_t)data[1] * (data[0] & LARGE ? 64 : 1);
    for (size_t done = 2; fd >= 0 && done < size; done += piece) {
        size_t part = size - done < piece ? size - done : piece;
        if (send(fd, data + done, part, MSG_NOSIGNAL) < 0)
            break;
        steps(2);
    }
    if (fd >= 0)
        close(fd);
    steps(4);
    if (lane)
        lane->ops->lane_close(lane);
    lane = NULL;
    for (unsigned i = 0; i < ((struct verbs_transport *)transport)->places; i++)
        if (((struct verbs_transport *)transport)->lanes[i])
            steps(40); /* one that nobody was told of ends with its connection */
    for (unsigned i = 0; i < ((struct verbs_transport *)transport)->places; i++)
        if (((struct verbs_transport *)transport)->lanes[i])
            abort();
    return 0;
}
