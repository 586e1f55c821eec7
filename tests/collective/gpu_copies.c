/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_copies CASE: messages by copy engine between processes, from and to buffers that stay, change and go. On the
 * stand-in driver, one process a rank: tutti run -n 3 -- gpu_copies buffers. The cases "busy" and "stale" take two.
 */
#include "gpu_piece.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS   20000
#define BUFFERS 80
#define PIECE   (2u << 20)

static tutti_comm_t comm, talk; /* talk: by which ranks agree; may be the same */
static int rank, nranks;
static const struct cuda_driver *cu;

static uint32_t value(int from, int to, unsigned round, size_t i)
{
    return (uint32_t)(from * 1000003 + to * 40503) + round * 2654435761u + (uint32_t)i;
}

static uint32_t *memory(size_t words)
{
    void *out = NULL;
    OK(tutti_device_mem_alloc(&out, words * sizeof(uint32_t)));
    return out;
}

/* To the next rank, and from the last; `words` each. */
static void issue(uint32_t *send, uint32_t *recv, size_t words)
{
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks;
    OK(tutti_group_start());
    OK(tutti_send(send, words, TUTTI_UINT32, next, comm, NULL));
    OK(tutti_recv(recv, words, TUTTI_UINT32, last, comm, NULL));
    OK(tutti_group_end());
}

static void pass_on(uint32_t *send, uint32_t *recv, size_t words, unsigned round)
{
    for (size_t i = 0; i < words; i++) {
        send[i] = value(rank, (rank + 1) % nranks, round, i);
        recv[i] = 0;
    }
    issue(send, recv, words);
}

static void check(const uint32_t *recv, size_t words, unsigned round)
{
    int last = (rank + nranks - 1) % nranks;
    for (size_t i = 0; i < words; i++)
        if (recv[i] != value(last, rank, round, i)) {
            fprintf(stderr, "rank %d: round %u, word %zu of %zu is %#x\n", rank, round, i, words, recv[i]);
            exit(1);
        }
}

static void round_trip(uint32_t *send, uint32_t *recv, size_t words, unsigned round)
{
    pass_on(send, recv, words, round);
    OK(tutti_comm_synchronize(comm));
    check(recv, words, round);
}

/* All ranks: has anybody seen it? */
static bool one_says(bool mine)
{
    static int32_t *word;
    if (!word)
        word = (int32_t *)(void *)memory(2);
    word[0] = mine;
    OK(tutti_allreduce(word, word + 1, 1, TUTTI_INT32, TUTTI_MAX, talk, NULL));
    OK(tutti_comm_synchronize(talk));
    return word[1] != 0;
}

/* Rounds until some rank has mapped more than `before` buffers: it does when its GPU has nothing to do, and a peer's
 * call came first. */
static unsigned until_mapped(uint32_t *send, uint32_t *recv, size_t words, int before)
{
    time_t end = time(NULL) + 30;
    unsigned round = 0;
    do {
        round_trip(send, recv, words, round++);
        require(time(NULL) < end, "no buffer was mapped in time");
    } while (!one_says(logged(" mapped ", NULL, 0) > before));
    for (int i = 0; i < 5; i++)
        round_trip(send, recv, words, round++);
    return round;
}

static void buffers_stay(void)
{
    uint32_t *send = memory(WORDS), *recv = memory(WORDS);
    unsigned round = until_mapped(send, recv, WORDS, 0);
    pass_on(send, recv, WORDS, round);
    for (int i = 0; i < 100; i++) { /* nobody waits in between; each overwrites the last */
        issue(send, recv, WORDS);
        if (i % 40 == 39) /* a program's own calls may wait for the context */
            OK(tutti_device_mem_free(memory(10)));
    }
    OK(tutti_comm_synchronize(comm));
    check(recv, WORDS, round);
    OK(tutti_device_mem_free(send));
    OK(tutti_device_mem_free(recv));
}

