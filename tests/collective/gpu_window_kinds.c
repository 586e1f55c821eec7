/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n 2 -- gpu_window_kinds`, each rank on a host of its own, TUTTI_TEST_GPU=1: a window that is host memory
 * at rank 0, and memory of the GPU at rank 1. What is put, and where it is got, is of either kind. `refused`: ranks of
 * one host map one another's memory, so their windows have no host memory.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART ((size_t)1 << 20)

static const struct cuda_driver *cu;
static tutti_comm_t comm;
static int rank;
static CUstream stream;
static unsigned char *plain;        /* host memory */
static unsigned char *there, *host; /* the GPU's; pinned */

static void copy(void *to, const void *from, size_t bytes)
{
    DONE(cu->MemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, stream));
    DONE(cu->StreamSynchronize(stream));
}

static unsigned char byte_of(int from, size_t round, size_t at)
{
    return (unsigned char)(at * 7 + (size_t)from * 31 + round * 13 + 1);
}

static void fill(unsigned char *local, size_t round, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        host[at] = byte_of(rank, round, at);
    if (local != host)
        copy(local, host, bytes);
}

static void clear(unsigned char *local, size_t bytes)
{
    memset(host, 0, bytes);
    if (local != host)
        copy(local, host, bytes);
}

static void look(unsigned char *at, int from, size_t round, size_t bytes)
{
    unsigned char *seen = malloc(bytes);
    require(seen != NULL, "memory");
    copy(seen, at, bytes);
    for (size_t i = 0; i < bytes; i++)
        require(seen[i] == byte_of(from, round, i), "what was put or got");
    free(seen);
}

/* There, and back from there. */
static void pass(tutti_window_t window, unsigned char *mine, unsigned char *local, size_t round, size_t bytes)
{
    const tutti_signal_wait_t one = {!rank, 0, 1};
    fill(local, round, bytes);
    OK(tutti_put_signal(local, bytes, TUTTI_UINT8, !rank, window, PART - bytes, 0, comm, (tutti_stream_t)stream));
    OK(tutti_wait_signal(&one, 1, comm, (tutti_stream_t)stream));
    OK(tutti_comm_synchronize(comm));
    look(mine + PART - bytes, !rank, round, bytes);
    clear(local, bytes);
    OK(tutti_get(local, bytes, TUTTI_UINT8, !rank, window, PART - bytes, comm, (tutti_stream_t)stream));
    OK(tutti_comm_synchronize(comm));
    look(local, rank, round, bytes);
    OK(tutti_barrier(comm, (tutti_stream_t)stream));
    OK(tutti_comm_synchronize(comm));
}

static void pass_all(void)
{
    static const size_t lengths[] = {1, 513, 65537, 300001, PART};
    tutti_window_t window;
    void *memory;
    OK(tutti_device_mem_alloc(&memory, PART));
    unsigned char *mine = rank == 0 ? plain : memory;
    OK(tutti_window_register(comm, mine, PART, &window));
    for (size_t round = 0; round < 2 * sizeof lengths / sizeof *lengths; round++)
        pass(window, mine, round % 2 ? host : there, round, lengths[round / 2]);
    OK(tutti_window_deregister(comm, window));
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    tutti_window_t window;
    void *made[2];
    int ranks;
    if (!local_rank)
        return 2;
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&comm, &rank, &ranks);
    DONE(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    OK(tutti_device_mem_alloc(&made[0], PART));
    DONE(cu->MemHostAlloc(&made[1], PART, 0));
    there = made[0];
    host = made[1];
    plain = malloc(PART);
    require(plain != NULL, "memory");
    if (argc > 1 && strcmp(argv[1], "refused") == 0)
        require(tutti_window_register(comm, plain, PART, &window) != TUTTI_SUCCESS, "host memory is not mapped");
    else
        pass_all();
    OK(tutti_comm_destroy(comm));
    free(plain);
    return 0;
}
