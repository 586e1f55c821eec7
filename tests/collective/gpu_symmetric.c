/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_symmetric CASE: reductions of memory that ranks of several processes have registered together, which is reduced
 * where it lies, and of memory that could not be. On the stand-in driver, one process a rank.
 */
#include "gpu_piece.h"
#include "gpu_rank.h"

#include "base/futex.h"
#include "device/cuda/driver.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 70000
#define MANY  530 /* more than a peer maps at a time */
#define PIECE (2u << 20)

static tutti_comm_t comm;
static int rank, nranks;
static bool sealed;
static const struct cuda_driver *cu;

/* Where IPC handles cannot be opened, memory that goes by descriptors. */
static int32_t *mapped(size_t words)
{
    size_t bytes = (words * sizeof(int32_t) + PIECE - 1) / PIECE * PIECE;
    CUdeviceptr at = 0;
    DONE(cu->MemAddressReserve(&at, bytes, 0, 0, 0));
    map_piece(cu, rank, at, bytes, true);
    return (int32_t *)(uintptr_t)at;
}

static int32_t *memory(size_t words)
{
    void *out = NULL;
    if (sealed)
        return mapped(words);
    OK(tutti_device_mem_alloc(&out, words * sizeof(int32_t)));
    return out;
}

static void drop(int32_t *pointer, size_t words)
{
    size_t bytes = (words * sizeof(int32_t) + PIECE - 1) / PIECE * PIECE;
    if (!sealed) {
        OK(tutti_device_mem_free(pointer));
        return;
    }
    DONE(cu->MemUnmap((CUdeviceptr)(uintptr_t)pointer, bytes));
    DONE(cu->MemAddressFree((CUdeviceptr)(uintptr_t)pointer, bytes));
}

static void *entered(void *buffer, size_t words)
{
    void *handle = NULL;
    OK(tutti_comm_register_symmetric(comm, buffer, words * sizeof(int32_t), &handle));
    return handle;
}

/* Scratch is made at the first reduction that goes through it, so none has, if there is none. */
static size_t scratch(void)
{
    size_t device, host;
    OK(tutti_comm_memory(comm, &device, &host));
    return device;
}

static int32_t value(int from, int round, size_t i)
{
    return (int32_t)(i * 7 + (size_t)round * 1009) + from * 100003;
}

static int32_t sum(int round, size_t i)
{
    int32_t out = 0;
    for (int from = 0; from < nranks; from++)
        out += value(from, round, i);
    return out;
}

static void allreduce(int32_t *in, int32_t *out, size_t words, int round)
{
    for (size_t i = 0; i < words; i++)
        in[i] = value(rank, round, i);
    OK(tutti_allreduce(in, out, words, TUTTI_INT32, TUTTI_SUM, comm, NULL));
    OK(tutti_comm_synchronize(comm));
    for (size_t i = 0; i < words; i++)
        require(out[i] == sum(round, i), "a sum of an allreduce");
}

static void reduce_scatter(int32_t *in, int32_t *out, size_t words, int round)
{
    for (size_t i = 0; i < words * (size_t)nranks; i++)
        in[i] = value(rank, round, i);
    OK(tutti_reduce_scatter(in, out, words, TUTTI_INT32, TUTTI_SUM, comm, NULL));
    OK(tutti_comm_synchronize(comm));
    for (size_t i = 0; i < words; i++)
        require(out[i] == sum(round, words * (size_t)rank + i), "a sum of a reduce-scatter");
}

/* Ranks have their memory at different places of it, which is allowed here, and see that no copy was needed. */
static void where_it_lies(int rounds)
{
    size_t offset = (size_t)rank * 3;
    int32_t *a = memory(4 * WORDS), *b = memory(2 * WORDS), *elsewhere = memory(WORDS);
    void *handles[2] = {entered(a, 4 * WORDS), entered(b, 2 * WORDS)};
    size_t before = scratch();
    for (int round = 0; round < rounds; round++) {
        size_t words = round % 2 ? WORDS - (size_t)round : 1u + (size_t)(1 << round) % WORDS;
        allreduce(a + offset, b + offset, words, round);
        allreduce(a + offset, a + offset, words, round);
        allreduce(a, a + 2 * WORDS, words, round);
    }
    for (int round = 0; round < rounds / 2; round++)
        reduce_scatter(a + offset, elsewhere, WORDS / 2 - (size_t)round, round);
    reduce_scatter(a, a + (WORDS - 8) * (size_t)rank, WORDS - 8, 5); /* in place */
    require(scratch() == before, "no scratch is made for symmetric memory");
    OK(tutti_barrier(comm, NULL)); /* all have looked: a peer that makes its own makes this rank make its own */
    OK(tutti_comm_synchronize(comm));
    allreduce(a, elsewhere, WORDS, 7);
    require(scratch() > before, "and is for other memory");
    allreduce(a, b, WORDS, 8);
    OK(tutti_comm_deregister(comm, handles[0]));
    allreduce(a, b, WORDS, 9);
    OK(tutti_comm_deregister(comm, handles[1]));
    require(tutti_comm_deregister(comm, handles[1]) == TUTTI_INVALID_ARGUMENT, "a second deregistration");
    drop(a, 4 * WORDS);
    drop(b, 2 * WORDS);
    drop(elsewhere, WORDS);
}

