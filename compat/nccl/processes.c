/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processes FILE: one process for each rank, as MPI and torch programs do it. Rank 0 makes the id and hands it to the
 * others through FILE, which must not exist. Started by `tutti run`. Exits with 0 when every result was right.
 */
#define NCCL_WITHOUT_CUDA_HEADERS 1

#include <nccl.h>
#include <stdbool.h>
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

/* Handles go round: the next communicator gets the one of a communicator that a group has aborted. */
static int use_aborted_next(void)
{
    ncclComm_t aborted, other;
    int period = 0;
    if (wrong("init alone", ncclCommInitAll(&aborted, 1, NULL)))
        return 1;
    ncclGroupStart();
    ncclCommAbort(aborted);
    if (wrong("abort", ncclGroupEnd()))
        return 2;
    for (int round = 0; round < 2; round++)
        for (int i = 1; round ? i < period : !period; i++) {
            if (wrong("init alone", ncclCommInitAll(&other, 1, NULL)) || wrong("destroy", ncclCommDestroy(other)))
                return 3;
            period = other == aborted && !round ? i : period;
        }
    return 0;
}

/* One rank of a pair sends a few bytes and is destroyed before the other one receives. Its communicator knows nothing
 * of what its handle was before. */
static int send_and_go(ncclComm_t comm, int rank, int n)
{
    ncclComm_t pair;
    int sent = 7, received = 0, one = 1;
    if (use_aborted_next() || wrong("split", ncclCommSplit(comm, rank / 2, rank, &pair, NULL)))
        return 20;
    bool paired = (rank ^ 1) < n, sends = paired && rank % 2 == 0;
    if (sends && wrong("send", ncclSend(&sent, 1, ncclInt, 1, pair, NULL)))
        return 21;
    if (sends && wrong("destroy", ncclCommDestroy(pair)))
        return 22;
    if (wrong("allreduce", ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL)))
        return 23;
    usleep(100000); /* in which the news of an abort would come */
    if (paired && !sends && (wrong("receive", ncclRecv(&received, 1, ncclInt, 0, pair, NULL)) || received != sent))
        return 24;
    return !sends && wrong("destroy", ncclCommDestroy(pair)) ? 25 : 0;
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
    if (!failed)
        failed = send_and_go(comm, rank, n);
    return wrong("destroy", ncclCommDestroy(comm)) ? 13 : failed;
}
