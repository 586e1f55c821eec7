/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-net-bench: half of a round trip through the plugin, in host memory, beside that of one TCP connection on
 * loopback. The connection sends a length before each payload, as NCCL's own sockets do. Both ends poll and yield. The
 * plugin is DRIVER_PLUGIN; TUTTI_ says over what it sends. Prints medians of TURNS turns, plugin and TCP in turn.
 */
#include "nccl-net/driver.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define TURNS  5
#define ROUNDS 1000
#define SIZES  7

static const size_t sizes[SIZES] = {8, 256, 2048, 8192, 65536, 262144, 1048576};
static unsigned char out[1 << 20], in[1 << 20];

/* us, of one turn; both ends and their parent have it. */
struct found {
    double plugin[SIZES][TURNS], tcp[SIZES][TURNS];
};
static struct found *found;
static int turn;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_time(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, by_time);
    return times[count / 2];
}

/* Each end sends a payload of a size and receives one, the first end first. */
typedef void exchange_fn(const struct end *end, size_t size);

static double half_round_trip(const struct end *end, exchange_fn *exchange, size_t size)
{
    static double times[ROUNDS];
    int rounds = size > 8192 ? ROUNDS / 10 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        double begun = now_us();
        exchange(end, size);
        times[i] = (now_us() - begun) / 2;
    }
    return median(times, rounds);
}

static void measure(const struct end *end, exchange_fn *exchange, double (*into)[TURNS])
{
    for (int i = 0; i < SIZES; i++) {
        double took = half_round_trip(end, exchange, sizes[i]);
        if (!end->side)
            into[i][turn] = took;
    }
    end_meet(end);
}

/* ---- By the plugin ---- */

static void *sends, *receives;

static void send_one(const struct end *end, size_t size)
{
    void *request = NULL;
    while (!request)
        CHECK_CALL(net_send(&end->net, sends, out, size, NULL, &request));
    CHECK_CALL(end_wait(end, request, NULL));
}

static void exchange_by_plugin(const struct end *end, size_t size)
{
    void *request = NULL;
    while (!request)
        CHECK_CALL(net_receive(&end->net, receives, in, size, NULL, &request));
    if (!end->side)
        send_one(end, size);
    CHECK_CALL(end_wait(end, request, NULL));
    if (end->side)
        send_one(end, size);
}

static void by_plugin(struct end *end)
{
    end_connect(end, &sends, &receives);
    measure(end, exchange_by_plugin, found->plugin);
    CHECK_CALL(end->net.end->close_send(sends));
    CHECK_CALL(end->net.end->close_receive(receives));
}

/* ---- By TCP ---- */

static int peer;

static void move(ssize_t (*how)(int, void *, size_t, int), void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t moved = how(peer, (char *)data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (moved > 0)
            done += (size_t)moved;
        else
            sched_yield();
    }
}

static ssize_t put(int fd, void *data, size_t size, int flags)
{
    return send(fd, data, size, flags);
}

static void exchange_by_tcp(const struct end *end, size_t size)
{
    uint32_t length = (uint32_t)size;
    for (int i = 0; i < 2; i++) {
        bool puts = i == end->side;
        move(puts ? put : recv, &length, sizeof length);
        move(puts ? put : recv, puts ? out : in, size);
    }
}

static void by_tcp(struct end *end)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (end->side) {
        peer = first;
        end_hear(end, &address.sin_port, sizeof address.sin_port);
        CHECK(!connect(peer, (struct sockaddr *)&address, sizeof address));
    } else {
        CHECK(!bind(first, (struct sockaddr *)&address, sizeof address) && !listen(first, 1));
        CHECK(!getsockname(first, (struct sockaddr *)&address, &length));
        end_tell(end, &address.sin_port, sizeof address.sin_port);
        CHECK((peer = accept(first, NULL, NULL)) >= 0);
        close(first);
    }
    CHECK(!setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
    measure(end, exchange_by_tcp, found->tcp);
    close(peer);
}

int main(void)
{
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        return 1;
    for (turn = 0; turn < TURNS; turn++)
        if (!driver_pair(11, by_plugin, by_plugin) || !driver_pair(0, by_tcp, by_tcp))
            return 1;
    printf("%10s %10s %10s %10s\n", "bytes", "plugin us", "TCP us", "TCP/plugin");
    for (int i = 0; i < SIZES; i++) {
        double plugin = median(found->plugin[i], TURNS), tcp = median(found->tcp[i], TURNS);
        printf("%10zu %10.2f %10.2f %10.2f\n", sizes[i], plugin, tcp, tcp / plugin);
    }
    return 0;
}