static void buffers_go(void)
{
    for (unsigned round = 0; round < 30; round++) {
        uint32_t *send = memory(WORDS), *recv = memory(WORDS + round % 3 * 2000);
        round_trip(send, recv, WORDS, round);
        OK(tutti_device_mem_free(send));
        OK(tutti_device_mem_free(recv));
    }
}

static void many_buffers(void)
{
    uint32_t *send[BUFFERS], *recv[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        send[i] = memory(2000);
        recv[i] = memory(2000);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (int i = 0; i < BUFFERS; i++)
            pass_on(send[i], recv[i], 2000, round);
        OK(tutti_comm_synchronize(comm));
        for (int i = 0; i < BUFFERS; i++)
            check(recv[i], 2000, round);
    }
    for (int i = 0; i < BUFFERS; i++) {
        OK(tutti_device_mem_free(send[i]));
        OK(tutti_device_mem_free(recv[i]));
    }
}

static size_t free_bytes(void)
{
    size_t left = 0, total;
    DONE(cu->MemGetInfo(&left, &total));
    return left;
}

/* Memory that a peer maps is not free before that one lets go, and it does though nobody calls the library any more. */
static void freed_is_free(void)
{
    size_t before = free_bytes();
    uint32_t *send = memory(WORDS), *recv = memory(WORDS);
    until_mapped(send, recv, WORDS, 0);
    require(free_bytes() < before, "buffers are counted");
    DONE(cu->MemFree((CUdeviceptr)(uintptr_t)send));
    DONE(cu->MemFree((CUdeviceptr)(uintptr_t)recv));
    time_t end = time(NULL) + 30;
    while (free_bytes() < before) {
        usleep(10000);
        require(time(NULL) < end, "memory that was freed is given back without a call");
    }
}

/* A context takes half a second to make, and half a gigabyte of its GPU. */
static void only_own_context(void)
{
    CUdevice device;
    unsigned flags;
    int count = 0, active;
    DONE(cu->DeviceGetCount(&count));
    if (count == 1) /* it sees no other */
        return;
    for (int i = 0; i < count; i++) {
        DONE(cu->DeviceGet(&device, i));
        DONE(cu->DevicePrimaryCtxGetState(device, &flags, &active));
        require(active == (i == rank), "a context on the own GPU and on no other");
    }
}

/* ---- Memory in pieces, as PyTorch's expandable segments ---- */

static void pieces(bool shareable)
{
    CUdeviceptr base = 0;
    DONE(cu->MemAddressReserve(&base, 4 * (size_t)PIECE, 0, 0, 0));
    for (int i = 0; i < 4; i++)
        map_piece(cu, rank, base + (CUdeviceptr)i * PIECE, PIECE, shareable);
    uint32_t *send = (uint32_t *)(uintptr_t)(base + 100), *recv = (uint32_t *)(uintptr_t)(base + 2 * PIECE + 36);
    unsigned round = 0;
    if (shareable)
        round = until_mapped(send, recv, WORDS, logged(" mapped ", NULL, 0));
    round_trip(send, recv, PIECE / 4 + WORDS, round++); /* over the end of a piece */
    for (int i = 0; i < 3; i++) {                       /* other memory at the same addresses */
        for (int piece = 0; piece < 4; piece += 2) {
            DONE(cu->MemUnmap(base + (CUdeviceptr)piece * PIECE, PIECE));
            map_piece(cu, rank, base + (CUdeviceptr)piece * PIECE, PIECE, shareable);
        }
        if (shareable && i == 2)
            until_mapped(send, recv, WORDS, logged(" mapped ", NULL, 0));
        for (int again = 0; again < 4; again++)
            round_trip(send, recv, WORDS, round++);
    }
    for (int i = 0; i < 4; i++)
        DONE(cu->MemUnmap(base + (CUdeviceptr)i * PIECE, PIECE));
    DONE(cu->MemAddressFree(base, 4 * (size_t)PIECE));
}

/* ---- While something is always under way ---- */

static tutti_stream_t held, beside;
static uint32_t *lid, lids; /* what comes behind hold() in that stream waits for the word */

