/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: puts, signals and waits between processes, in groups, in graphs and between other work; with connections
 * that break, where hosts are joined by some. */
#include "soak.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PART ((size_t)400000) /* bytes of a window, for each rank that puts */

struct wait {
    int count, peer, signal, context;
};
ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, struct wait *waits, ncclComm_t comm, cudaStream_t stream);

/* What one rank has for it. */
struct putting {
    ncclComm_t comm;
    ncclWindow_t window;
    CUstream stream;
    char *memory, *local, *here;
    int rank, size;
};

/* As drawn, for all ranks. */
struct round {
    int shift, signal;
    size_t bytes, piece;
    bool grouped, with_sum;
    int replays; /* of a graph that holds it; 0: it is called */
    uint64_t key;
};

static void fill(char *data, uint64_t key, int from, size_t bytes)
{
    uint64_t hash = data_hash(key, (uint64_t)from);
    for (size_t at = 0; at < bytes; at++)
        data[at] = (char)((hash >> at % 8 * 8) + at / 8);
}

static struct round draw(struct actor *actor)
{
    struct round round = {.shift = (int)roll(actor, GPUS * 3), .signal = (int)roll(actor, 8)};
    uint32_t how = roll(actor, 4), more = roll(actor, (uint32_t)PART);
    round.bytes = 1 + more % (how == 0 ? 60 : how == 1 ? 3000 : PART - 1);
    round.piece = 1 + round.bytes / (1 + roll(actor, 7));
    round.grouped = roll(actor, 2);
    round.with_sum = round.grouped && roll(actor, 2);
    round.replays = run.no_graphs || getenv("SOAK_HOSTS") ? 0 : (int)roll(actor, 4);
    round.key = data_hash(run.seed ^ 0x9075, actor->rolls);
    return round;
}

/* A connection of this process to another one, if the first numbers tried have any. */
static void break_one(uint64_t key)
{
    for (int tries = 0; tries < 100; tries++) {
        int fd = (int)(data_hash(key, (uint64_t)tries) % 256), type;
        struct sockaddr_storage peer;
        socklen_t length = sizeof type, room = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || type != SOCK_STREAM ||
            getpeername(fd, (struct sockaddr *)&peer, &room) || peer.ss_family == AF_UNIX)
            continue;
        shutdown(fd, SHUT_RDWR);
        return;
    }
}

static void put_all(struct actor *actor, const struct putting *mine, const struct round *round, int to)
{
    for (size_t at = 0; at < round->bytes; at += round->piece) {
        size_t bytes = round->bytes - at < round->piece ? round->bytes - at : round->piece;
        DONE(ncclPutSignal(mine->local + at, bytes, ncclUint8, to, mine->window, (size_t)mine->rank * PART + at,
                           round->signal, 0, 0, mine->comm, (cudaStream_t)mine->stream));
    }
}

static void await(struct actor *actor, const struct putting *mine, int from, int signal, int count)
{
    struct wait wait = {count, from, signal, 0};
    DONE(ncclWaitSignal(1, &wait, mine->comm, (cudaStream_t)mine->stream));
}

static void look(struct actor *actor, const struct putting *mine, const struct round *round, int from)
{
    char *expected = malloc(round->bytes);
    if (!expected)
        wrong(actor, "no memory", 0);
    DONE(cu.StreamSynchronize(mine->stream));
    DONE(cu.MemcpyDtoH(mine->here, (CUdeviceptr)(uintptr_t)(mine->memory + (size_t)from * PART), round->bytes));
    fill(expected, round->key, from, round->bytes);
    if (memcmp(expected, mine->here, round->bytes) != 0)
        wrong(actor, "what was put is wrong", from);
    free(expected);
    atomic_fetch_add(&run.shared->tasks, 1);
    atomic_fetch_add(&run.shared->bytes, round->bytes);
}

/* The wait comes before the puts in a group, which sorts that out. */
static void put_and_await(struct actor *actor, const struct putting *mine, const struct round *round, int to, int from)
{
    int pieces = (int)((round->bytes + round->piece - 1) / round->piece);
    void *sum = mine->memory + (size_t)mine->size * PART;
    if (round->grouped)
        DONE(ncclGroupStart());
    if (round->grouped)
        await(actor, mine, from, round->signal, pieces);
    put_all(actor, mine, round, to);
    if (round->with_sum)
        DONE(ncclAllReduce(sum, sum, 16, ncclUint32, ncclMax, mine->comm, (cudaStream_t)mine->stream));
    if (round->grouped)
        DONE(ncclGroupEnd());
    if (getenv("SOAK_HOSTS") && data_hash(round->key, (uint64_t)mine->rank) % 3 == 0)
        break_one(round->key);
    if (!round->grouped)
        await(actor, mine, from, round->signal, pieces);
}

