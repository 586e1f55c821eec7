/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a TCP lane does with any bytes, from a peer that knows the secret and from a stranger. The first byte of the
 * input says which, and in how large pieces the rest comes. Sockets are unix ones: the transport does not know the
 * difference.
 */
#include "base/random.h"
#include "transport/tcp/lane.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AREA 100000

static struct transport *transport;
static struct poller *poller;
static struct wire_process self;

static struct lane *lane;
static unsigned char area[AREA];
static uint64_t sum, random_state;
static bool is_down;

static bool on_accepted(void *context, struct lane *fresh, const struct wire_hello *hello)
{
    (void)context;
    sum += hello->epoch;
    lane = fresh;
    is_down = false;
    return true;
}
static void on_down(struct lane *which, tutti_result_t why)
{
    (void)which;
    (void)why;
    is_down = true;
}
static void on_message(struct lane *which, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        sum += ((const unsigned char *)bytes)[i];
    random_state = mix64(random_state + length);
    if (random_state % 64 == 0) {
        lane = NULL;
        which->ops->lane_close(which);
    }
}
static struct place on_target(struct lane *which, uint32_t imm, uint64_t offset, size_t length)
{
    (void)which;
    (void)imm;
    return place_host(offset <= AREA && length <= AREA - offset ? area + offset : NULL);
}
static void on_arrived(struct lane *which, uint32_t imm, uint64_t offset, size_t length)
{
    (void)which;
    sum += imm + offset + length;
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

static void start(void)
{
    static const struct transport_owner owner = {NULL,      on_accepted, on_lane, on_down, on_message,
                                                 on_target, on_arrived,  on_sent, on_lane, on_shared};
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
    setenv("TUTTI_DEBUG", "none", 1);
    memset(self.secret, 7, sizeof self.secret);
    if (poller_open(&poller) || transport_tcp.open(&transport_tcp, &owner, poller, &self, &transport))
        abort();
}

static void steps(int count)
{
    for (int i = 0; i < count; i++)
        transport->ops->poll(transport);
}

static void hello_into(unsigned char *out)
{
    struct wire_hello hello = {.magic = WIRE_HELLO_MAGIC, .version = WIRE_HELLO_VERSION, .from = self};
    memcpy(hello.secret, self.secret, sizeof hello.secret);
    memcpy(out, &hello, sizeof hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char greeting[sizeof(struct wire_hello)];
    int fds[2], none[ACCEPTOR_FDS] = {-1, -1, -1};
    if (!transport)
        start();
    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        return 0;
    struct tcp_transport *tcp = (struct tcp_transport *)transport;
    random_state = size;
    hello_into(greeting);
    if (data[0] & 1) {
        for (size_t i = 0; i < sizeof greeting && i + 2 < size && !(data[0] & 2); i++)
            greeting[i] = data[i + 2]; /* a stranger's */
    }
    tcp_greeted(&tcp->acceptor, fds[0], greeting, none);
    size_t piece = 1 + (size_t)data[1] * (data[0] & 4 ? 64 : 1);
    for (size_t done = 2; done < size; done += piece) {
        size_t part = size - done < piece ? size - done : piece;
        if (send(fds[1], data + done, part, MSG_NOSIGNAL) < 0)
            break;
        steps(2);
    }
    shutdown(fds[1], SHUT_WR);
    steps(4);
    for (int i = 0; i < 200 && lane && !is_down; i++)
        steps(1);
    if (lane)
        lane->ops->lane_close(lane);
    lane = NULL;
    close(fds[1]);

    return 0;
}
