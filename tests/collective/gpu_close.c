/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_close: two ranks are threads of one process. One gives communicators up while its GPU still waits for the other,
 * which gives them up in another order before it comes: neither may hold up the other, and in the end all memory is
 * free again. And an abort ends while the other rank is stuck in its driver. On the stand-in driver, with
 * TUTTI_EMULATED_BLOCK. gpu_close staged: the first of these, without shared memory; only pinned memory is there then.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 2
#define WORDS 1000
#define LARGE 200000 /* words: a reduction that takes large scratch */

static const struct cuda_driver *cu;
static tutti_unique_id_t id, second_id;
static bool staged;
static pthread_barrier_t all;

struct rank {
    int rank;
    tutti_comm_t stays;
    CUstream stream;
    uint32_t *in, *out;
};

static void meet(void)
{
    pthread_barrier_wait(&all);
}

static size_t free_memory(void)
{
    size_t left = 0, total;
    DONE(cu->MemGetInfo(&left, &total));
    return left;
}

static void reduce(struct rank *me, tutti_comm_t comm, size_t words)
{
    OK(tutti_allreduce(me->in, me->out, words, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)me->stream));
}

static void check(struct rank *me, size_t words)
{
    DONE(cu->StreamSynchronize(me->stream));
    for (size_t i = 0; i < words; i++)
        require(me->out[i] == 2 * i + 1, "the sum is wrong");
}

static tutti_comm_t make(struct rank *me)
{
    tutti_comm_t comm = NULL;
    OK(tutti_comm_split(me->stays, 0, me->rank, &comm, NULL));
    reduce(me, comm, LARGE);
    check(me, LARGE);
    OK(tutti_comm_synchronize(comm));
    return comm;
}

/* Each rank's call is once the first: then nothing is under way. */
static void call_in_turns(struct rank *me)
{
    OK(tutti_comm_synchronize(me->stays));
    for (int first = 0; first < RANKS; first++) {
        for (int turn = 0; turn < RANKS; turn++) {
            meet();
            if ((first + turn) % RANKS == me->rank)
                OK(tutti_barrier(me->stays, (tutti_stream_t)me->stream));
        }
        OK(tutti_comm_synchronize(me->stays));
    }
}

static void in_opposite_order(struct rank *me)
{
    size_t before = free_memory();
    tutti_comm_t goes[2] = {make(me), make(me)};
    require(staged || free_memory() < before, "communicators take memory");
    if (me->rank == 0)
        reduce(me, me->stays, WORDS);
    meet();
    OK(tutti_comm_destroy(goes[me->rank]));
    OK(tutti_comm_destroy(goes[!me->rank]));
    if (me->rank == 1)
        reduce(me, me->stays, WORDS);
    check(me, WORDS);
    call_in_turns(me);
    require(free_memory() == before, "what was given up while the GPU was busy is freed by a later call");
}

static void beside_a_graph(struct rank *me)
{
    CUgraph graph;
    CUgraphExec exec;
    tutti_comm_t goes = make(me);
    meet();
    DONE(cu->StreamBeginCapture(me->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    reduce(me, me->stays, WORDS);
    DONE(cu->StreamEndCapture(me->stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    meet();
    if (me->rank == 0) {
        DONE(cu->GraphLaunch(exec, me->stream));
        OK(tutti_comm_destroy(goes));
    }
    meet();
    if (me->rank == 1) {
        OK(tutti_comm_destroy(goes));
        DONE(cu->GraphLaunch(exec, me->stream));
    }
    check(me, WORDS);
    DONE(cu->GraphExecDestroy(exec));
    DONE(cu->GraphDestroy(graph));
}

static void *free_it(void *memory)
{
    gpu_select(1);
    OK(tutti_device_mem_free(memory));
    return NULL;
}

/* A second communicator, while a call of rank 1 waits for all work of its GPU and holds up the others. */
static void aborted_while_made(struct rank *me)
{
    tutti_comm_t comm;
    pthread_t thread;
    void *memory, *word;
    tutti_config_t config = gpu_config();
    config.blocking = 0;
    DONE(cu->MemHostAlloc(&word, sizeof(uint32_t), 0));
    OK(tutti_device_mem_alloc(&memory, sizeof(uint32_t)));
    *(uint32_t *)word = 0;
    if (me->rank == 1) {
        DONE(cu->StreamWaitValue32(me->stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
        require(pthread_create(&thread, NULL, free_it, memory) == 0, "a thread");
        usleep(20000);
    }
    meet();
    require(tutti_comm_init_rank(&comm, RANKS, &second_id, me->rank, &config) == TUTTI_IN_PROGRESS,
            "an init that does not wait");
    usleep(50000);
    if (me->rank == 0)
        OK(tutti_comm_abort(comm));
    meet();
    if (me->rank == 1) {
        __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        OK(tutti_comm_abort(comm));
    } else {
        OK(tutti_device_mem_free(memory));
    }
    OK(tutti_comm_destroy(comm));
    DONE(cu->StreamSynchronize(me->stream));
    DONE(cu->MemFreeHost(word));
    meet();
}

static void *rank_main(void *argument)
{
    struct rank *me = argument;
    void *memory[2];
    gpu_select(me->rank);
    tutti_config_t config = gpu_config();
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&memory[i], LARGE * sizeof(uint32_t)));
    me->in = memory[0];
    me->out = memory[1];
    for (uint32_t i = 0; i < LARGE; i++)
        me->in[i] = i + (uint32_t)me->rank;
    size_t before = free_memory();
    OK(tutti_comm_init_rank(&me->stays, RANKS, &id, me->rank, &config));
    DONE(cu->StreamCreateWithPriority(&me->stream, CU_STREAM_NON_BLOCKING, 0));
    reduce(me, me->stays, LARGE);
    check(me, LARGE);
    call_in_turns(me);
    in_opposite_order(me);
    if (!staged) {
        aborted_while_made(me);
        beside_a_graph(me);
    }
    OK(tutti_comm_destroy(me->stays));
    meet();
    require(free_memory() == before, "in the end all memory is free");
    DONE(cu->StreamDestroy(me->stream));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_free(memory[i]));
    return NULL;
}

int main(int argc, char **argv)
{
    staged = argc > 1 && strcmp(argv[1], "staged") == 0;
    struct rank ranks[RANKS] = {{.rank = 0}, {.rank = 1}};
    pthread_t thread;
    OK(tutti_get_unique_id(&id));
    OK(tutti_get_unique_id(&second_id));
    OK(cuda_driver(&cu));
    pthread_barrier_init(&all, NULL, RANKS);
    require(pthread_create(&thread, NULL, rank_main, &ranks[1]) == 0, "a thread");
    rank_main(&ranks[0]);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&all);
    return 0;
}
