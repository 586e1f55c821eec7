/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_staged: behind each staged call the program waits inside the driver for all work of its GPU, by calls that hold
 * up every other thread's. What the call still needs must not depend on the driver then. On the stand-in driver with
 * TUTTI_EMULATED_BLOCK=1, one process a rank: tutti run -n 3 -- gpu_staged. On real GPUs, too, also one for all ranks.
 *
 * gpu_staged refused: a rank whose call is refused stands in nobody's way. With TUTTI_ALGO=ring.
 *
 * gpu_staged gone HOW CHANNELS: what a rank has finished before it aborts, or is gone in another way, ends well on the
 * others. The same, with TUTTI_STAGE_SLICE=64K.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST   100000 /* words of a block: many slices of TUTTI_STAGE_SLICE=64K */
#define SLICE  16384  /* words of a slice */
#define ROUNDS 3      /* a first launch, a slice's second use, a change of the stream */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out;           /* of the GPU: nranks blocks of MOST words each */
static uint32_t *in_here, *out_here; /* what is put there, and what is found there */
static tutti_stream_t other;         /* beside the default one */

static uint32_t value(int from, size_t i, unsigned round)
{
    return (uint32_t)from * 1000003u + (uint32_t)i * 7u + round * 40503u;
}

static void copy(void *to, const void *from, size_t words)
{
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, words * sizeof(uint32_t), (CUstream)other));
    DONE(cu->StreamSynchronize((CUstream)other));
}

static void fill(size_t words, unsigned round)
{
    for (size_t i = 0; i < words; i++)
        in_here[i] = value(rank, i, round);
    memset(out_here, 0, words * sizeof *out_here);
    copy(in, in_here, words);
    copy(out, out_here, words);
}

/* After all work of the GPU. */
static void look(size_t words)
{
    DONE(cu->CtxSynchronize());
    copy(out_here, out, words);
}

/* Each of these waits for all work of the context, and calls of other threads wait for that one. */
static void wait_in_driver(unsigned round)
{
    static CUdeviceptr spare;
    if (spare)
        DONE(cu->MemFree(spare));
    spare = 0;
    if (round % 2)
        DONE(cu->MemAlloc(&spare, 4096)); /* the next wait is for this one's end */
    else
        DONE(cu->CtxSynchronize());
}

static void require_word(uint32_t got, uint32_t wanted, const char *what, size_t at, unsigned round)
{
    if (got == wanted)
        return;
    fprintf(stderr, "rank %d: %s, round %u: word %zu is %#x, not %#x\n", rank, what, round, at, got, wanted);
    exit(1);
}

static void reduce(size_t words, unsigned round, tutti_stream_t stream)
{
    fill(words, round);
    OK(tutti_allreduce(in, out, words, TUTTI_UINT32, TUTTI_SUM, comm, stream));
    wait_in_driver(round);
    look(words);
    for (size_t i = 0; i < words; i++) {
        uint32_t sum = 0;
        for (int from = 0; from < nranks; from++)
            sum += value(from, i, round);
        require_word(out_here[i], sum, "allreduce", i, round);
    }
}

static void exchange(size_t words, unsigned round, tutti_stream_t stream)
{
    fill((size_t)nranks * words, round);
    OK(tutti_alltoall(in, out, words, TUTTI_UINT32, comm, stream));
    wait_in_driver(round);
    look((size_t)nranks * words);
    for (size_t i = 0; i < (size_t)nranks * words; i++)
        require_word(out_here[i], value((int)(i / words), (size_t)rank * words + i % words, round), "alltoall", i,
                     round);
}

/* To the next rank, from the last. */
static void pass_on(size_t words, unsigned round, tutti_stream_t stream)
{
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks;
    fill(words, round);
    OK(tutti_group_start());
    OK(tutti_send(in, words, TUTTI_UINT32, next, comm, stream));
    OK(tutti_recv(out, words, TUTTI_UINT32, last, comm, stream));
    OK(tutti_group_end());
    wait_in_driver(round);
    look(words);
    for (size_t i = 0; i < words; i++)
        require_word(out_here[i], value(last, i, round), "message", i, round);
}

