/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_dynamic: a rank is killed, aborts or closes its communicator between or within exchanges whose lengths only GPUs
 * know. The others' exchanges, called or in a graph, end with right data or with an error that names it. Needs the
 * stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS  3
#define ROWS   3000 /* to each rank: more than slots hold */
#define ROW    64   /* words */
#define ROUNDS 3    /* while all are there */

enum ending { BY_KILL, BY_ABORT, BY_DESTROY, ENDINGS };

static const struct cuda_driver *cu;

static uint32_t *memory(size_t words)
{
    void *out = NULL;
    OK(tutti_device_mem_alloc(&out, words * sizeof(uint32_t)));
    return out;
}

static void leave(enum ending how, tutti_comm_t comm)
{
    if (how == BY_KILL)
        raise(SIGKILL);
    if (how == BY_ABORT)
        OK(tutti_comm_abort(comm));
    OK(tutti_comm_destroy(comm));
}

/* Split r goes to rank r: every word of a window's middle third, on rank 1, is its source's. */
static bool is_right(const uint32_t *recv, int rank)
{
    for (int from = 0; from < RANKS; from++) {
        const uint32_t *mine = recv + ((size_t)from * RANKS + (size_t)rank) * ROWS * ROW;
        for (size_t i = 0; i < (size_t)ROWS * ROW; i++)
            if (mine[i] != (uint32_t)from * 1000 + (uint32_t)i)
                return false;
    }
    return true;
}

static tutti_result_t run_round(tutti_comm_t comm, const tutti_dynamic_t *what, CUgraphExec exec, CUstream stream,
                                const uint32_t *send, uint32_t *recv)
{
    tutti_result_t state = TUTTI_SUCCESS;
    memset(recv, 0, (size_t)RANKS * RANKS * ROWS * ROW * sizeof *recv);
    if (exec)
        DONE(cu->GraphLaunch(exec, stream));
    else
        state = tutti_alltoallv_dynamic(send, recv, TUTTI_UINT32, what, comm, (tutti_stream_t)stream);
    DONE(cu->StreamSynchronize(stream));
    return state == TUTTI_SUCCESS && !exec ? tutti_comm_synchronize(comm) : state;
}

static void drop(CUgraphExec exec, CUgraph graph)
{
    if (!exec)
        return;
    DONE(cu->GraphExecDestroy(exec));
    DONE(cu->GraphDestroy(graph));
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    enum ending how = (enum ending)(family->variant % ENDINGS);
    bool captured = family->variant >= ENDINGS;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstream stream;
    tutti_result_t result = TUTTI_SUCCESS;
    OK(cuda_driver(&cu));
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    uint32_t *send = memory((size_t)RANKS * ROWS * ROW), *recv = memory((size_t)RANKS * RANKS * ROWS * ROW);
    int64_t *counts = (int64_t *)memory(RANKS * 6);
    for (int r = 0; r < RANKS; r++) {
        counts[r] = ROWS;          /* of splits */
        counts[RANKS + r] = 1;     /* indices of a rank */
        counts[2 * RANKS + r] = r; /* which */
        for (size_t i = 0; i < (size_t)ROWS * ROW; i++)
            send[(size_t)r * ROWS * ROW + i] = (uint32_t)rank * 1000 + (uint32_t)i;
    }
    const tutti_dynamic_t what = {
        sizeof what,  ROW,          RANKS,        1,   counts, counts + RANKS, counts + 2 * RANKS, RANKS,
        RANKS * ROWS, RANKS * ROWS, RANKS * ROWS, NULL};
    if (captured) {
        DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(tutti_alltoallv_dynamic(send, recv, TUTTI_UINT32, &what, comm, (tutti_stream_t)stream));
        DONE(cu->StreamEndCapture(stream, &graph));
        DONE(cu->GraphInstantiate(&exec, graph, 0));
    }
    for (int round = 0; result == TUTTI_SUCCESS; round++) {
        if (round == ROUNDS) { /* an abort ends exchanges that others have not ended */
            OK(tutti_barrier(comm, (tutti_stream_t)stream));
            OK(tutti_comm_synchronize(comm));
        }
        if (rank == family->victim && round == ROUNDS) {
            leave(how, comm);
            drop(exec, graph);
            exit(0);
        }
        result = run_round(comm, &what, exec, stream, send, recv);
        bool right = is_right(recv, rank);
        for (time_t limit = time(NULL) + 20; result == TUTTI_SUCCESS && !right && time(NULL) < limit;)
            OK(tutti_comm_get_async_error(comm, &result)); /* what is not right is told to have failed */
        require(right || result != TUTTI_SUCCESS, "an exchange ends well or fails");
        require(round >= ROUNDS || right, "all are there");
    }
    require(strstr(tutti_get_last_error(comm), "rank 1") != NULL, "the sentence names the rank");
    drop(exec, graph);
    tutti_comm_destroy(comm);
}

int main(void)
{
    int failures = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    for (int variant = 0; variant < 2 * ENDINGS; variant++) {
        struct family *family = family_start(RANKS, 1, variant, 1, work);
        bool good = family_wait(family, 60);
        if (!good)
            fprintf(stderr, "variant %d went wrong\n", variant);
        failures += !good;
        family_free(family);
    }
    return failures != 0;
}