/* What one rank cannot share nobody takes for symmetric. */
static void not_everywhere(void)
{
    int32_t *a = memory(WORDS), *host = malloc(WORDS * sizeof *host), *mine = a;
    require(host != NULL, "memory");
    if (rank == 1) { /* pinned, which kernels reduce as well */
        DONE(cu->MemHostRegister(host, WORDS * sizeof *host, CU_MEMHOSTREGISTER_PORTABLE));
        mine = host;
    }
    void *handle = entered(mine, WORDS);
    allreduce(mine, mine, WORDS, 1);
    OK(tutti_comm_deregister(comm, handle));
    handle = entered(a, WORDS - (rank == 1)); /* not of one size */
    allreduce(a, a, WORDS - 1, 2);
    OK(tutti_comm_deregister(comm, handle));
    if (rank == 1)
        DONE(cu->MemHostUnregister(host));
    free(host);
    drop(a, WORDS);
}

static void very_many(void)
{
    static void *handles[MANY];
    static int32_t *all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = memory(1000);
        handles[i] = entered(all[i], 1000);
    }
    for (int i = 0; i < MANY; i += 23)
        allreduce(all[i], all[(i + 1) % MANY], 999, i);
    for (int i = 0; i < MANY; i++) {
        OK(tutti_comm_deregister(comm, handles[i]));
        drop(all[i], 1000);
    }
}

/* A rank that waits for one that is gone hears of it. */
static void gone(void)
{
    int32_t *a = memory(WORDS);
    void *handle = NULL;
    allreduce(a, a, 10, 0);
    /* The end of the second one says that all have seen that of the first; whether they see it is not asked here. */
    if (tutti_allreduce(a, a, 10, TUTTI_INT32, TUTTI_SUM, comm, NULL) == TUTTI_SUCCESS)
        tutti_comm_synchronize(comm);
    if (rank == nranks - 1)
        _exit(0);
    tutti_result_t result = tutti_comm_register_symmetric(comm, a, WORDS * sizeof *a, &handle);
    require(result != TUTTI_SUCCESS && !handle, "a registration without a rank fails");
    require(strstr(tutti_get_last_error(comm), "rank 2") != NULL, "and names it");
    tutti_comm_abort(comm);
}

/* Numbers of calls do not come from the record: where one rank has none, ranks still agree on a split after calls on
 * GPUs. They match what they agree on by number where it goes over links, as this algorithm does. */
static void unobserved(void)
{
    int32_t *a = memory(WORDS);
    tutti_comm_t whole = comm;
    OK(tutti_comm_split(whole, 0, rank, &comm, NULL));
    allreduce(a, a, WORDS, 3);
    tutti_comm_destroy(comm);
    comm = whole;
    drop(a, WORDS);
}

/* That the library has started. */
static int threads(void)
{
    DIR *all = opendir("/proc/self/task");
    int count = 0;
    require(all != NULL, "the list of threads");
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[300], name[16] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            count += strncmp(name, "tutti-", 6) == 0;
        if (file)
            fclose(file);
    }
    closedir(all);
    return count;
}

/* Threads attend to all communicators of a process. They still do when the first of these is gone. */
static void one_more(void)
{
    int32_t *a = memory(WORDS);
    tutti_comm_t first = comm;
    allreduce(a, a, WORDS, 0);
    int before = threads();
    require(before >= 3, "helper, importer and watcher");
    OK(tutti_comm_split(first, 0, rank, &comm, NULL));
    allreduce(a, a, WORDS, 1);
    require(!futex_waits_for_many() || threads() == before, "a second communicator starts no thread");
    tutti_comm_destroy(first);
    not_everywhere();
    require(threads() == before, "and needs those that there are");
    drop(a, WORDS);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "", *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (!local_rank)
        return 2;
    setenv("TUTTI_SYMMETRIC_FROM", "0", 1);
    setenv("TUTTI_REDUCE_LINES_FROM", "0", 1); /* all others go through scratch */
    if (strcmp(name, "unobserved") == 0) {
        setenv("TUTTI_ALGO", "allreduce:ring", 1);
        setenv("TUTTI_TRACE", atoi(local_rank) == 0 ? "0" : "1", 1);
    }
    sealed = strcmp(name, "sealed") == 0;
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&comm, &rank, &nranks);
    if (strcmp(name, "gone") == 0) {
        gone();
        return 0;
    }
    if (strcmp(name, "threads") == 0) {
        one_more();
        tutti_comm_destroy(comm);
        return 0;
    }
    bool follows = strcmp(name, "unobserved") == 0 || strcmp(name, "many") == 0; /* what is tested comes behind */
    where_it_lies(follows ? 4 : 20);
    if (strcmp(name, "unobserved") == 0)
        unobserved();
    if (strcmp(name, "many") == 0)
        very_many();
    else
        not_everywhere();
    tutti_comm_destroy(comm);
    return 0;
}