static void begin_holding(void)
{
    CUstream streams[2];
    void *word;
    OK(tutti_comm_split(comm, 0, rank, &talk, NULL));
    DONE(cu->MemHostAlloc(&word, sizeof *lid, 0));
    for (int i = 0; i < 2; i++)
        DONE(cu->StreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0));
    held = (tutti_stream_t)streams[0];
    beside = (tutti_stream_t)streams[1];
    lid = memset(word, 0, sizeof *lid);
}

static void end_holding(void)
{
    DONE(cu->StreamDestroy((CUstream)held));
    DONE(cu->StreamDestroy((CUstream)beside));
    DONE(cu->MemFreeHost(lid));
    tutti_comm_destroy(talk);
}

static void hold(void)
{
    DONE(cu->StreamWaitValue32((CUstream)held, (CUdeviceptr)(uintptr_t)lid, ++lids, CU_STREAM_WAIT_VALUE_GEQ));
}

static void let_go(void)
{
    __atomic_store_n(lid, lids, __ATOMIC_RELEASE);
}

static void await(const char *line, int count)
{
    time_t end = time(NULL) + 60;
    while (!one_says(logged(line, NULL, 0) >= count)) {
        usleep(1000);
        require(time(NULL) < end, line);
    }
}

/* From rank 0, whose call comes first, so that it offers its buffer, to rank 1. */
static void pass_first(uint32_t *memory, tutti_stream_t stream)
{
    if (rank == 0)
        OK(tutti_send(memory, WORDS, TUTTI_UINT32, 1, comm, stream));
    one_says(false);
    if (rank == 1)
        OK(tutti_recv(memory, WORDS, TUTTI_UINT32, 0, comm, stream));
}

static void fill(uint32_t *memory, unsigned round)
{
    for (size_t i = 0; i < WORDS; i++)
        memory[i] = rank == 0 ? value(0, 1, round, i) : 0;
}

static void check_first(const uint32_t *memory, unsigned round)
{
    OK(tutti_comm_synchronize(comm));
    if (rank == 1)
        check(memory, WORDS, round);
}

/* No message is over before all have been issued. */
static void never_a_pause(void)
{
    uint32_t *words = memory(WORDS);
    fill(words, 1);
    hold();
    pass_first(words, held);
    require(logged(" through scratch", NULL, 0) == 1, "a message whose buffer is not mapped goes through scratch");
    await(" mapped ", 1);
    for (int i = 1; i <= 20; i++) {
        pass_first(words, held);
        require(logged(" from buffer to buffer", NULL, 0) == i, "a mapped buffer is used");
    }
    let_go();
    check_first(words, 1);
    OK(tutti_device_mem_free(words));
}

/* The first buffer's mapping is withdrawn with the next offer, whose handle the driver refuses once. */
static void closed_in_the_next_pause(tutti_comm_t busy)
{
    int mapped = logged(" mapped ", NULL, 0), unmapped = logged(" unmapped ", NULL, 0);
    CUdeviceptr base = 0;
    uint32_t *words = memory(WORDS);
    DONE(cu->MemAddressReserve(&base, PIECE, 0, 0, 0));
    uint32_t *piece = (uint32_t *)(uintptr_t)base;
    hold();
    OK(tutti_barrier(busy, held));
    one_says(false); /* from here on all are busy */
    fill(words, 1);
    pass_first(words, beside);
    await(" mapped ", ++mapped);
    require(one_says(logged(" yet: ", NULL, 0) > 0) && logged(" cannot map ", NULL, 0) == logged(" yet: ", NULL, 0),
            "a refused buffer is tried again");
    check_first(words, 1);
    require(logged(" unmapped ", NULL, 0) == unmapped, "nothing is closed while something is under way");
    for (unsigned round = 2; round < 5; round++) { /* other memory at the same address each time, which needs no
                                                      pause */
        map_piece(cu, rank, base, PIECE, true);
        fill(piece, round);
        pass_first(piece, beside);
        await(" mapped ", ++mapped);
        pass_first(piece, beside);
        check_first(piece, round);
        DONE(cu->MemUnmap(base, PIECE));
    }
    await(" unmapped ", unmapped + 2);
    let_go();
    OK(tutti_comm_synchronize(busy));
    await(" unmapped ", unmapped + 3);
    DONE(cu->MemAddressFree(base, PIECE));
    OK(tutti_device_mem_free(words));
}

