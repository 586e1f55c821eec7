/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n N -- gpu_windows [check|capture|hosts|refused|dies [captured]|late|queue|measure]`, N processes with a
 * GPU each, TUTTI_TEST_GPU=1: windows of device memory, on the stand-in driver and on real GPUs alike. check: contents
 * and counts, on two streams. capture: the same in CUDA graphs, that are replayed among calls; and what is refused.
 * hosts: in graphs, 2 or 4 ranks of two hosts. refused: not with TUTTI_STAGE_KERNEL=0. dies: a process ends that
 * another waits for, or that a graph of another waits for. late: a rank gives up, to which another one replays puts.
 * queue: what two hosts refuse with one hardware queue. measure: prints the time of a put with a signal from rank 0 to
 * rank 1 and back, and how fast puts and gets are.
 */
#include "gpu_rank.h"

#include "base/clock.h"
#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART ((size_t)1 << 20)

static const struct cuda_driver *cu;
static tutti_comm_t comm;
static int rank, ranks, next, last; /* next: is put to; last: puts here */
static tutti_window_t window;
static unsigned char *memory, *local; /* on the GPU: ranks * PART bytes, PART bytes */
static unsigned char *host;           /* of PART bytes */
static CUstream streams[2];

static tutti_stream_t on(int which)
{
    return (tutti_stream_t)streams[which];
}

static CUdeviceptr device(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void copy(void *to, const void *from, size_t bytes)
{
    DONE(cu->MemcpyAsync(device(to), device(from), bytes, streams[0]));
    DONE(cu->StreamSynchronize(streams[0]));
}

static unsigned char byte_of(int from, int round, size_t at)
{
    return (unsigned char)(at * 7 + (size_t)from * 31 + (size_t)round * 13 + 1);
}

static void fill(int round, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        host[at] = byte_of(rank, round, at);
    copy(local, host, bytes);
}

static void look(const unsigned char *at, int from, int round, size_t bytes, const char *what)
{
    memset(host, 0, bytes);
    copy(host, at, bytes);
    for (size_t i = 0; i < bytes; i++)
        require(host[i] == byte_of(from, round, i), what);
}

static void put(size_t from, size_t bytes, int peer, int signal, int stream)
{
    size_t to = (size_t)rank * PART + from;
    OK(signal < 0 ? tutti_put(local + from, bytes, TUTTI_UINT8, peer, window, to, comm, on(stream))
                  : tutti_put_signal(local + from, bytes, TUTTI_UINT8, peer, window, to, signal, comm, on(stream)));
}

static void await(int peer, int signal, unsigned count, int stream)
{
    const tutti_signal_wait_t wait = {peer, signal, count};
    OK(tutti_wait_signal(&wait, 1, comm, on(stream)));
}

static void meet(void)
{
    OK(tutti_barrier(comm, on(0)));
    OK(tutti_comm_synchronize(comm));
}

/* ---- Contents and counts ---- */

static const size_t lengths[] = {1, 8, 513, 4096, 65537, 300001, PART};
#define LENGTHS (int)(sizeof lengths / sizeof *lengths)

/* What is read comes behind the wait in its stream: the host waits for nothing before. */
static void check_ring(void)
{
    for (int round = 0; round < LENGTHS; round++) {
        fill(round, lengths[round]);
        put(0, lengths[round], next, round % TUTTI_SIGNALS, round % 2);
        await(last, round % TUTTI_SIGNALS, 1, 0);
        look(memory + (size_t)last * PART, last, round, lengths[round], "a ring of puts");
        meet();
    }
}

/* Many puts and one signal; many signals and one wait for all. */
static void check_counts(void)
{
    unsigned pieces = 64;
    fill(20, PART);
    for (unsigned i = 0; i < pieces; i++)
        put(i * (PART / pieces), PART / pieces, next, i % 2 ? 3 : -1, i % 3 == 0);
    await(last, 3, pieces / 2 - 1, 0);
    await(last, 3, 1, 1);
    OK(tutti_comm_synchronize(comm));
    look(memory + (size_t)last * PART, last, 20, PART, "many puts");
    meet();
}

static void check_gets(void)
{
    fill(30, PART);
    for (int peer = 0; peer < ranks; peer++)
        put(0, PART, peer, -1, 0);
    OK(tutti_window_flush(-1, window, comm, on(1)));
    meet();
    for (int peer = 0; peer < ranks; peer++) {
        int whose = (peer + rank) % ranks;
        OK(tutti_get(local, PART, TUTTI_UINT8, peer, window, (size_t)whose * PART, comm, on(0)));
        OK(tutti_comm_synchronize(comm));
        look(local, whose, 30, PART, "a get");
    }
    meet();
}

/* By the mapped address; in a group, beside a collective. */
static void check_addresses(void)
{
    void *theirs;
    size_t bytes;
    OK(tutti_window_address(comm, window, next, &theirs, &bytes));
    require(theirs && bytes == (size_t)ranks * PART, "a peer's memory is mapped");
    fill(40, 5000);
    DONE(cu->MemcpyAsync(device((char *)theirs + (size_t)rank * PART), device(local), 5000, streams[0]));
    OK(tutti_group_start());
    await(last, 7, 1, 0);
    OK(tutti_signal(next, 7, comm, on(0)));
    OK(tutti_allreduce(local, local, 100, TUTTI_UINT8, TUTTI_MAX, comm, on(0)));
    OK(tutti_group_end());
    OK(tutti_comm_synchronize(comm));
    look(memory + (size_t)last * PART, last, 40, 5000, "what was stored where a peer's memory is mapped");
    meet();
}

static void check(void)
{
    check_ring();
    check_counts();
    check_gets();
    check_addresses();
}

/* ---- In graphs ---- */

#define LONG ((size_t)100001) /* by several blocks of a kernel */

static void begin(void)
{
    DONE(cu->StreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

static CUgraphExec end(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    DONE(cu->StreamEndCapture(streams[1], &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphDestroy(graph));
    return exec;
}

static void look_at_round(int round, size_t bytes, const char *what)
{
    look(memory + (size_t)last * PART, last, round, bytes, what);
    meet();
}

/* A put with a signal to the next rank, and the wait for the one from the last. */
static void pass_on(size_t bytes, int signal, int stream)
{
    put(0, bytes, next, signal, stream);
    await(last, signal, 1, stream);
}

/* Rank 0 replays what the others call, before any of these captures something. */
static void check_replay_of_one(size_t bytes)
{
    CUgraphExec exec = NULL;
    if (rank == 0) {
        begin();
        pass_on(bytes, 2, 1);
        exec = end();
    }
    for (int round = 50; round < 52; round++) {
        fill(round, bytes);
        if (rank == 0)
            DONE(cu->GraphLaunch(exec, streams[0]));
        else
            pass_on(bytes, 2, 0);
        look_at_round(round, bytes, "what one rank replays and others call");
    }
    if (rank == 0)
        DONE(cu->GraphExecDestroy(exec));
}

/* What all replay, with calls of the same signals in between: each wait has had what was raised for it, and no more. */
static void check_replay_of_all(size_t bytes)
{
    begin();
    pass_on(bytes, 2, 1);
    CUgraphExec exec = end();
    for (int round = 60; round < 66; round++) {
        fill(round, bytes);
        if (round % 3)
            DONE(cu->GraphLaunch(exec, streams[0]));
        else
            pass_on(bytes, 2, 0);
        look_at_round(round, bytes, "replays among calls");
    }
    DONE(cu->GraphExecDestroy(exec));
    begin(); /* the signals of several, two of which go to this rank itself */
    OK(tutti_group_start());
    await(rank, 5, 2, 1);
    await(last, 6, 1, 1);
    OK(tutti_signal(rank, 5, comm, on(1)));
    OK(tutti_signal(rank, 5, comm, on(1)));
    OK(tutti_signal(next, 6, comm, on(1)));
    OK(tutti_allreduce(local, local, 16, TUTTI_UINT8, TUTTI_MAX, comm, on(1)));
    OK(tutti_group_end());
    exec = end();
    for (int times = 0; times < 10; times++)
        DONE(cu->GraphLaunch(exec, streams[times % 2]));
    OK(tutti_comm_synchronize(comm));
    meet();
    DONE(cu->GraphExecDestroy(exec));
}

/* A replay reads what lies in windows then. */
static void check_replay_of_get(void)
{
    begin();
    OK(tutti_get(local, LONG, TUTTI_UINT8, next, window, (size_t)last * PART, comm, on(1)));
    OK(tutti_window_flush(next, window, comm, on(1)));
    CUgraphExec exec = end();
    for (int round = 70; round < 72; round++) {
        fill(round, LONG);
        copy(memory + (size_t)(next == last ? rank : (rank + ranks - 2) % ranks) * PART, local, LONG);
        meet();
        DONE(cu->GraphLaunch(exec, streams[0]));
        DONE(cu->StreamSynchronize(streams[0]));
        look(local, next, round, LONG, "a get that is replayed");
        meet();
    }
    DONE(cu->GraphExecDestroy(exec));
}

/* More calls than a launch has, and a signal behind all. */
static void check_long_list(void)
{
    size_t pieces = 150, each = 512;
    begin();
    OK(tutti_group_start());
    await(last, 7, 1, 1);
    for (size_t i = 0; i < pieces; i++)
        put(i * each, each, next, i + 1 == pieces ? 7 : -1, 1);
    OK(tutti_group_end());
    CUgraphExec exec = end();
    for (int round = 80; round < 82; round++) {
        fill(round, pieces * each);
        DONE(cu->GraphLaunch(exec, streams[0]));
        look_at_round(round, pieces * each, "many puts of a graph");
    }
    DONE(cu->GraphExecDestroy(exec));
}

static void check_replays(void)
{
    check_replay_of_one(LONG);
    check_replay_of_one(1000);
    check_replay_of_all(LONG);
    check_replay_of_all(777);
    check_replay_of_get();
    check_long_list();
}

/* ---- What cannot be ---- */

static void check_refused(void)
{
    CUgraph graph = NULL;
    DONE(cu->StreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    require(tutti_put(&rank, sizeof rank, TUTTI_UINT8, 0, window, 0, comm, on(1)) == TUTTI_INVALID_USAGE &&
                strstr(tutti_get_last_error(NULL), "no memory of GPU"),
            "a graph puts no memory that its GPU does not address");
    DONE(cu->StreamEndCapture(streams[1], &graph));
    DONE(cu->GraphDestroy(graph));
    tutti_window_t none = NULL;
    tutti_result_t made = tutti_window_register(comm, rank == 0 ? host : memory, PART, &none);
    require(made != TUTTI_SUCCESS && !none && strstr(tutti_get_last_error(NULL), rank == 0 ? "GPU 0" : "rank 0"),
            "no window has memory of the host");
    const tutti_signal_wait_t many = {rank, 0, 1u << 31};
    require(tutti_wait_signal(&many, 1, comm, on(0)) == TUTTI_INVALID_ARGUMENT, "nobody waits for 2^31 signals");
}

static void die(bool captured)
{
    CUgraphExec exec = NULL;
    if (captured && rank == 0) {
        begin();
        await(1, 0, 1, 1);
        exec = end();
    }
    if (rank == 1) {
        OK(tutti_signal(0, 1, comm, on(0)));
        OK(tutti_comm_synchronize(comm));
        usleep(100000);
        _exit(0);
    }
    if (rank > 1)
        return;
    await(1, 1, 1, 0); /* was sent */
    OK(tutti_comm_synchronize(comm));
    const tutti_signal_wait_t wait = {1, 0, 1};
    tutti_result_t result = TUTTI_SUCCESS;
    if (captured)
        DONE(cu->GraphLaunch(exec, streams[0]));
    else
        result = tutti_wait_signal(&wait, 1, comm, on(0)); /* refused, where it comes late */
    uint64_t began = clock_ns();
    if (captured)
        DONE(cu->StreamSynchronize(streams[0])); /* nobody else waits for a replay */
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    require(result != TUTTI_SUCCESS && strstr(tutti_get_last_error(comm), "rank 1"),
            "a wait for a rank whose process is gone fails, and names the rank");
    fprintf(stderr, "failed after %.0f ms: %s\n", (double)(clock_ns() - began) / NS_PER_MS, tutti_get_last_error(comm));
    if (captured)
        DONE(cu->GraphExecDestroy(exec));
}

/* To a rank of this host, and to one of another host, in one call: what peers of either kind have raised is there. */
static void check_near_and_far(int near, int far)
{
    const tutti_signal_wait_t waits[2] = {{near, 4, 1}, {far, 4, 2}};
    begin();
    OK(tutti_group_start());
    OK(tutti_wait_signal(waits, 2, comm, on(1)));
    put(0, LONG, near, 4, 1);
    put(0, LONG, far, 4, 1);
    OK(tutti_signal(far, 4, comm, on(1)));
    OK(tutti_group_end());
    CUgraphExec exec = end();
    for (int round = 90; round < 93; round++) {
        fill(round, LONG);
        DONE(cu->GraphLaunch(exec, streams[0]));
        look(memory + (size_t)near * PART, near, round, LONG, "what a rank of this host put");
        look(memory + (size_t)far * PART, far, round, LONG, "what a rank of another host put");
        meet();
    }
    DONE(cu->GraphExecDestroy(exec));
}

/* Where a kernel copies only processors reach some memory. */
static void check_refused_far(int far)
{
    begin();
    require(tutti_put(&rank, sizeof rank, TUTTI_UINT8, far, window, 0, comm, on(1)) == TUTTI_INVALID_USAGE &&
                strstr(tutti_get_last_error(NULL), "no memory of GPU"),
            "a graph puts no memory that its GPU does not address, to no host");
    pass_on(8, 0, 1);
    CUgraphExec exec = end();
    fill(94, 8);
    DONE(cu->GraphLaunch(exec, streams[0]));
    look_at_round(94, 8, "a graph whose other calls were refused");
    DONE(cu->GraphExecDestroy(exec));
}

/* With TUTTI_STAGE_KERNEL=0. */
static void check_no_kernel(void)
{
    CUgraph graph = NULL;
    begin();
    require(tutti_signal(next, 0, comm, on(1)) == TUTTI_INVALID_USAGE &&
                strstr(tutti_get_last_error(NULL), "TUTTI_STAGE_KERNEL=0"),
            "no graph signals to another host where no kernel asks");
    DONE(cu->StreamEndCapture(streams[1], &graph));
    DONE(cu->GraphDestroy(graph));
    check_ring();
}

static void check_hosts(void)
{
    int far = (rank + ranks / 2) % ranks;
    if (ranks == 4) {
        check_replay_of_all(LONG);
        check_replay_of_get();
        check_near_and_far(next, far);
    }
    next = last = far;
    check_replays();
    check_refused_far(far);
}

/* ---- Late writes ---- */

/* Rank 1 replays puts to rank 0, which gives up at some moment. */
static void replay_until_told(tutti_comm_t of, tutti_window_t to)
{
    begin();
    OK(tutti_put_signal(local, PART, TUTTI_UINT8, 0, to, 0, 0, of, on(1)));
    CUgraphExec exec = end();
    meet();
    while (tutti_signal(0, 1, of, on(0)) == TUTTI_SUCCESS) {
        for (int times = 0; times < 8; times++)
            DONE(cu->GraphLaunch(exec, streams[0]));
        DONE(cu->StreamSynchronize(streams[0]));
    }
    DONE(cu->GraphExecDestroy(exec));
}

static void check_late(void)
{
    unsigned seed = 5;
    for (int round = 0; round < 4; round++) {
        tutti_comm_t of;
        tutti_window_t to;
        OK(tutti_comm_duplicate(comm, &of, NULL));
        OK(tutti_window_register(of, memory, PART, &to));
        if (rank == 1)
            replay_until_told(of, to);
        if (rank == 0) {
            meet();
            usleep(20000 + (useconds_t)rand_r(&seed) % 20000);
        }
        OK(tutti_comm_abort(of));
        memset(host, 0xee, PART);
        copy(memory, host, PART);
        usleep(20000);
        copy(host, memory, PART);
        for (size_t at = 0; at < PART; at++)
            require(host[at] == 0xee, "no replay puts to a rank that has given up");
        OK(tutti_comm_destroy(of));
        meet();
    }
}

/* ---- How fast ---- */

static void settle(void)
{
    OK(tutti_comm_synchronize(comm));
    meet();
}

static double ping_pong(size_t bytes, int times)
{
    settle();
    uint64_t began = clock_ns();
    for (int i = 0; i < times && rank < 2; i++) {
        if (rank == 1)
            await(0, 0, 1, 0);
        if (bytes)
            put(0, bytes, !rank, 0, 0);
        else
            OK(tutti_signal(!rank, 0, comm, on(0)));
        if (rank == 0)
            await(1, 0, 1, 0);
    }
    OK(tutti_comm_synchronize(comm));
    double us = (double)(clock_ns() - began) / 1000;
    settle();
    return us / times / 2;
}

static double stream(unsigned char *from, tutti_window_t to, size_t bytes, int times, bool gets)
{
    settle();
    uint64_t began = clock_ns();
    for (int i = 0; i < times && rank == 0; i++)
        OK(gets ? tutti_get(from, bytes, TUTTI_UINT8, 1, to, 0, comm, on(0))
                : tutti_put(from, bytes, TUTTI_UINT8, 1, to, 0, comm, on(0)));
    OK(tutti_comm_synchronize(comm));
    double gbs = (double)bytes * times / (double)(clock_ns() - began);
    settle();
    return gbs;
}

static void measure_streams(int times, size_t most)
{
    tutti_window_t wide;
    void *to, *from;
    OK(tutti_device_mem_alloc(&to, most));
    OK(tutti_device_mem_alloc(&from, most));
    OK(tutti_window_register(comm, to, most, &wide));
    for (size_t bytes = 65536; bytes <= most; bytes *= 4)
        for (int gets = 0; gets < 2; gets++) {
            stream(from, wide, bytes, times / 10 + 1, gets);
            double gbs = stream(from, wide, bytes, times, gets);
            if (rank == 0)
                printf("%s of %zu bytes, one behind another: %.1f GB/s\n", gets ? "gets" : "puts", bytes, gbs);
        }
    OK(tutti_window_deregister(comm, wide));
    OK(tutti_device_mem_free(from));
    OK(tutti_device_mem_free(to));
}

static void measure(int times)
{
    static const size_t sizes[] = {0, 8, 4096, 65536, PART};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ping_pong(sizes[i], times / 10 + 1);
        double us = ping_pong(sizes[i], times);
        if (rank == 0)
            printf("put of %zu bytes and a signal, one way: %.2f us\n", sizes[i], us);
    }
    measure_streams(times / 10 + 1, 256 * PART);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "check", *local_rank = getenv("TUTTI_LOCAL_RANK");
    void *made;
    if (!local_rank)
        return 2;
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&comm, &rank, &ranks);
    bool hosts = strcmp(what, "hosts") == 0;
    next = hosts ? rank ^ 1 : (rank + 1) % ranks;
    last = hosts ? rank ^ 1 : (rank + ranks - 1) % ranks;
    for (int i = 0; i < 2; i++)
        DONE(cu->StreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0));
    OK(tutti_device_mem_alloc(&made, (size_t)ranks * PART));
    memory = made;
    OK(tutti_device_mem_alloc(&made, PART));
    local = made;
    DONE(cu->MemHostAlloc(&made, PART, 0));
    host = made;
    if (strcmp(what, "queue") == 0) {
        require(tutti_window_register(comm, memory, PART, &window) == TUTTI_INVALID_USAGE &&
                    strstr(tutti_get_last_error(NULL), "CUDA_DEVICE_MAX_CONNECTIONS"),
                "no window of several hosts where streams share a queue");
        meet();
        OK(tutti_comm_destroy(comm));
        return 0;
    }
    OK(tutti_window_register(comm, memory, (size_t)ranks * PART, &window));
    if (strcmp(what, "dies") == 0) {
        die(argc > 2 && strcmp(argv[2], "captured") == 0);
        OK(tutti_comm_abort(comm));
        return 0;
    }
    if (strcmp(what, "late") == 0)
        check_late();
    else if (strcmp(what, "refused") == 0)
        check_no_kernel();
    else if (!hosts)
        check();
    if (hosts)
        check_hosts();
    if (strcmp(what, "capture") == 0) {
        check_replays();
        check_refused();
    }
    if (strcmp(what, "measure") == 0)
        measure(argc > 2 ? atoi(argv[2]) : 1000);
    OK(tutti_window_deregister(comm, window));
    OK(tutti_comm_destroy(comm));
    return 0;
}
