/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw transports between pinned processes: half round trip of messages and of puts, and the rate of a stream of 256 KiB
 * puts; beside them one memcpy, and one bare TCP socket.
 */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/random.h"
#include "transport/shm/region.h"
#include "transport/transport.h"

#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEGMENT (256u << 10)
#define WINDOW  4

static bool use_region, yields;
static size_t largest = 64u << 20;

struct side {
    const struct transport_ops *ops;
    struct poller *poller;
    struct transport *transport;
    struct wire_process self, peer;
    struct lane *lane;
    bool up;
    uint64_t messages, arrived, sent;             /* so far */
    uint64_t due_messages, due_arrived, due_sent; /* once all that was begun is done */
    char *area, *source;
    size_t buffer;
    int first;
};

static void die(const char *what)
{
    fprintf(stderr, "transport_bench: %s: %s\n", what, error_last());
    exit(1);
}

static bool on_accepted(void *context, struct lane *lane, const struct wire_hello *hello)
{
    struct side *side = context;
    (void)hello;
    lane->user = side;
    side->lane = lane;
    side->up = true;
    return true;
}
static void on_up(struct lane *lane)
{
    ((struct side *)lane->user)->up = true;
}
static void on_down(struct lane *lane, tutti_result_t why)
{
    (void)lane;
    (void)why;
    die("lane down");
}
static void on_message(struct lane *lane, const void *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    ((struct side *)lane->user)->messages++;
}
static struct place on_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)imm;
    (void)length;
    return place_host(((struct side *)lane->user)->area + offset);
}
static void on_arrived(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    (void)imm;
    (void)offset;
    (void)length;
    ((struct side *)lane->user)->arrived++;
}
static void on_sent(struct lane *lane, uint64_t token)
{
    (void)token;
    ((struct side *)lane->user)->sent++;
}
static void on_writable(struct lane *lane)
{
    (void)lane;
}
static void on_shared(struct lane *lane, uint64_t key, int fd)
{
    (void)lane;
    (void)key;
    close(fd);
}