/* Several operations under way on two streams, then one wait for all of them. */
static void pile_up(unsigned round)
{
    fill(MOST, round);
    for (int i = 0; i < 4; i++) {
        OK(tutti_allreduce(in, out, MOST, TUTTI_UINT32, TUTTI_MAX, comm, i % 2 ? other : NULL));
        OK(tutti_broadcast(out, out, MOST, TUTTI_UINT32, i % nranks, comm, i % 2 ? other : NULL));
    }
    OK(tutti_barrier(comm, other));
    look(MOST);
    for (size_t i = 0; i < MOST; i++) {
        uint32_t most = 0;
        for (int from = 0; from < nranks; from++)
            most = value(from, i, round) > most ? value(from, i, round) : most;
        require_word(out_here[i], most, "several operations", i, round);
    }
}

static void make_memory(void)
{
    size_t bytes = (size_t)nranks * MOST * sizeof(uint32_t);
    void *found[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], bytes));
    in = found[0];
    out = found[1];
    in_here = malloc(bytes);
    out_here = malloc(bytes);
    require(in_here && out_here, "memory");
}

static int device_of(const char *local_rank)
{
    int count = 0;
    OK(cuda_driver(&cu));
    DONE(cu->Init(0));
    DONE(cu->DeviceGetCount(&count));
    require(count > 0, "a device");
    return atoi(local_rank) % count;
}