static void always_busy(void)
{
    tutti_comm_t busy;
    begin_holding();
    OK(tutti_comm_split(comm, 0, rank, &busy, NULL));
    never_a_pause();
    closed_in_the_next_pause(busy);
    tutti_comm_destroy(busy);
    end_holding();
}

/* ---- What another communicator has open ---- */

/* Memory of rank 0 at the very address where other memory was. */
static uint32_t *memory_at(const uint32_t *wanted)
{
    uint32_t *missed[50], *found = memory(WORDS);
    int count = 0;
    while (found != wanted && count < 50) {
        missed[count++] = found;
        found = memory(WORDS);
    }
    require(rank != 0 || found == wanted, "freed addresses are used again");
    while (count--)
        OK(tutti_device_mem_free(missed[count]));
    return found;
}

/* A buffer that the driver refuses, as no mapping is closed while something is under way; with the first pause it is
 * mapped. */
static void pass_refused(uint32_t *words, tutti_comm_t busy)
{
    int refused = logged(" yet: ", NULL, 0);
    hold();
    OK(tutti_barrier(busy, held));
    one_says(false); /* from here on all are busy */
    pass_first(words, beside);
    await(" yet: ", refused + 1);
    let_go();
}

/* The driver refuses the second buffer while the first one is open, and its communicator has no more to do. */
static void stale_elsewhere(void)
{
    tutti_comm_t first = comm, second, busy;
    begin_holding();
    OK(tutti_comm_split(first, 0, rank, &second, NULL));
    OK(tutti_comm_split(first, 0, rank, &busy, NULL));
    uint32_t *words = memory(WORDS);
    for (unsigned round = 0; round < 3; round++) {
        fill(words, round);
        if (round == 0)
            pass_first(words, beside);
        else
            pass_refused(words, busy);
        check_first(words, round);
        await(" mapped ", (int)round + 1);
        OK(tutti_device_mem_free(words));
        words = memory_at(words);
        comm = comm == first ? second : first;
    }
    require(!one_says(logged(" cannot map ", NULL, 0) != logged(" yet: ", NULL, 0)), "no buffer is refused for good");
    comm = first;
    OK(tutti_device_mem_free(words));
    tutti_comm_destroy(busy);
    tutti_comm_destroy(second);
    end_holding();
}

/* ---- No kernel where nothing is reduced ---- */

/* The first launch of a kernel fails: all but the reduction must do without. */
static void no_kernels(void)
{
    static const size_t counts[] = {1, 1000, WORDS};
    size_t n = (size_t)nranks;
    uint32_t *send = memory(n * WORDS), *recv = memory(n * WORDS);
    for (int i = 0; i < 3; i++) {
        size_t count = counts[i];
        round_trip(send, recv, count, (unsigned)i);
        OK(tutti_broadcast(send, recv, count, TUTTI_UINT32, i % nranks, comm, NULL));
        OK(tutti_allgather(send, recv, count, TUTTI_UINT32, comm, NULL));
        OK(tutti_gather(send, recv, count, TUTTI_UINT32, i % nranks, comm, NULL));
        OK(tutti_scatter(send, recv, count, TUTTI_UINT32, i % nranks, comm, NULL));
        OK(tutti_alltoall(send, recv, count, TUTTI_UINT32, comm, NULL));
        OK(tutti_barrier(comm, NULL));
        OK(tutti_comm_synchronize(comm));
    }
    tutti_comm_t other; /* so that nobody is still waiting when it fails */
    OK(tutti_comm_split(comm, 0, rank, &other, NULL));
    OK(tutti_barrier(comm, NULL));
    OK(tutti_comm_synchronize(comm));
    require(tutti_allreduce(send, recv, 10, TUTTI_UINT32, TUTTI_SUM, other, NULL) != TUTTI_SUCCESS,
            "a reduction without a kernel");
    tutti_comm_destroy(other);
    OK(tutti_device_mem_free(send));
    OK(tutti_device_mem_free(recv));
}

