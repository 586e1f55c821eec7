/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_mixing CASE: the last rank replays from a graph what the others call, in operations that must be called by all
 * or replayed by all: every rank fails with a sentence. And graphs and calls beside which a rank is late: nothing
 * fails. On the stand-in driver, one process a rank; small messages by copy engines, small reductions that read.
 */
#include "gpu_piece.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEW    100
#define WORDS  60000
#define PIECE  (2u << 20)
#define ROUNDS 30
#define MANY   500 /* in which buffers are mapped on the busiest machine; more than a call may be ahead of its peer's */
#define AHEAD  100 /* calls: more than one end may be ahead of the other */
#define NAP    20000   /* us */
#define LATE   4000000 /* us: longer than it takes to find ranks that wait for one another in vain */

static tutti_comm_t world, comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static CUstream stream;
static uint32_t *in, *out;

static tutti_result_t alltoall(void)
{
    return tutti_alltoall(in, out, WORDS, TUTTI_UINT32, comm, (tutti_stream_t)stream);
}

static tutti_result_t broadcast(void)
{
    return tutti_broadcast(in, out, WORDS, TUTTI_UINT32, nranks - 1, comm, (tutti_stream_t)stream);
}

/* Of three ranks the last one's kernel waits for the first, which waits for the middle one, and that for the last. */
static tutti_result_t broadcast_first(void)
{
    return tutti_broadcast(in, out, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream);
}

static tutti_result_t gather(void)
{
    return tutti_gather(in, out, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream);
}

static tutti_result_t pass_on(void)
{
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, (rank + 1) % nranks, comm, (tutti_stream_t)stream));
    OK(tutti_recv(out, WORDS, TUTTI_UINT32, (rank + nranks - 1) % nranks, comm, (tutti_stream_t)stream));
    return tutti_group_end();
}

static tutti_result_t send(void)
{
    return rank ? tutti_recv(out, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream)
                : tutti_send(in, WORDS, TUTTI_UINT32, 1, comm, (tutti_stream_t)stream);
}

static tutti_result_t receive(void)
{
    return rank ? tutti_send(in, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream)
                : tutti_recv(out, WORDS, TUTTI_UINT32, 1, comm, (tutti_stream_t)stream);
}

static tutti_result_t allreduce(void)
{
    return tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream);
}

static tutti_result_t reduce_scatter(void)
{
    return tutti_reduce_scatter(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream);
}

static CUgraphExec capture(tutti_result_t (*issue)(void))
{
    CUgraph graph;
    CUgraphExec exec;
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(issue());
    DONE(cu->StreamEndCapture(stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphDestroy(graph));
    return exec;
}

static void meet(void)
{
    OK(tutti_barrier(world, NULL));
    OK(tutti_comm_synchronize(world));
}

/* The last rank replays each time, or once and then calls, or replays and calls what comes behind that at once. */
enum how { EACH, ONCE, QUEUED, HOWS };

/* Until buffers are mapped kernels carry all, rightly, but copies that follow are numbered in different ways. If they
 * never are, the caller is too far ahead at last. */
static void is_refused(const char *name, tutti_result_t (*issue)(void), enum how how)
{
    char expected[100];
    tutti_result_t result = TUTTI_SUCCESS;
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec exec = capture(issue);
    for (int round = 0; round < MANY && result == TUTTI_SUCCESS; round++) {
        for (int i = 0; i < (how == QUEUED ? 3 : 1); i++)
            if (rank == nranks - 1 && i == 0 && (how != ONCE || round == 0))
                DONE(cu->GraphLaunch(exec, stream));
            else if (result == TUTTI_SUCCESS)
                result = issue();
        DONE(cu->StreamSynchronize(stream)); /* over, or given up */
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(comm);
        usleep(NAP);
    }
    snprintf(expected, sizeof expected, "rank %d replays, or has replayed, from a graph what rank ", nranks - 1);
    if (!result || !strstr(tutti_get_last_error(comm), expected))
        fprintf(stderr, "rank %d: %s, %d: %d, %s\n", rank, name, how, result, tutti_get_last_error(comm));
    require(result != TUTTI_SUCCESS && strstr(tutti_get_last_error(comm), expected), name);
    tutti_comm_abort(comm);
    DONE(cu->GraphExecDestroy(exec));
    meet();
}

/* least: ranks, of which it is so: a message whose sender alone calls goes by the kernel that the receiver replays. */
static const struct {
    const char *name;
    int least;
    tutti_result_t (*issue)(void);
} operations[] = {{"alltoall", 2, alltoall},
                  {"broadcast", 2, broadcast},
                  {"broadcast from the first", 3, broadcast_first},
                  {"gather", 2, gather},
                  {"messages", 2, pass_on},
                  {"allreduce", 2, allreduce},
                  {"reduce-scatter", 2, reduce_scatter}};

static void are_refused(const char *which)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (int how = 0; how < (operations[i].issue == broadcast_first ? 1 : HOWS); how++) /* which takes 10 s */
            if (nranks >= operations[i].least && (!which || strcmp(which, operations[i].name) == 0))
                is_refused(operations[i].name, operations[i].issue, (enum how)how);
}