static void make_other_stream(void)
{
    CUstream made;
    DONE(cu->StreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
    other = (tutti_stream_t)made;
}

/* Rests, and works on as before. */
static void rest(void)
{
    size_t device = 1, host;
    OK(tutti_comm_suspend(comm));
    OK(tutti_comm_memory(comm, &device, &host));
    require(device == 0, "nothing is held of the device");
    require(tutti_barrier(comm, other) == TUTTI_INVALID_USAGE && strstr(tutti_get_last_error(comm), "suspended"),
            "a call on what is suspended");
    OK(tutti_comm_resume(comm));
}

static void wait_everywhere(void)
{
    make_memory();
    make_other_stream();
    for (unsigned round = 0; round < ROUNDS; round++) {
        tutti_stream_t stream = round % 2 ? other : NULL;
        for (size_t words = 10; words <= MOST; words *= 100) {
            reduce(words, round, stream);
            exchange(words, round, stream);
            pass_on(words, round, stream);
        }
        pile_up(round);
        if (round == 0)
            rest();
    }
    DONE(cu->StreamDestroy((CUstream)other));
    free(in_here);
    free(out_here);
}

static void await_failure(void)
{
    tutti_result_t failure = TUTTI_SUCCESS;
    while (failure == TUTTI_SUCCESS) {
        usleep(1000);
        OK(tutti_comm_get_async_error(comm, &failure));
    }
}

/*
 * Rank 0 finishes a broadcast and aborts. Rank 1, by which it would go on to rank 2, has not called it yet: another
 * call of it is refused, and it waits for rank 2 elsewhere. Rank 2 must not wait for rank 1 for ever.
 */
static void refuse_a_relay(void)
{
    tutti_config_t host = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t talk;
    uint32_t word_here[1] = {0};
    void *word = NULL;
    host.device = TUTTI_HOST;
    OK(tutti_comm_split(comm, 0, rank, &talk, &host));
    OK(tutti_device_mem_alloc(&word, sizeof(uint32_t)));
    OK(tutti_barrier(comm, NULL));
    OK(tutti_comm_synchronize(comm));
    if (rank == 1)
        await_failure();
    tutti_result_t result = rank == 1 ? tutti_send(word, 1, TUTTI_UINT32, 2, comm, NULL)
                                      : tutti_broadcast(word, word, 1, TUTTI_UINT32, 0, comm, NULL);
    require((result == TUTTI_SUCCESS) == (rank != 1), "a call");
    if (rank == 2)
        OK(tutti_send(word_here, 1, TUTTI_UINT32, 0, talk, NULL));
    if (rank == 0)
        OK(tutti_recv(word_here, 1, TUTTI_UINT32, 2, talk, NULL)); /* both have called */
    if (rank != 1)
        require((tutti_comm_synchronize(comm) == TUTTI_SUCCESS) == (rank == 0), "its end");
    usleep(rank == 0 ? 100000 : 0); /* in which rank 2 comes to wait */
    if (rank == 0)
        OK(tutti_comm_abort(comm));
    OK(tutti_barrier(talk, NULL));
    OK(tutti_comm_synchronize(talk));
    OK(tutti_comm_destroy(talk));
}

/* The other stream waits until the word is stored. */
static _Atomic uint32_t *hold_stream(void)
{
    void *word = NULL;
    CUdeviceptr address = 0;
    DONE(cu->MemHostAlloc(&word, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(word, 0, 64);
    DONE(cu->MemHostGetDevicePointer(&address, word, 0));
    DONE(cu->StreamWaitValue32((CUstream)other, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    return word;
}

static bool is(const char *how, const char *one)
{
    return strcmp(how, one) == 0;
}

static bool ends_process(const char *how)
{
    return is(how, "exits") || is(how, "dies");
}

static void end_rank_0(const char *how, tutti_comm_t talk)
{
    OK(tutti_comm_synchronize(comm));
    /* Rank 2 calls meanwhile what it calls before. What a process has given to TCP may be lost if the process ends
     * before its peer has read that. */
    usleep(ends_process(how) ? 1000000 : 200000);
    if (is(how, "exits"))
        exit(0);
    if (is(how, "dies"))
        _exit(0);
    OK(is(how, "closes") ? tutti_comm_destroy(comm) : tutti_comm_abort(comm));
    OK(tutti_barrier(talk, NULL));
    OK(tutti_comm_synchronize(talk));
}

/* A slice a channel; then a word, which takes one channel. */
static void pass_broadcasts_on(size_t words)
{
    OK(tutti_broadcast(rank == 0 ? in : out, out, words - 1, TUTTI_UINT32, 0, comm, other));
    OK(tutti_broadcast((rank == 0 ? in : out) + words - 1, out + words - 1, 1, TUTTI_UINT32, 0, comm, other));
}

/* What follows needs rank 0: the failure is told, once the rest has been told to be over. */
static void require_failure(bool told)
{
    tutti_result_t result = tutti_comm_synchronize(comm);
    require(told || result == TUTTI_SUCCESS, "the end of the broadcasts");
    result = told ? result : tutti_comm_synchronize(comm);
    require(result == TUTTI_REMOTE_ERROR, "a failure");
    require(strstr(tutti_get_last_error(comm), "aborted by rank 0") != NULL, "its cause");
    require(tutti_barrier(comm, other) != TUTTI_SUCCESS, "no more calls");
}

/*
 * Broadcasts by way of ranks 1 and 2. Rank 1 cannot end before rank 2 has begun. Rank 0 can, and is gone before: rank
 * 2's stream has not come to them, or (late) it has not called them. "followed": by another one, which rank 0 does not
 * call.
 */
static void outlive_rank_0(const char *how, size_t words)
{
    bool aborts = strncmp(how, "aborts", 6) == 0, late = is(how, "aborts late"), followed = is(how, "aborts followed");
    tutti_config_t host = TUTTI_CONFIG_INITIALIZER;
    tutti_comm_t talk; /* of those that end together */
    host.device = TUTTI_HOST;
    OK(tutti_comm_split(comm, rank == 0 && ends_process(how), rank, &talk, &host));
    make_memory();
    make_other_stream();
    fill(words, 1);
    OK(tutti_barrier(comm, other));
    OK(tutti_comm_synchronize(comm));
    _Atomic uint32_t *go = rank == 2 && !late ? hold_stream() : NULL;
    if (rank != 2 || !late)
        pass_broadcasts_on(words);
    if (rank == 0) {
        end_rank_0(how, talk);
        return;
    }
    if (followed)
        OK(tutti_broadcast(in, in, 1, TUTTI_UINT32, 0, comm, other));
    if (aborts)
        await_failure();
    usleep(aborts ? 50000 : ends_process(how) ? 1500000 : 500000); /* in which the broadcasts might be given up */
    if (rank == 2 && late)
        pass_broadcasts_on(words);
    if (go)
        *go = 1;
    DONE(cu->StreamSynchronize((CUstream)other));
    copy(out_here, out, words);
    for (size_t i = 0; i < words; i++)
        require_word(out_here[i], value(0, i, 1), "broadcast", i, 1);
    if (aborts)
        require_failure(followed);
    else
        OK(tutti_comm_synchronize(comm));
    OK(tutti_barrier(talk, NULL));
    OK(tutti_comm_synchronize(talk));
    OK(tutti_comm_abort(comm));
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    bool refuses = argc > 1 && is(argv[1], "refused"), gone = argc > 3 && is(argv[1], "gone");
    if (!local_rank)
        return 2;
    gpu_select(device_of(local_rank));
    gpu_join(&comm, &rank, &nranks);
    if (gone) {
        outlive_rank_0(argv[2], strtoul(argv[3], NULL, 10) * SLICE + 1);
        return 0;
    }
    if (refuses)
        refuse_a_relay();
    else
        wait_everywhere();
    if (!refuses || rank != 0)
        tutti_comm_destroy(comm);
    return 0;
}
