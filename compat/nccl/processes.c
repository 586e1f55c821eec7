/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processes FILE: one process for each rank, as MPI and torch programs do it. Rank 0 makes the id and hands it to the
 * others through FILE, which must not exist. Started by `tutti run`. Exits with 0 when every result was right.
 */
#define NCCL_WITHOUT_CUDA_HEADERS 1
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int hand_out(const char *path, const ncclUniqueId *id)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "wb");
    if (!file)
        return -1;
    size_t written = fwrite(id, sizeof *id, 1, file);
    return fclose(file) || written != 1 || rename(part, path) ? -1 : 0;
}

static int receive(const char *path, ncclUniqueId *id)
{
    for (int i = 0; i < 60000; i++) {
        FILE *file = fopen(path, "rb");
        if (file) {
            size_t got = fread(id, sizeof *id, 1, file);
            fclose(file);
            return got == 1 ? 0 : -1;
        }
        usleep(1000);
    }
    return -1;
}

static int wrong(const char *what, ncclResult_t result)
{
    if (result == ncclSuccess)
        return 0;
    fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
    return 1;
}

/* An allreduce, a ring of sends, and an allreduce of the half that has the same parity. */
static int work(ncclComm_t comm, int rank, int n)
{
    enum { COUNT = 100000 };
    static double values[COUNT], sum[COUNT];
    int right = -1, expected = 0;
    ncclComm_t half;
    for (int i = 0; i < COUNT; i++)
        values[i] = rank + i;
    if (wrong("allreduce", ncclAllReduce(values, sum, COUNT, ncclDouble, ncclSum, comm, NULL)))
        return 1;
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != (double)n * (n - 1) / 2 + (double)n * i)
            return 2;
    ncclGroupStart();
    ncclSend(&rank, 1, ncclInt, (rank + 1) % n, comm, NULL);
    ncclRecv(&right, 1, ncclInt, (rank + n - 1) % n, comm, NULL);
    if (wrong("ring", ncclGroupEnd()) || right != (rank + n - 1) % n)
        return 3;
    if (wrong("split", ncclCommSplit(comm, rank % 2, rank, &half, NULL)))
        return 4;
    if (wrong("allreduce of a half", ncclAllReduce(&rank, &right, 1, ncclInt, ncclSum, half, NULL)))
        return 5;
    for (int i = rank % 2; i < n; i += 2)
        expected += i;
    return wrong("destroy", ncclCommDestroy(half)) || right != expected ? 6 : 0;
}

int main(int argc, char **argv)
{
    const char *at = getenv("TUTTI_RANK"), *of = getenv("TUTTI_SIZE");
    ncclUniqueId id;
    ncclComm_t comm;
    if (argc != 2 || !at || !of)
        return 64;
    int rank = atoi(at), n = atoi(of);
    if (!rank && wrong("id", ncclGetUniqueId(&id)))
        return 10;
    if (rank ? receive(argv[1], &id) : hand_out(argv[1], &id))
        return 11;
    if (wrong("init", ncclCommInitRank(&comm, n, id, rank)))
        return 12;
    int failed = work(comm, rank, n);
    return wrong("destroy", ncclCommDestroy(comm)) ? 13 : failed;
}