/* With buffers that nobody ever maps. */
static void never_mapped(void (*run)(void))
{
    CUdeviceptr base = 0;
    uint32_t *shared_in = in, *shared_out = out;
    DONE(cu->MemAddressReserve(&base, 2 * PIECE, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++)
        map_piece(cu, rank, base + i * PIECE, PIECE, false);
    in = (uint32_t *)(uintptr_t)base;
    out = (uint32_t *)(uintptr_t)(base + PIECE);
    run();
    in = shared_in;
    out = shared_out;
    for (unsigned i = 0; i < 2; i++)
        DONE(cu->MemUnmap(base + i * PIECE, PIECE));
    DONE(cu->MemAddressFree(base, 2 * PIECE));
}

/* In a ring of messages no copy begins before buffers are mapped, but for those that are staged. */
static void staged(void)
{
    is_refused("messages", pass_on, EACH);
}

/* Though something was captured, a host that is late is waited for. */
static void is_waited_for(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec exec = capture(send);
    if (rank)
        usleep(LATE / 2);
    for (int i = 0; i < AHEAD; i++)
        OK(send());
    OK(tutti_comm_synchronize(comm));
    DONE(cu->GraphExecDestroy(exec));
    OK(tutti_comm_destroy(comm));
}

/* Kernels carry all, and well, until the caller is too far ahead. */
static void unmapped(void)
{
    is_waited_for();
    is_refused("messages", pass_on, EACH);
    is_refused("sends", send, EACH);
    is_refused("receives", receive, EACH);
    is_refused("broadcast", broadcast, QUEUED);
}

/* ---- What goes well ---- */

static void fill(int round)
{
    DONE(cu->StreamSynchronize(stream));
    for (size_t i = 0; i < (size_t)nranks * WORDS; i++) {
        in[i] = (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 70001u + (uint32_t)i;
        out[i] = 0;
    }
}

static void expect(int from, size_t at, int round, const char *what)
{
    DONE(cu->StreamSynchronize(stream));
    for (size_t i = 0; i < WORDS; i++)
        require(out[i] == (uint32_t)(from + 1) * 1000003u + (uint32_t)round * 70001u + (uint32_t)(at + i), what);
}

static tutti_result_t to_last_from(int from)
{
    int last = nranks - 1;
    if (rank == last)
        return tutti_recv(out, WORDS, TUTTI_UINT32, from, comm, (tutti_stream_t)stream);
    return rank == from ? tutti_send(in, WORDS, TUTTI_UINT32, last, comm, (tutti_stream_t)stream) : TUTTI_SUCCESS;
}

static tutti_result_t from_middle(void)
{
    return to_last_from(1);
}

/* Rank 0 calls a message to the last rank, whose graph's kernel still waits for rank 1; and all wait long for a rank.
 */
static void late(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec ring = capture(pass_on), pair = rank == 0 ? NULL : capture(from_middle);
    for (int round = 0; round < ROUNDS; round++) { /* until buffers are mapped */
        OK(to_last_from(0));
        OK(tutti_comm_synchronize(comm));
        usleep(NAP);
    }
    fill(1);
    meet();
    if (rank == 1)
        usleep(LATE);
    if (pair)
        DONE(cu->GraphLaunch(pair, stream));
    if (rank == nranks - 1)
        expect(1, 0, 1, "what the middle rank has sent in a graph");
    OK(to_last_from(0));
    if (rank == nranks - 1)
        expect(0, 0, 1, "what rank 0 has sent meanwhile");
    for (int who = 0; who < nranks; who++) {
        fill(2 + who);
        meet();
        if (rank == who)
            usleep(LATE);
        if (who % 2)
            OK(reduce_scatter());
        else
            DONE(cu->GraphLaunch(ring, stream));
        if (who % 2 == 0)
            expect((rank + nranks - 1) % nranks, 0, 2 + who, "a ring in a graph");
        OK(alltoall());
        OK(tutti_comm_synchronize(comm));
        expect(0, (size_t)rank * WORDS, 2 + who, "an exchange");
    }
    if (pair)
        DONE(cu->GraphExecDestroy(pair));
    DONE(cu->GraphExecDestroy(ring));
    OK(tutti_comm_destroy(comm));
}

static void nap(void *unused)
{
    (void)unused;
    usleep(300000);
}

static tutti_result_t few_words(void)
{
    return tutti_broadcast(in, out, FEW, TUTTI_UINT32, nranks - 1, comm, (tutti_stream_t)stream);
}

/* The last rank has replayed what the others have called, so it has called less, and is gone before they take what it
 * has sent at last. */
static void leaves(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec exec = capture(few_words);
    fill(1);
    meet();
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == nranks - 1)
            DONE(cu->GraphLaunch(exec, stream));
        else
            OK(few_words());
        DONE(cu->StreamSynchronize(stream));
    }
    fill(2);
    meet();
    if (rank != nranks - 1)
        DONE(cu->LaunchHostFunc(stream, nap, NULL));
    OK(few_words());
    OK(tutti_comm_synchronize(comm));
    for (uint32_t i = 0; i < FEW; i++)
        require(out[i] == (uint32_t)nranks * 1000003u + 2 * 70001u + i, "what a rank that is gone has sent");
    OK(tutti_comm_destroy(comm));
    DONE(cu->GraphExecDestroy(exec));
}

