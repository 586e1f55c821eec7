/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_replayed TIMES (a number): a graph with every kind of staged call, launched so often, each time with other data;
 * and calls and a second graph between, on another stream. Nothing is waited for between launches but what the check
 * needs. On the stand-in driver, one process a rank, without shared memory or on several hosts.
 *
 * gpu_replayed dies: the last rank does, and the others launch their graphs: streams go on, and all say who it was.
 * gpu_replayed refused: with TUTTI_STAGE_KERNEL=0 no graph holds a staged call.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 24000 /* of each rank's vector, or of all blocks: some slices of 64K */
#define PARTS 6     /* of `out`, one for each call of the graph */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out, *here; /* of the GPU; what is put there, and found there */
static CUstream stream, other;

static uint32_t value(int from, size_t i, unsigned round)
{
    return (uint32_t)from * 1000003u + (uint32_t)i * 7u + round * 40503u;
}

static uint32_t sum(size_t i, unsigned round)
{
    uint32_t all = 0;
    for (int from = 0; from < nranks; from++)
        all += value(from, i, round);
    return all;
}

static void require_word(uint32_t got, uint32_t wanted, const char *what, size_t at, unsigned round)
{
    if (got == wanted)
        return;
    fprintf(stderr, "rank %d: %s, round %u: word %zu is %#x, not %#x\n", rank, what, round, at, got, wanted);
    exit(1);
}

static uint32_t *part(int index)
{
    return out + (size_t)index * WORDS;
}

/* All of a graph, in the order of their results in `out`. */
static void call_all(tutti_stream_t on)
{
    size_t block = WORDS / (size_t)nranks;
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks;
    OK(tutti_allreduce(in, part(0), WORDS, TUTTI_UINT32, TUTTI_SUM, comm, on));
    OK(tutti_alltoall(in, part(1), block, TUTTI_UINT32, comm, on));
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, next, comm, on));
    OK(tutti_recv(part(2), WORDS, TUTTI_UINT32, last, comm, on));
    OK(tutti_group_end());
    OK(tutti_reduce_scatter(in, part(3), block, TUTTI_UINT32, TUTTI_SUM, comm, on));
    OK(tutti_allgather(in, part(4), block, TUTTI_UINT32, comm, on));
    OK(tutti_broadcast(in, part(5), WORDS, TUTTI_UINT32, nranks - 1, comm, on));
}

static CUgraphExec capture(void (*calls)(tutti_stream_t))
{
    CUgraph graph;
    CUgraphExec exec;
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    calls((tutti_stream_t)stream);
    DONE(cu->StreamEndCapture(stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphDestroy(graph));
    return exec;
}

static void fill(unsigned round)
{
    for (size_t i = 0; i < WORDS; i++)
        here[i] = value(rank, i, round);
    DONE(cu->MemcpyAsync((uintptr_t)in, (uintptr_t)here, WORDS * sizeof *here, stream));
    DONE(cu->MemsetD8Async((uintptr_t)out, 0, PARTS * WORDS * sizeof *out, stream));
    DONE(cu->StreamSynchronize(stream));
}

static void check(unsigned round)
{
    size_t block = WORDS / (size_t)nranks;
    int last = (rank + nranks - 1) % nranks;
    DONE(cu->MemcpyAsync((uintptr_t)here, (uintptr_t)out, PARTS * WORDS * sizeof *out, stream));
    DONE(cu->StreamSynchronize(stream));
    for (size_t i = 0; i < WORDS; i++) {
        require_word(here[i], sum(i, round), "allreduce", i, round);
        require_word(here[WORDS + i], value((int)(i / block), (size_t)rank * block + i % block, round), "alltoall", i,
                     round);
        require_word(here[2 * WORDS + i], value(last, i, round), "message", i, round);
        if (i < block)
            require_word(here[3 * WORDS + i], sum((size_t)rank * block + i, round), "reduce-scatter", i, round);
        require_word(here[4 * WORDS + i], value((int)(i / block), i % block, round), "allgather", i, round);
        require_word(here[5 * WORDS + i], value(nranks - 1, i, round), "broadcast", i, round);
    }
}

/* A small one, which is called and replayed between. */
static void call_small(tutti_stream_t on)
{
    OK(tutti_allreduce(part(0), part(0), 10, TUTTI_UINT32, TUTTI_MAX, comm, on));
}

/* To both neighbours, of which one may be on another host: the first of its graph. */
static void pass_on(tutti_stream_t on)
{
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks;
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, next, comm, on));
    OK(tutti_send(in, WORDS, TUTTI_UINT32, last, comm, on));
    OK(tutti_recv(part(1), WORDS, TUTTI_UINT32, next, comm, on));
    OK(tutti_recv(part(2), WORDS, TUTTI_UINT32, last, comm, on));
    OK(tutti_group_end());
}

