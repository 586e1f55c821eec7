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
#define NAP    20000   /* us, in which buffers are mapped */
#define LATE   4000000 /* us: longer than it takes to find ranks that wait for one another in vain */

static tutti_comm_t world, comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static CUstream stream;
static uint32_t *in, *out;

static void alltoall(void)
{
    OK(tutti_alltoall(in, out, WORDS, TUTTI_UINT32, comm, (tutti_stream_t)stream));
}

static void broadcast(void)
{
    OK(tutti_broadcast(in, out, WORDS, TUTTI_UINT32, nranks - 1, comm, (tutti_stream_t)stream));
}

/* Of three ranks the last one's kernel waits for the first, which waits for the middle one, and that for the last. */
static void broadcast_first(void)
{
    OK(tutti_broadcast(in, out, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream));
}

static void gather(void)
{
    OK(tutti_gather(in, out, WORDS, TUTTI_UINT32, 0, comm, (tutti_stream_t)stream));
}

static void pass_on(void)
{
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, (rank + 1) % nranks, comm, (tutti_stream_t)stream));
    OK(tutti_recv(out, WORDS, TUTTI_UINT32, (rank + nranks - 1) % nranks, comm, (tutti_stream_t)stream));
    OK(tutti_group_end());
}

static void allreduce(void)
{
    OK(tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream));
}

static void reduce_scatter(void)
{
    OK(tutti_reduce_scatter(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream));
}

static CUgraphExec capture(void (*issue)(void))
{
    CUgraph graph;
    CUgraphExec exec;
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    issue();
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

/* Until buffers are mapped kernels carry all: that is right, but copies that follow are numbered in different ways. */
static void is_refused(const char *name, void (*issue)(void), enum how how)
{
    char expected[100];
    tutti_result_t result = TUTTI_SUCCESS;
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec exec = capture(issue);
    for (int round = 0; round < ROUNDS && result == TUTTI_SUCCESS; round++) {
        for (int i = 0; i < (how == QUEUED ? 3 : 1); i++)
            if (rank == nranks - 1 && i == 0 && (how != ONCE || round == 0))
                DONE(cu->GraphLaunch(exec, stream));
            else
                issue();
        DONE(cu->StreamSynchronize(stream)); /* over, or given up */
        result = tutti_comm_synchronize(comm);
        usleep(NAP);
    }
    snprintf(expected, sizeof expected, "rank %d replays, or has replayed, from a graph what rank ", nranks - 1);
    if (!result || !strstr(tutti_get_last_error(comm), expected))
        fprintf(stderr, "rank %d: %s: %d, %s\n", rank, name, result, tutti_get_last_error(comm));
    require(result != TUTTI_SUCCESS && strstr(tutti_get_last_error(comm), expected), name);
    tutti_comm_abort(comm);
    DONE(cu->GraphExecDestroy(exec));
    meet();
}

/* least: ranks, of which it is so: a message whose sender alone calls goes by the kernel that the receiver replays. */
static const struct {
    const char *name;
    int least;
    void (*issue)(void);
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
        for (int how = 0; how < (operations[i].issue == broadcast_first ? 1 : HOWS); how++) /* that takes ten seconds */
            if (nranks >= operations[i].least && (!which || strcmp(which, operations[i].name) == 0))
                is_refused(operations[i].name, operations[i].issue, (enum how)how);
}

/* In a ring of messages no copy begins before buffers are mapped, but for those that are staged. */
static void staged(void)
{
    CUdeviceptr base = 0;
    uint32_t *shared_in = in, *shared_out = out;
    DONE(cu->MemAddressReserve(&base, 2 * PIECE, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++)
        map_piece(cu, rank, base + i * PIECE, PIECE, false);
    in = (uint32_t *)(uintptr_t)base;
    out = (uint32_t *)(uintptr_t)(base + PIECE);
    is_refused("messages", pass_on, EACH);
    in = shared_in;
    out = shared_out;
    for (unsigned i = 0; i < 2; i++)
        DONE(cu->MemUnmap(base + i * PIECE, PIECE));
    DONE(cu->MemAddressFree(base, 2 * PIECE));
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

static void to_last_from(int from)
{
    int last = nranks - 1;
    if (rank == last)
        OK(tutti_recv(out, WORDS, TUTTI_UINT32, from, comm, (tutti_stream_t)stream));
    else if (rank == from)
        OK(tutti_send(in, WORDS, TUTTI_UINT32, last, comm, (tutti_stream_t)stream));
}

static void from_middle(void)
{
    to_last_from(1);
}

/* Rank 0 calls a message to the last rank, whose graph's kernel still waits for rank 1; and all wait long for a rank.
 */
static void late(void)
{
    OK(tutti_comm_split(world, 0, rank, &comm, NULL));
    CUgraphExec ring = capture(pass_on), pair = rank == 0 ? NULL : capture(from_middle);
    for (int round = 0; round < ROUNDS; round++) { /* until buffers are mapped */
        to_last_from(0);
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
    to_last_from(0);
    if (rank == nranks - 1)
        expect(0, 0, 1, "what rank 0 has sent meanwhile");
    for (int who = 0; who < nranks; who++) {
        fill(2 + who);
        meet();
        if (rank == who)
            usleep(LATE);
        if (who % 2)
            reduce_scatter();
        else
            DONE(cu->GraphLaunch(ring, stream));
        if (who % 2 == 0)
            expect((rank + nranks - 1) % nranks, 0, 2 + who, "a ring in a graph");
        alltoall();
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

static void few_words(void)
{
    OK(tutti_broadcast(in, out, FEW, TUTTI_UINT32, nranks - 1, comm, (tutti_stream_t)stream));
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
            few_words();
        DONE(cu->StreamSynchronize(stream));
    }
    fill(2);
    meet();
    if (rank != nranks - 1)
        DONE(cu->LaunchHostFunc(stream, nap, NULL));
    few_words();
    OK(tutti_comm_synchronize(comm));
    for (uint32_t i = 0; i < FEW; i++)
        require(out[i] == (uint32_t)nranks * 1000003u + 2 * 70001u + i, "what a rank that is gone has sent");
    OK(tutti_comm_destroy(comm));
    DONE(cu->GraphExecDestroy(exec));
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
    else if (strcmp(what, "staged") == 0)
        staged();
    else
        are_refused(argc > 2 ? argv[2] : NULL);
    meet();
    DONE(cu->StreamDestroy(stream));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_free(found[i]));
    OK(tutti_comm_destroy(world));
    return 0;
}