static tutti_result_t few_then_many(void)
{
    OK(few_words());
    OK(few_words()); /* comes behind the first, and so holds up the queue */
    return reduce_scatter();
}

/* The others wait on their GPUs for the first part of what the last rank captures a little later. They need scratch for
 * the rest, without which the capture does not end. */
static void first_use(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    fill(1);
    meet();
    if (rank != nranks - 1) {
        OK(few_then_many());
        DONE(cu->StreamSynchronize(stream));
    } else {
        usleep(NAP);
        CUgraphExec exec = capture(few_then_many);
        DONE(cu->GraphLaunch(exec, stream));
        DONE(cu->StreamSynchronize(stream));
        DONE(cu->GraphExecDestroy(exec));
    }
    uint32_t first = (uint32_t)rank * WORDS, sum = (uint32_t)nranks * (70001u + first);
    for (int from = 0; from < nranks; from++)
        sum += (uint32_t)(from + 1) * 1000003u;
    for (uint32_t i = 0; i < WORDS; i++)
        require(out[i] == sum + (uint32_t)nranks * i, "a sum that some captured and some called");
    OK(tutti_comm_destroy(comm));
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK"), *what = argc > 1 ? argv[1] : "";
    void *found[2] = {NULL, NULL};
    if (!local_rank)
        return 2;
    OK(cuda_driver(&cu));
    gpu_select(atoi(local_rank));
    gpu_join(&world, &rank, &nranks);
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], (size_t)nranks * WORDS * sizeof *in));
    in = found[0];
    out = found[1];
    if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "leaves") == 0)
        leaves();
    else if (strcmp(what, "first use") == 0)
        first_use();
    else if (strcmp(what, "staged") == 0)
        never_mapped(staged);
    else if (strcmp(what, "unmapped") == 0)
        never_mapped(unmapped);
    else
        are_refused(argc > 2 ? argv[2] : NULL);
    meet();
    DONE(cu->StreamDestroy(stream));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_free(found[i]));
    OK(tutti_comm_destroy(world));
    return 0;
}
