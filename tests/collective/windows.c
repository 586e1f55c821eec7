/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n N -- windows [resets|shared]`, `windows threads N`: puts, gets and signals between N ranks, of all
 * lengths, one by one and in groups, with what each promises about order. resets: the program breaks its own
 * connections meanwhile. shared: it reaches memory of tutti_mem_alloc() of all ranks. On GPUs, as gpu.h has it, all
 * memory is theirs, and is reached.
 */
#include "gpu.h"
#include "tutti/tutti.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_RANKS 16
#define PART       (1 << 20) /* of a window, for each rank that puts */
#define ROUNDS     60

static _Thread_local int rank, ranks;
static _Thread_local tutti_comm_t comm;
static bool resets, shared;
static _Thread_local bool apart; /* GPUs of several hosts */
static _Atomic int broken;       /* connections */

static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(comm));
    _exit(1);
}

static void must(tutti_result_t result, const char *what)
{
    if (result != TUTTI_SUCCESS)
        fail(what);
}

static void done(const char *what)
{
    must(tutti_comm_synchronize(comm), what);
}

static void meet(void)
{
    must(tutti_barrier(comm, NULL), "barrier");
    done("barrier");
}

/* What rank `from` puts in that round. */
static unsigned char byte_of(int from, int round, size_t at)
{
    return (unsigned char)(at * 7 + (size_t)from * 31 + (size_t)round * 13 + 1);
}

static _Thread_local unsigned char *mirror; /* of PART bytes; windows are memory of GPUs, perhaps */

static void fill(void *data, int from, int round, size_t length)
{
    for (size_t at = 0; at < length; at++)
        mirror[at] = byte_of(from, round, at);
    gpu_bytes_copy(data, mirror, length);
}

static void look(const void *data, int from, int round, size_t length, const char *what)
{
    gpu_bytes_copy(mirror, data, length);
    for (size_t at = 0; at < length; at++)
        if (mirror[at] != byte_of(from, round, at)) {
            fprintf(stderr, "rank %d: %s: byte %zu of %zu of rank %d, round %d, is wrong\n", rank, what, at, length,
                    from, round);
            _exit(1);
        }
}

static const size_t lengths[] = {0, 1, 8, 511, 512, 513, 4096, 65536, 65537, 300001, PART};
#define LENGTHS (int)(sizeof lengths / sizeof *lengths)

static void clear(unsigned char *memory, size_t size)
{
    memset(mirror, 0, PART);
    for (size_t at = 0, part = PART; at < size; at += part) {
        part = part < size - at ? part : size - at;
        gpu_bytes_copy(memory + at, mirror, part);
    }
}

static void *take(size_t size, bool shared)
{
    void *memory = NULL;
    if (gpu_wanted())
        must(tutti_device_mem_alloc(&memory, size), "memory");
    else if (shared)
        must(tutti_mem_alloc(&memory, size), "memory");
    else
        memory = malloc(size);
    if (!memory)
        fail("memory");
    clear(memory, size);
    return memory;
}

static void give(void *memory, bool shared)
{
    if (gpu_wanted())
        must(tutti_device_mem_free(memory), "free");
    else if (shared)
        must(tutti_mem_free(memory), "free");
    else
        free(memory);
}

struct piece {
    tutti_window_t window;
    unsigned char *memory; /* of ranks * PART bytes */
    unsigned char *local;  /* of PART bytes */
};

static struct piece make(bool shared)
{
    struct piece piece = {NULL};
    size_t size = (size_t)ranks * PART;
    piece.memory = take(size, shared);
    piece.local = take(PART, false);
    must(tutti_window_register(comm, piece.memory, size, &piece.window), "register");
    return piece;
}

static void unmake(struct piece *piece, bool shared)
{
    must(tutti_window_deregister(comm, piece->window), "deregister");
    give(piece->local, false);
    give(piece->memory, shared);
}

/* ---- One by one ---- */

static void ring(struct piece *piece)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int i = 0; i < LENGTHS; i++) {
        const tutti_signal_wait_t wait = {last, 1, 1}, room = {next, 2, 1};
        fill(piece->local, rank, i, lengths[i]);
        must(tutti_put_signal(piece->local, lengths[i], TUTTI_UINT8, next, piece->window, (size_t)rank * PART, 1, comm,
                              NULL),
             "put");
        must(tutti_wait_signal(&wait, 1, comm, NULL), "wait");
        done("ring");
        look(piece->memory + (size_t)last * PART, last, i, lengths[i], "ring");
        must(tutti_signal(last, 2, comm, NULL), "signal"); /* there is room again */
        must(tutti_wait_signal(&room, 1, comm, NULL), "wait for room");
    }
    done("ring");
}

static void put_pieces(struct piece *piece, int to, int round)
{
    fill(piece->local, rank, round, PART);
    for (size_t at = 0, length = 1; at < PART; at += length, length = length * 5 % 90001 + 1) {
        length = length < PART - at ? length : PART - at;
        must(tutti_put(piece->local + at, length, TUTTI_UINT8, to, piece->window, (size_t)rank * PART + at, comm, NULL),
             "put");
    }
    must(tutti_signal(to, 0, comm, NULL), "signal");
}

static void see_pieces(struct piece *piece, int from, int round)
{
    const tutti_signal_wait_t wait = {from, 0, 1};
    must(tutti_wait_signal(&wait, 1, comm, NULL), "wait");
    done("many puts");
    look(piece->memory + (size_t)from * PART, from, round, PART, "many puts");
}

/* The data of all puts are there before the signal behind them. Those of a group go at the same time, and the rank that
 * waits does nothing else. */
static void many_then_one(struct piece *piece)
{
    put_pieces(piece, (rank + 1) % ranks, 77);
    see_pieces(piece, (rank + ranks - 1) % ranks, 77);
    meet();
    for (int round = 78; round < 83; round++) {
        if (rank == 0) {
            must(tutti_group_start(), "group");
            put_pieces(piece, 1 % ranks, round);
            must(tutti_group_end(), "group end");
        }
        if (rank == 1 % ranks)
            see_pieces(piece, 0, round);
        meet();
    }
}

/* Signals are counted, each number by itself. */
static void counts(void)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 5; i++)
        must(tutti_signal(next, 3, comm, NULL), "signal");
    must(tutti_signal(next, 7, comm, NULL), "signal");
    const tutti_signal_wait_t two[] = {{last, 3, 2}, {last, 7, 1}}, three = {last, 3, 3}, none = {last, 5, 0};
    must(tutti_wait_signal(two, 2, comm, NULL), "two");
    must(tutti_wait_signal(&three, 1, comm, NULL), "three");
    must(tutti_wait_signal(&none, 1, comm, NULL), "none");
    must(tutti_wait_signal(NULL, 0, comm, NULL), "nobody");
    done("counts");
}

/* GPUs of several hosts have no signals before there is a window. */
static void refused(void)
{
    const tutti_signal_wait_t wait = {rank, 0, 1};
    if (tutti_signal(rank, 0, comm, NULL) != TUTTI_INVALID_USAGE ||
        tutti_wait_signal(&wait, 1, comm, NULL) != TUTTI_INVALID_USAGE ||
        !strstr(tutti_get_last_error(NULL), "tutti_window_register()"))
        fail("signals without a window");
}

/* A get sees what this rank has put before; a flush says that it is there. */
static void gets(struct piece *piece)
{
    unsigned char *back = take(PART, false);
    for (int i = 0; i < LENGTHS; i++) {
        int peer = (rank + i) % ranks; /* also itself */
        fill(piece->local, rank, i, lengths[i]);
        clear(back, lengths[i]);
        must(tutti_put(piece->local, lengths[i], TUTTI_UINT8, peer, piece->window, (size_t)rank * PART, comm, NULL),
             "put");
        must(tutti_get(back, lengths[i], TUTTI_UINT8, peer, piece->window, (size_t)rank * PART, comm, NULL), "get");
        done("get");
        look(back, rank, i, lengths[i], "get");
    }
    give(back, false);
    fill(piece->local, rank, 5, PART);
    for (int peer = 0; peer < ranks; peer++)
        must(tutti_put(piece->local, PART, TUTTI_UINT8, peer, piece->window, (size_t)rank * PART, comm, NULL), "put");
    must(tutti_window_flush(-1, piece->window, comm, NULL), "flush");
    meet();
    for (int from = 0; from < ranks; from++)
        look(piece->memory + (size_t)from * PART, from, 5, PART, "flush");
    meet();
}

/* ---- Groups and streams ---- */

/* Everybody with everybody, and messages and a collective beside; waits before puts, which a group sorts out. */
static void groups(struct piece *piece)
{
    tutti_stream_t stream = NULL;
    int *numbers = take(3 * sizeof *numbers, false);
    if (!gpu_wanted())
        must(tutti_stream_create(&stream), "stream");
    for (int round = 0; round < 8; round++) {
        int *one = numbers, *got = one + 1, *sum = one + 2, next = (rank + 1) % ranks,
            last = (rank + ranks - 1) % ranks, after[3];
        size_t length = lengths[(round + 3) % LENGTHS];
        gpu_bytes_copy(one, &rank, sizeof rank);
        fill(piece->local, rank, round, length);
        must(tutti_group_start(), "group");
        for (int peer = 0; peer < ranks; peer++) {
            const tutti_signal_wait_t wait = {peer, 4, 1};
            must(tutti_wait_signal(&wait, 1, comm, stream), "wait");
            must(tutti_put_signal(piece->local, length, TUTTI_UINT8, peer, piece->window, (size_t)rank * PART, 4, comm,
                                  stream),
                 "put");
        }
        must(tutti_send(one, 1, TUTTI_INT32, next, comm, stream), "send");
        must(tutti_recv(got, 1, TUTTI_INT32, last, comm, stream), "recv");
        must(tutti_allreduce(one, sum, 1, TUTTI_INT32, TUTTI_SUM, comm, stream), "allreduce");
        must(tutti_group_end(), "group end");
        if (stream)
            must(tutti_stream_synchronize(stream), "stream");
        else
            done("group");
        for (int from = 0; from < ranks; from++)
            look(piece->memory + (size_t)from * PART, from, round, length, "group");
        gpu_bytes_copy(after, numbers, sizeof after);
        if (after[1] != last || after[2] != ranks * (ranks - 1) / 2)
            fail("beside a group");
        meet();
    }
    if (stream)
        must(tutti_stream_destroy(stream), "stream");
    give(numbers, false);
}

/* Windows of other sizes on each rank; closed with puts under way. */
static void sizes(void)
{
    size_t size = (size_t)rank * 1000, theirs;
    unsigned char *memory = take(size + 1, false), *local = take((size_t)ranks * 1000, false);
    tutti_window_t window;
    must(tutti_window_register(comm, size ? memory : NULL, size, &window), "register");
    for (int peer = 0; peer < ranks; peer++) {
        must(tutti_window_address(comm, window, peer, NULL, &theirs), "size");
        if (theirs != (size_t)peer * 1000)
            fail("a wrong size");
    }
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    fill(local, rank, 9, (size_t)next * 1000);
    must(tutti_put(local, (size_t)next * 1000, TUTTI_UINT8, next, window, 0, comm, NULL), "put");
    if (tutti_put(local, 1, TUTTI_UINT8, next, window, (size_t)next * 1000, comm, NULL) != TUTTI_INVALID_ARGUMENT ||
        tutti_get(local, 2, TUTTI_INT64, next, window, SIZE_MAX - 7, comm, NULL) != TUTTI_INVALID_ARGUMENT ||
        tutti_put(local, 1, TUTTI_UINT8, ranks, window, 0, comm, NULL) != TUTTI_INVALID_ARGUMENT ||
        tutti_signal(next, TUTTI_SIGNALS, comm, NULL) != TUTTI_INVALID_ARGUMENT ||
        tutti_put(local, 1, TUTTI_UINT8, next, (tutti_window_t)&window, 0, comm, NULL) != TUTTI_INVALID_ARGUMENT)
        fail("what is wrong was taken");
    must(tutti_window_deregister(comm, window), "deregister");
    look(memory, last, 9, size, "closed with puts under way");
    gpu_bytes_copy(mirror, memory + size, 1);
    if (tutti_window_deregister(comm, window) != TUTTI_INVALID_ARGUMENT || mirror[0])
        fail("closed twice");
    give(memory, false);
    give(local, false);
}

/* What another thread does with this rank's communicator while this one waits. */
struct grouped {
    tutti_comm_t comm;
    const struct piece *piece;
    int peer;
    sem_t kept, tried;
    tutti_result_t end;
};

static void *keep_in_group(void *of)
{
    struct grouped *grouped = of;
    if (gpu_wanted())
        gpu_select(grouped->peer);
    tutti_group_start();
    tutti_put(grouped->piece->local, 1, TUTTI_UINT8, grouped->peer, grouped->piece->window, 0, grouped->comm, NULL);
    sem_post(&grouped->kept);
    sem_wait(&grouped->tried);
    grouped->end = tutti_group_end();
    return NULL;
}

/* A window stays while an open group keeps a put into it. */
static void kept(const struct piece *piece)
{
    struct grouped grouped = {.comm = comm, .piece = piece, .peer = rank};
    pthread_t thread;
    sem_init(&grouped.kept, 0, 0);
    sem_init(&grouped.tried, 0, 0);
    if (pthread_create(&thread, NULL, keep_in_group, &grouped))
        fail("thread");
    sem_wait(&grouped.kept);
    tutti_result_t closed = tutti_window_deregister(comm, piece->window);
    sem_post(&grouped.tried);
    pthread_join(thread, NULL);
    if (closed != TUTTI_INVALID_USAGE || !strstr(tutti_get_last_error(NULL), "open group are on this window"))
        fail("a window was closed that an open group needs");
    must(grouped.end, "the end of that group");
    done("that group");
    meet();
}

/* Where a peer's memory is mapped it can be stored to; a signal behind that is seen behind that. */
static void addresses(struct piece *piece, bool wanted)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    const tutti_signal_wait_t wait = {last, 6, 1};
    void *own, *theirs;
    size_t size;
    must(tutti_window_address(comm, piece->window, rank, &own, &size), "address");
    must(tutti_window_address(comm, piece->window, next, &theirs, NULL), "address");
    if (own != piece->memory || size != (size_t)ranks * PART || (wanted && !theirs))
        fail("a wrong address");
    fill(piece->local, rank, 3, 1000);
    if (theirs)
        gpu_bytes_copy((char *)theirs + (size_t)rank * PART, piece->local, 1000);
    else
        must(tutti_put(piece->local, 1000, TUTTI_UINT8, next, piece->window, (size_t)rank * PART, comm, NULL), "put");
    must(tutti_signal(next, 6, comm, NULL), "signal");
    must(tutti_wait_signal(&wait, 1, comm, NULL), "wait");
    done("addresses");
    look(piece->memory + (size_t)last * PART, last, 3, 1000, "addresses");
    meet();
}

/* ---- At random, with connections that break ---- */

/* Shuts down one of this process's connections to another process. */
static void break_one(unsigned *seed)
{
    for (int tries = 0; tries < 200; tries++) {
        int fd = rand_r(seed) % 256, type;
        struct sockaddr_storage peer;
        socklen_t length = sizeof type, room = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || type != SOCK_STREAM ||
            getpeername(fd, (struct sockaddr *)&peer, &room) || peer.ss_family == AF_UNIX)
            continue;
        atomic_fetch_add(&broken, shutdown(fd, SHUT_RDWR) == 0);
        return;
    }
}

static void soak(struct piece *piece)
{
    unsigned seed = 17u + (unsigned)rank, same = 5;
    for (int round = 0; round < (getenv("TUTTI_TEST_QUICK") ? ROUNDS / 4 : ROUNDS); round++) {
        int shift = rand_r(&same) % ranks, to = (rank + shift) % ranks, from = (rank + ranks - shift) % ranks;
        size_t length = (size_t)rand_r(&same) % PART, part = length / ((size_t)rand_r(&same) % 9 + 1) + 1;
        if (round % 3) { /* the same buffers again: they have gates */
            length = PART / 2 + PART / 8 * (size_t)(round % 2);
            part = PART / 8;
        }
        const tutti_signal_wait_t wait = {from, round % TUTTI_SIGNALS, 1};
        fill(piece->local, rank, round, length);
        for (size_t at = 0; at < length; at += part)
            must(tutti_put(piece->local + at, part < length - at ? part : length - at, TUTTI_UINT8, to, piece->window,
                           (size_t)rank * PART + at, comm, NULL),
                 "put");
        must(tutti_signal(to, round % TUTTI_SIGNALS, comm, NULL), "signal");
        if (resets && round % 4 == rank % 4)
            break_one(&seed);
        must(tutti_wait_signal(&wait, 1, comm, NULL), "wait");
        done("soak");
        look(piece->memory + (size_t)from * PART, from, round, length, "soak");
        meet();
    }
}

static void work(void)
{
    must(tutti_comm_rank(comm, &rank), "rank");
    must(tutti_comm_count(comm, &ranks), "count");
    mirror = malloc(PART);
    if (!mirror)
        fail("memory");
    apart = gpu_wanted() && getenv("TUTTI_HOSTID");
    if (apart)
        refused();
    else
        counts(); /* before there is any window */
    for (int turn = 0; turn < 2; turn++) {
        struct piece piece = make(turn);
        ring(&piece);
        many_then_one(&piece);
        counts();
        gets(&piece);
        groups(&piece);
        kept(&piece);
        addresses(&piece, (turn && shared) || (gpu_wanted() && !apart));
        soak(&piece);
        unmake(&piece, turn);
        sizes();
    }
    must(tutti_comm_destroy(comm), "destroy");
    free(mirror);
}

/* What a thread makes of itself. */
struct one {
    tutti_unique_id_t id;
    int rank, count;
    tutti_comm_t *comm; /* NULL: it does all that a rank does */
};

static void *one_rank(void *of)
{
    struct one *one = of;
    if (gpu_wanted())
        gpu_select(one->rank);
    tutti_config_t config = gpu_config();
    must(tutti_comm_init_rank(&comm, one->count, &one->id, one->rank, &config), "init");
    if (one->comm)
        *one->comm = comm;
    else
        work();
    return NULL;
}

static void by_threads(int count, tutti_comm_t *comms)
{
    struct one one[MOST_RANKS];
    pthread_t thread[MOST_RANKS];
    must(tutti_get_unique_id(&one[0].id), "id");
    for (int i = 0; i < count; i++) {
        one[i] = (struct one){one[0].id, i, count, comms ? &comms[i] : NULL};
        if (pthread_create(&thread[i], NULL, one_rank, &one[i]))
            fail("thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}

/* A rank of this process that has left is missed. */
static void left_here(void)
{
    tutti_comm_t comms[2];
    const tutti_signal_wait_t wait = {1, 0, 1};
    by_threads(2, comms);
    must(tutti_comm_destroy(comms[1]), "destroy");
    tutti_result_t called = tutti_wait_signal(&wait, 1, comms[0], NULL);
    if (!gpu_wanted())
        must(called, "wait");
    if (tutti_comm_synchronize(comms[0]) == TUTTI_SUCCESS ||
        !strstr(tutti_get_last_error(comms[0]), gpu_wanted() ? "rank 1 has left" : "rank 1 has destroyed"))
        fail("a rank that left was not missed");
    tutti_comm_destroy(comms[0]);
}

int main(int argc, char **argv)
{
    resets = argc > 1 && strcmp(argv[1], "resets") == 0;
    shared = argc > 1 && strcmp(argv[1], "shared") == 0;
    if (argc > 2 && strcmp(argv[1], "threads") == 0) {
        by_threads(atoi(argv[2]), NULL);
        left_here();
        return 0;
    }
    if (gpu_wanted())
        gpu_select(atoi(getenv("TUTTI_LOCAL_RANK")));
    tutti_config_t config = gpu_config();
    must(tutti_comm_init_from_env(&comm, &config), "init");
    work();
    if (resets && !atomic_load(&broken))
        fail("no connection was broken");
    return 0;
}