static void replay_messages(void)
{
    CUgraphExec exec = capture(pass_on);
    for (unsigned round = 0; round < 3; round++) {
        fill(round);
        DONE(cu->GraphLaunch(exec, stream));
        DONE(cu->MemcpyAsync((uintptr_t)here, (uintptr_t)out, 3 * WORDS * sizeof *out, stream));
        DONE(cu->StreamSynchronize(stream));
        for (size_t i = 0; i < WORDS; i++) {
            require_word(here[WORDS + i], value((rank + 1) % nranks, i, round), "next", i, round);
            require_word(here[2 * WORDS + i], value((rank + nranks - 1) % nranks, i, round), "last", i, round);
        }
    }
    DONE(cu->GraphExecDestroy(exec));
}

static void replay(unsigned times)
{
    CUgraphExec all = capture(call_all), small = capture(call_small);
    for (unsigned round = 0; round < times; round++) {
        fill(round);
        DONE(cu->GraphLaunch(all, stream));
        if (round % 4 == 1)
            call_small((tutti_stream_t)stream); /* issued while the graph may not have begun */
        if (round % 4 == 2)
            DONE(cu->GraphLaunch(small, stream));
        if (round % 4 == 3)
            call_small((tutti_stream_t)other); /* behind the graph, by the order of calls */
        DONE(cu->StreamSynchronize(other));
        check(round);
        usleep(round % 16 == 15 ? 3000 : 0); /* in which nobody looks often for kernels */
    }
    OK(tutti_comm_synchronize(comm));
    DONE(cu->GraphExecDestroy(all));
    DONE(cu->GraphExecDestroy(small));
}

static void outlive_the_last(void)
{
    CUgraphExec all = capture(call_all);
    char words[40];
    snprintf(words, sizeof words, "lost rank %d", nranks - 1);
    DONE(cu->GraphLaunch(all, stream));
    OK(tutti_barrier(comm, (tutti_stream_t)stream));
    DONE(cu->StreamSynchronize(stream));
    if (rank == nranks - 1)
        _exit(0);
    for (int i = 0; i < 3; i++)
        DONE(cu->GraphLaunch(all, stream));
    DONE(cu->StreamSynchronize(stream));
    require(tutti_barrier(comm, (tutti_stream_t)stream) == TUTTI_REMOTE_ERROR, "a failure");
    require(strstr(tutti_get_last_error(comm), words) != NULL, words);
    OK(tutti_comm_abort(comm));
    DONE(cu->GraphExecDestroy(all));
}

static void be_refused(void)
{
    CUgraph graph = NULL;
    tutti_result_t result = tutti_comm_synchronize(comm);
    require(result == TUTTI_SUCCESS || result == TUTTI_INVALID_USAGE, "the barrier, or the refusal of a rank ahead");
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    require(tutti_allreduce(in, part(0), WORDS, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream) ==
                TUTTI_INVALID_USAGE,
            "a refusal");
    require(strstr(tutti_get_last_error(comm), "TUTTI_STAGE_KERNEL=0") != NULL, "its cause");
    cu->StreamEndCapture(stream, &graph);
    if (graph)
        DONE(cu->GraphDestroy(graph));
    OK(tutti_comm_abort(comm));
}

static void make_memory(void)
{
    void *found[2] = {NULL, NULL};
    OK(tutti_device_mem_alloc(&found[0], WORDS * sizeof *in));
    OK(tutti_device_mem_alloc(&found[1], PARTS * WORDS * sizeof *out));
    in = found[0];
    out = found[1];
    here = malloc(PARTS * WORDS * sizeof *here);
    require(here != NULL, "memory");
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    DONE(cu->StreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (!local_rank || argc != 2)
        return 2;
    OK(cuda_driver(&cu));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    make_memory();
    OK(tutti_barrier(comm, NULL));
    if (strcmp(argv[1], "dies") == 0) {
        outlive_the_last();
    } else if (strcmp(argv[1], "refused") == 0) {
        be_refused();
    } else {
        replay_messages(); /* first: no graph was captured before */
        replay((unsigned)atoi(argv[1]));
        OK(tutti_comm_destroy(comm));
    }
    free(here);
    return 0;
}