static CUgraphExec capture_round(struct actor *actor, const struct putting *mine, const struct round *round, int to,
                                 int from)
{
    CUgraphExec exec;
    CUgraph made;
    DONE(cu.StreamBeginCapture(mine->stream, 2));
    put_and_await(actor, mine, round, to, from);
    DONE(cu.StreamEndCapture(mine->stream, &made));
    DONE(cu.GraphInstantiate(&exec, made, 0));
    DONE(cu.GraphDestroy(made));
    return exec;
}

static void play_round(struct actor *actor, const struct putting *mine, const struct round *round)
{
    int shift = round->shift % mine->size, to = (mine->rank + shift) % mine->size,
        from = (mine->rank + mine->size - shift) % mine->size;
    note(actor, "puts %zu bytes in pieces of %zu, from rank %d to %d, %d replays", round->bytes, round->piece,
         mine->rank, to, round->replays);
    fill(mine->here, round->key, mine->rank, round->bytes);
    DONE(cu.MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)mine->local, mine->here, round->bytes, mine->stream));
    CUgraphExec exec = round->replays ? capture_round(actor, mine, round, to, from) : NULL;
    for (int i = 0; i < round->replays || i == 0; i++) {
        if (exec)
            DONE(cu.GraphLaunch(exec, mine->stream));
        else
            put_and_await(actor, mine, round, to, from);
        look(actor, mine, round, from);
        DONE(cu.MemsetD8Async((CUdeviceptr)(uintptr_t)(mine->memory + (size_t)from * PART), 0, round->bytes,
                              mine->stream));
        DONE(ncclSignal(from, round->signal, 0, 0, mine->comm, (cudaStream_t)mine->stream)); /* it may put again */
        await(actor, mine, to, round->signal, 1);
    }
    DONE(cu.StreamSynchronize(mine->stream));
    if (exec)
        DONE(cu.GraphExecDestroy(exec));
}

/* Where windows cannot be, none of the ranks has one. The signal is waited for: one left over ends a later wait too
 * early. */
static bool has_window(struct actor *actor, const struct putting *mine)
{
    bool has = ncclPutSignal(mine->local, 0, ncclUint8, mine->rank, mine->window, 0, 0, 0, 0, mine->comm,
                             (cudaStream_t)mine->stream) == ncclSuccess;
    if (has)
        await(actor, mine, mine->rank, 0, 1);
    return has;
}

void puts_play(struct actor *actor, int which, int stream)
{
    const struct family *family = &actor->family[which];
    int gpu = actor->first, rounds = 1 + (int)roll(actor, 6);
    struct putting mine = {.rank = family->rank[gpu], .size = family->size[gpu], .comm = actor->comm[which][gpu]};
    bool takes_part = plays(actor, family, gpu);
    void *memory = NULL, *local = NULL;
    size_t all = (size_t)mine.size * PART + 64;
    if (takes_part) {
        select_gpu(actor, gpu);
        mine.stream = actor->gpu[gpu].stream[stream];
        mine.here = malloc(PART);
        DONE(ncclMemAlloc(&memory, all));
        DONE(ncclMemAlloc(&local, PART));
        mine.memory = memory;
        mine.local = local;
        note(actor, "registers a window of communicator %d", which);
        DONE(ncclCommWindowRegister(mine.comm, memory, all, &mine.window, NCCL_WIN_COLL_SYMMETRIC));
        if (!mine.here)
            wrong(actor, "no memory", 0);
    }
    bool can = takes_part && has_window(actor, &mine);
    for (int i = 0; i < rounds; i++) {
        struct round round = draw(actor);
        if (stream == 0)
            round.replays = 0; /* the legacy stream cannot be captured */
        if (can)
            play_round(actor, &mine, &round);
    }
    if (!takes_part)
        return;
    DONE(cu.StreamSynchronize(mine.stream));
    DONE(ncclCommWindowDeregister(mine.comm, mine.window));
    DONE(ncclMemFree(memory));
    DONE(ncclMemFree(local));
    free(mine.here);
}