static void step(struct side *side)
{
    if (!side->ops->poll(side->transport)) {
        if (yields)
            sched_yield();
        else
            cpu_relax();
    }
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *source_new(void)
{
    void *source = use_region ? region_alloc(largest) : aligned_alloc(4096, largest);
    if (!source)
        die("no memory");
    memset(source, 1, largest);
    return source;
}

static void exchange(int fd, const void *out, void *in, size_t size)
{
    if (write(fd, out, size) != (ssize_t)size || read(fd, in, size) != (ssize_t)size)
        die("exchange");
}

static void open_side(struct side *side, int fd)
{
    struct transport_owner owner = {side,      on_accepted, on_up,   on_down,     on_message,
                                    on_target, on_arrived,  on_sent, on_writable, on_shared};
    side->self.host = 1;
    side->self.pid = (uint32_t)getpid();
    side->self.uid = geteuid();
    if (random_bytes(side->self.uuid, 16) || random_bytes(side->self.secret, 16) || poller_open(&side->poller) ||
        side->ops->open(side->ops, &owner, side->poller, &side->self, &side->transport))
        die("open");
    exchange(fd, &side->self, &side->peer, sizeof side->self);
    if (side->first && side->ops->lane_open(side->transport, &side->peer, 0, 1, 0, 0, side, &side->lane))
        die("lane_open");
    while (!side->up)
        step(side);
    side->source = source_new();
    side->area = aligned_alloc(4096, largest);
    memset(side->area, 2, largest);
    for (int i = 0; i < 2000; i++)
        step(side);
}

static void send_message(struct side *side, size_t length)
{
    struct iovec part = {side->source, length};
    tutti_result_t result;
    while ((result = side->ops->msg(side->lane, &part, 1)) == TUTTI_IN_PROGRESS)
        step(side);
    if (result)
        die("msg");
}

static void send_put(struct side *side, size_t offset, size_t length)
{
    struct put put = {
        .source = place_host(side->source + offset), .length = length, .offset = offset, .whole = side->buffer};
    tutti_result_t result;
    side->due_sent++;
    while ((result = side->ops->put(side->lane, &put)) == TUTTI_IN_PROGRESS)
        step(side);
    if (result)
        die("put");
}

static void await(struct side *side, const uint64_t *counter, uint64_t value)
{
    while (*(volatile const uint64_t *)counter < value)
        step(side);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static int rounds_for(size_t size)
{
    return size <= 4096 ? 2000 : size <= 65536 ? 500 : size <= (1 << 20) ? 100 : size <= (8 << 20) ? 20 : 7;
}

/* Half a round trip in microseconds: median of batches. */
static double ping_pong(struct side *side, size_t size, void (*send)(struct side *, size_t), const uint64_t *counter,
                        uint64_t *due)
{
    enum { BATCHES = 15 };
    double times[BATCHES];
    int rounds = rounds_for(size);
    rounds = rounds < 5 ? 1 : rounds / 5;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = clock_ns();
        for (int i = 0; i < rounds; i++) {
            if (side->first)
                send(side, size);
            await(side, counter, ++*due);
            if (!side->first)
                send(side, size);
        }
        times[batch] = (double)(clock_ns() - start) / rounds / 2e3;
    }
    return median(times, BATCHES);
}

static void send_message_of(struct side *side, size_t size)
{
    send_message(side, size);
}

static void send_put_of(struct side *side, size_t size)
{
    send_put(side, 0, size);
}

/* GB/s of `size` bytes in segments, until the last has arrived. */
static double stream(struct side *side, size_t size)
{
    enum { BATCHES = 9 };
    double rates[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = clock_ns(), segments = (size + SEGMENT - 1) / SEGMENT, sent = side->due_sent;
        if (side->first) {
            for (uint64_t i = 0; i < segments; i++) {
                size_t offset = i * SEGMENT, length = size - offset < SEGMENT ? size - offset : SEGMENT;
                await(side, &side->sent, sent + (i < WINDOW ? 0 : i - WINDOW));
                send_put(side, offset, length);
            }
            await(side, &side->messages, ++side->due_messages);
        } else {
            await(side, &side->arrived, side->due_arrived += segments);
            send_message(side, 8);
        }
        rates[batch] = (double)size / (double)(clock_ns() - start);
    }
    return median(rates, BATCHES);
}

/* Millions of 8-byte messages a second. */
static double message_rate(struct side *side)
{
    enum { COUNT = 200000 };
    uint64_t start = clock_ns();
    if (side->first) {
        for (int i = 0; i < COUNT; i++)
            send_message(side, 8);
        await(side, &side->messages, ++side->due_messages);
    } else {
        await(side, &side->messages, side->due_messages += COUNT);
        send_message(side, 8);
    }
    return COUNT * 1e3 / (double)(clock_ns() - start);
}

static void measure(struct side *side, bool print)
{
    double rate = message_rate(side);
    if (print)
        printf("# %.2f M messages/s of 8 bytes\n#%11s %12s %12s %12s %12s\n", rate, "bytes", "msg_half_us",
               "put_half_us", "put_GB/s", "stream_GB/s");
    for (size_t size = 8; size <= largest; size = size < 65536 ? size * (size < 64 ? 8 : 4) : size * 4) {
        side->buffer = size;
        double msg = size <= side->ops->max_msg
                         ? ping_pong(side, size, send_message_of, &side->messages, &side->due_messages)
                         : 0;
        double put = ping_pong(side, size, send_put_of, &side->arrived, &side->due_arrived);
        double rate_of = size >= SEGMENT ? stream(side, size) : 0;
        if (print)
            printf("%12zu %12.3f %12.3f %12.3f %12.3f\n", size, msg, put, (double)size / put / 1e3, rate_of);
        fflush(stdout);
    }
}

static void run_side(const struct transport_ops *ops, int fd, int core, bool first, bool print)
{
    struct side *side = calloc(1, sizeof *side);
    pin(core);
    side->ops = ops;
    side->first = first;
    open_side(side, fd);
    measure(side, print);
    char byte = 0;
    exchange(fd, &byte, &byte, 1);
    exit(0);
}

static void run_pairs(const struct transport_ops *ops, int pairs)
{
    for (int i = 0; i < 2 * pairs; i += 2) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
            die("socketpair");
        for (int end = 0; end < 2; end++)
            if (fork() == 0)
                run_side(ops, fds[end], i + end, end == 0, i == 0 && end == 0);
        close(fds[0]);
        close(fds[1]);
    }
    while (wait(NULL) > 0)
        ;
}

/* Half a round trip of one word that both spin on: the least that this pair of cores can do. */
static void bench_flag(void)
{
    enum { ROUNDS = 20000, BATCHES = 15 };
    _Atomic uint64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double times[BATCHES];
    bool first = fork() == 0;
    uint64_t turn = 0;
    pin(first);
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            turn++;
            if (first)
                atomic_store_explicit(&words[0], turn, memory_order_release);
            while (atomic_load_explicit(&words[first ? 16 : 0], memory_order_acquire) != turn)
                cpu_relax();
            if (!first)
                atomic_store_explicit(&words[16], turn, memory_order_release);
        }
        times[batch] = (double)(clock_ns() - start) / ROUNDS / 2e3;
    }
    if (first)
        printf("# flag hand-over: %.3f us\n", median(times, BATCHES));
    fflush(stdout);
    if (first)
        exit(0);
    wait(NULL);
}