/* In large scratch. */
static void reduce_much(void)
{
    size_t words = 1u << 20;
    uint32_t *in = memory(words), *out = memory(words);
    for (size_t i = 0; i < words; i++)
        in[i] = (uint32_t)i + (uint32_t)rank;
    OK(tutti_allreduce(in, out, words, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    OK(tutti_comm_synchronize(comm));
    for (size_t i = 0; i < words; i++)
        require(out[i] == (uint32_t)nranks * (uint32_t)i + (uint32_t)(nranks * (nranks - 1) / 2), "a sum");
    OK(tutti_device_mem_free(in));
    OK(tutti_device_mem_free(out));
}

/* This process sees its own GPU alone, as launchers have it. */
static void hide_others(const char *local_rank)
{
    setenv("TUTTI_EMULATED_FIRST", local_rank, 1);
    setenv("TUTTI_EMULATED_GPUS", "1", 1);
    setenv("TUTTI_EMULATED_MACHINE", "4", 1);
}

static void run_case(const char *name)
{
    if (strcmp(name, "apart") == 0) { /* GPUs that are not seen, and, as it turns out, not reached */
        require(logged(" windows lie in host memory", NULL, 0) == 1, "a line on the windows");
        buffers_go();
    } else if (strcmp(name, "sealed") == 0) { /* IPC handles cannot be opened */
        require(logged(" windows lie on the GPUs", NULL, 0) == 1, "windows on the GPUs");
        buffers_go();
        reduce_much();
        pieces(true);
    } else if (strcmp(name, "freed") == 0) {
        one_says(false); /* has made what it needs */
        freed_is_free();
        DONE(cu->CtxSynchronize());
    } else if (strcmp(name, "crowd") == 0) { /* more GPUs than kernels know */
        buffers_go();
        reduce_much();
    } else if (strcmp(name, "none") == 0 || strcmp(name, "asked") == 0) {
        no_kernels();
    } else if (strcmp(name, "busy") == 0) {
        always_busy();
    } else if (strcmp(name, "stale") == 0) {
        stale_elsewhere();
    } else {
        require(logged(" windows lie in host memory", NULL, 0) == 0, "windows on the GPUs");
        require(logged("may carry a flag in each: yes", NULL, 0) == 1,
                "NVLink is known, also of GPUs that are not seen");
        buffers_stay();
        buffers_go();
        many_buffers();
    }
    if (strcmp(name, "buffers") == 0) {
        pieces(true);
        pieces(false);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *local_rank = getenv("TUTTI_LOCAL_RANK");
    bool alone = strcmp(name, "unseen") == 0 || strcmp(name, "apart") == 0;
    if (!local_rank)
        return 2;
    log_open(strcmp(name, "busy") == 0 || strcmp(name, "stale") == 0 ? "trace" : "info");
    if (alone)
        hide_others(local_rank);
    gpu_select(alone ? 0 : atoi(local_rank));
    OK(cuda_driver(&cu));
    tutti_config_t config = gpu_config();
    if (strcmp(name, "asked") == 0) /* as TUTTI_CTA_POLICY=zero, but for this communicator */
        config.policy = TUTTI_POLICY_ZERO;
    OK(tutti_comm_init_from_env(&comm, &config));
    talk = comm;
    OK(tutti_comm_rank(comm, &rank));
    OK(tutti_comm_count(comm, &nranks));
    only_own_context();
    require(strcmp(name, "crowd") == 0 || logged(" made its executor in ", NULL, 0) == 1,
            "a line on what took the time");
    run_case(name);
    only_own_context();
    tutti_comm_destroy(comm);
    return 0;
}
