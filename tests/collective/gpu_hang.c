/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_hang SCENE FOLDER: ranks on the stand-in driver's GPUs get stuck in a scene, until the file "go" is in the
 * folder. Then all goes on, and is right. For gpu_trace_test.py, which meanwhile asks tutti trace what it sees. One
 * process a rank: tutti run -n 3 -- gpu_hang late /tmp/here.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS 1000
#define MANY  700    /* more than a box has places for */
#define LARGE 400000 /* words: a bulk reduction */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static const char *folder;
static uint32_t *in, *out;

static void wait_for(const char *file)
{
    char path[200];
    time_t end = time(NULL) + 200;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    while (access(path, F_OK) != 0) {
        require(time(NULL) < end, "no word came to go on");
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
}

static void wait_to_go(void)
{
    wait_for("go");
}

static uint32_t *memory(size_t words)
{
    void *made = NULL;
    OK(tutti_device_mem_alloc(&made, words * sizeof(uint32_t)));
    return made;
}

static void reduce_on(size_t words, CUstream stream)
{
    OK(tutti_allreduce(in, out, words, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)stream));
}

static void check(size_t words)
{
    OK(tutti_comm_synchronize(comm));
    for (size_t i = 0; i < words; i++)
        require(out[i] == (uint32_t)nranks * (uint32_t)i + (uint32_t)(nranks * (nranks - 1) / 2), "the sum is wrong");
}

/* Rank 1 computes and does not come. */
static void late(void)
{
    if (rank == 1)
        wait_to_go();
    reduce_on(WORDS, NULL);
    check(WORDS);
}

/* Rank 2's GPU has something else to do first. */
static void busy_gpu(void)
{
    CUstream stream = NULL;
    void *word = NULL;
    CUdeviceptr address = 0;
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    DONE(cu->MemHostAlloc(&word, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(word, 0, 64);
    DONE(cu->MemHostGetDevicePointer(&address, word, 0));
    if (rank == 2)
        DONE(cu->StreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    reduce_on(WORDS, stream);
    if (rank == 2) {
        wait_to_go();
        __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    }
    check(WORDS);
    DONE(cu->StreamDestroy(stream));
    DONE(cu->MemFreeHost(word));
}

/* Rank 0 waits for what rank 1 does not send; rank 2 has another partner, itself. */
static void unsent(void)
{
    if (rank == 0)
        OK(tutti_recv(out, WORDS, TUTTI_UINT32, 1, comm, NULL));
    if (rank == 1) {
        wait_to_go();
        OK(tutti_send(in, WORDS, TUTTI_UINT32, 0, comm, NULL));
    }
    OK(tutti_comm_synchronize(comm));
    require(rank != 0 || out[WORDS - 1] == WORDS, "what was received is wrong");
    if (rank == 2)
        wait_to_go();
}

/* Rank 0's stream waits for a signal that rank 1 does not send. */
static void unsignalled(void)
{
    const tutti_signal_wait_t wait = {1, 3, 1};
    if (rank == 1) {
        wait_to_go();
        OK(tutti_signal(0, 3, comm, NULL));
    }
    if (rank == 0)
        OK(tutti_wait_signal(&wait, 1, comm, NULL));
    reduce_on(WORDS, NULL);
    check(WORDS);
}

/* A ring of large messages that rank 2 has not joined. */
static void broken_ring(void)
{
    if (rank == 2)
        wait_to_go();
    OK(tutti_group_start());
    OK(tutti_send(in, LARGE, TUTTI_UINT32, (rank + 1) % nranks, comm, NULL));
    OK(tutti_recv(out, LARGE, TUTTI_UINT32, (rank + nranks - 1) % nranks, comm, NULL));
    OK(tutti_group_end());
    OK(tutti_comm_synchronize(comm));
    wait_to_go(); /* rank 1 may have done its part */
}

/* Rank 1 gives the communicator up, in which the others wait. */
static void given_up(void)
{
    if (rank == 1) {
        wait_to_go();
        OK(tutti_comm_abort(comm));
    } else {
        bool begun = tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS;
        require(!begun || tutti_comm_synchronize(comm) != TUTTI_SUCCESS, "there was an end without rank 1");
    }
    wait_for("end");
}

/* Nobody is stuck: many operations, a graph, large scratch; the trace must agree with what is printed here. */
static void life(void)
{
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    size_t device = 0, host = 0;
    for (int i = 0; i < MANY; i++)
        reduce_on(1, NULL);
    check(1);
    reduce_on(LARGE, NULL);
    check(LARGE);
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    DONE(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    reduce_on(WORDS, stream);
    reduce_on(WORDS, stream);
    DONE(cu->StreamEndCapture(stream, &graph));
    DONE(cu->GraphInstantiate(&exec, graph, 0));
    DONE(cu->GraphLaunch(exec, stream));
    DONE(cu->StreamSynchronize(stream));
    OK(tutti_barrier(comm, NULL));
    check(WORDS);
    OK(tutti_comm_memory(comm, &device, &host));
    printf("memory %d %zu %zu\n", rank, device, host);
    fflush(stdout);
    wait_to_go();
    DONE(cu->GraphExecDestroy(exec));
    DONE(cu->GraphDestroy(graph));
    DONE(cu->StreamDestroy(stream));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(void);
    } scenes[] = {{"late", late},        {"busy", busy_gpu},  {"unsent", unsent}, {"unsignalled", unsignalled},
                  {"ring", broken_ring}, {"abort", given_up}, {"life", life}};
    require(argc == 3, "gpu_hang SCENE FOLDER");
    folder = argv[2];
    signal(SIGTERM,
           SIG_IGN); /* when a rank is killed the launcher wants all to end: they shall note first whom they lost */
    gpu_select(atoi(getenv("TUTTI_RANK")));
    tutti_config_t config = gpu_config();
    config.name = "world";
    OK(tutti_comm_init_from_env(&comm, &config));
    OK(tutti_comm_rank(comm, &rank));
    OK(tutti_comm_count(comm, &nranks));
    require(cuda_driver(&cu) == TUTTI_SUCCESS, "no driver");
    in = memory(LARGE);
    out = memory(LARGE);
    for (uint32_t i = 0; i < LARGE; i++)
        in[i] = i + (uint32_t)rank;
    reduce_on(WORDS, NULL);
    check(WORDS);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, argv[1]) == 0)
            scenes[i].play();
    OK(tutti_device_mem_free(in));
    OK(tutti_device_mem_free(out));
    OK(tutti_comm_destroy(comm));
    return 0;
}