static void bench_memcpy(void)
{
    char *to = source_new(), *from = aligned_alloc(4096, largest);
    memset(from, 1, largest);
    pin(0);
    printf("#%11s %12s %12s\n", "bytes", "us", "GB/s");
    for (size_t size = 4096; size <= largest; size *= 4) {
        enum { BATCHES = 15 };
        double times[BATCHES];
        int rounds = rounds_for(size) / 5 + 1;
        for (int batch = 0; batch < BATCHES; batch++) {
            uint64_t start = clock_ns();
            for (int i = 0; i < rounds; i++) {
                memcpy(to, from, size);
                __asm__ volatile("" ::: "memory");
            }
            times[batch] = (double)(clock_ns() - start) / rounds / 1e3;
        }
        double us = median(times, BATCHES);
        printf("%12zu %12.3f %12.3f\n", size, us, (double)size / us / 1e3);
    }
}

/* All of `size` bytes, spinning. */
static void move(int fd, char *bytes, size_t size, bool out)
{
    for (size_t done = 0; done < size;) {
        ssize_t part =
            out ? send(fd, bytes + done, size - done, MSG_DONTWAIT) : recv(fd, bytes + done, size - done, MSG_DONTWAIT);
        done += part > 0 ? (size_t)part : 0;
    }
}

static double socket_round(int fd, char *bytes, size_t size, bool first, bool back)
{
    enum { BATCHES = 9 };
    double times[BATCHES];
    int rounds = rounds_for(size) / 5 + 1;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = clock_ns();
        for (int i = 0; i < rounds; i++) {
            if (first)
                move(fd, bytes, size, true);
            if (!first || back)
                move(fd, bytes + largest, size, false);
            if (!first && back)
                move(fd, bytes, size, true);
        }
        char byte = 0;
        if (!back)
            move(fd, &byte, 1, !first);
        times[batch] = (double)(clock_ns() - start) / rounds / 1e3 / (back ? 2 : 1);
    }
    return median(times, BATCHES);
}

static void bench_socket(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int door = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 1) ||
        getsockname(door, (struct sockaddr *)&at, &length))
        die("listen");
    bool first = fork() == 0;
    int fd = first ? socket(AF_INET, SOCK_STREAM, 0) : accept(door, NULL, NULL);
    if (first && connect(fd, (struct sockaddr *)&at, sizeof at))
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pin(first);
    char *bytes = aligned_alloc(4096, 2 * largest); /* sent from one half, received in the other */
    memset(bytes, 1, 2 * largest);
    if (first)
        printf("#%11s %12s %12s\n", "bytes", "half_us", "stream_GB/s");
    for (size_t size = 8; size <= largest; size *= size < 65536 ? 8 : 4) {
        double half = socket_round(fd, bytes, size, first, true), way = socket_round(fd, bytes, size, first, false);
        if (first)
            printf("%12zu %12.3f %12.3f\n", size, half, (double)size / way / 1e3);
    }
    fflush(stdout);
    if (first)
        exit(0);
    wait(NULL);
}

struct bench_wishes {
    int pairs, memory; /* memory: 1: a region */
    int64_t largest;
    bool yields;
};

#define W struct bench_wishes
static const struct option_row rows[] = {
    {'p', NULL, "PAIRS", "pairs of processes at once (default 1)", TO_INT(W, pairs, 1, 256)},
    {'m', NULL, "MEMORY", "what is sent lies in (default malloc)", TO_WORD(W, memory, "malloc region")},
    {'s', NULL, "BYTES", "largest size (default 64M)", TO_SIZE(W, largest, 4096)},
    {'y', NULL, NULL, "a process that waits yields its processor, as where processors are fewer than processes",
     TO_FLAG(W, yields)},
};
#undef W

#define WHAT "shm tcp verbs memcpy flag socket"
static const struct options options_of_bench = {
    .command = "transport_bench",
    .usage = "[OPTION...] [shm | tcp | verbs | memcpy | flag | socket]",
    .before = "Raw transports between pinned processes: half round trips, and rates of streams; beside them one copy, "
              "one flag in shared memory, and one bare TCP socket.",
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .alone = true,
};

static void bench(const char *what, int pairs)
{
    if (strcmp(what, "memcpy") == 0)
        bench_memcpy();
    else if (strcmp(what, "flag") == 0)
        bench_flag();
    else if (strcmp(what, "socket") == 0)
        bench_socket();
    for (int i = 0; transport_registry[i]; i++)
        if (strcmp(transport_registry[i]->name, what) == 0)
            run_pairs(transport_registry[i], pairs);
}

int main(int argc, char **argv)
{
    struct bench_wishes w = {.pairs = 1, .largest = (int64_t)largest};
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    int code = options_parse(&options_of_bench, argc, argv, &w);
    if (code >= 0)
        return code;
    const char *what = optind < argc ? argv[optind] : "shm";
    if (optind + 1 < argc || options_index(WHAT, what) < 0)
        return usage_error("transport_bench", "want one of " WHAT);
    use_region = w.memory == 1;
    largest = (size_t)w.largest;
    yields = w.yields || 2 * w.pairs > (int)sysconf(_SC_NPROCESSORS_ONLN);
    bench(what, w.pairs);
    return 0;
}
