/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n N -- nccl_signals`: NCCL's puts and signals, one process a rank, on GPUs. The ranks hand one another
 * the id by a communicator of tutti's on host memory.
 */
#define NCCL_WITHOUT_CUDA_HEADERS 1

#include "gpu_rank.h"
#include "nccl.h"

#include "device/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 50000

struct wait {
    int count, peer, signal, context;
};
ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, struct wait *waits, ncclComm_t comm, cudaStream_t stream);

#define GOOD(call) require((call) == ncclSuccess, #call)

static int rank, ranks;
static ncclComm_t comm;
static const struct cuda_driver *cu;

static ncclUniqueId same_id(void)
{
    tutti_comm_t meeting;
    ncclUniqueId id;
    OK(tutti_comm_init_from_env(&meeting, NULL));
    OK(tutti_comm_rank(meeting, &rank));
    OK(tutti_comm_count(meeting, &ranks));
    if (rank == 0)
        GOOD(ncclGetUniqueId(&id));
    OK(tutti_broadcast(&id, &id, sizeof id, TUTTI_UINT8, 0, meeting, NULL));
    OK(tutti_comm_synchronize(meeting));
    OK(tutti_comm_destroy(meeting));
    return id;
}

/* Until all that is in the null stream is over. */
static void finish(void)
{
    DONE(cu->StreamSynchronize(NULL));
}

static void await(int peer, int signal, int count)
{
    struct wait wait = {count, peer, signal, 0};
    GOOD(ncclWaitSignal(1, &wait, comm, NULL));
}

/* A ring; then all to all in a group, waits first. */
static void use(ncclWindow_t window, int *memory, int *local)
{
    static int seen[WORDS];
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int i = 0; i < WORDS; i++)
        seen[i] = rank * 1000003 + i;
    gpu_bytes_copy(local, seen, sizeof seen);
    GOOD(ncclPutSignal(local, WORDS, ncclInt, next, window, (size_t)rank * WORDS * sizeof(int), 5, 0, 0, comm, NULL));
    await(last, 5, 1);
    GOOD(ncclSignal(last, 6, 0, 0, comm, NULL));
    await(next, 6, 1);
    GOOD(ncclGroupStart());
    for (int peer = 0; peer < ranks; peer++) {
        await(peer, 0, 1);
        GOOD(ncclPutSignal(local, WORDS, ncclInt, peer, window, (size_t)rank * WORDS * sizeof(int), 0, 0, 0, comm,
                           NULL));
    }
    GOOD(ncclGroupEnd());
    finish();
    for (int from = 0; from < ranks; from++) {
        gpu_bytes_copy(seen, memory + (size_t)from * WORDS, sizeof seen);
        for (int i = 0; i < WORDS; i++)
            require(seen[i] == from * 1000003 + i, "what was put is there");
    }
}

static void misuse(ncclWindow_t window, ncclWindow_t plain, int *local)
{
    struct wait wait = {-1, 0, 0, 0}, context = {1, 0, 0, 1};
    require(ncclPutSignal(local, 1, ncclInt, 0, plain, 0, 0, 0, 0, comm, NULL) == ncclInvalidArgument &&
                strstr(ncclGetLastError(comm), "NCCL_WIN_COLL_SYMMETRIC"),
            "only symmetric windows");
    require(ncclPutSignal(local, 1, ncclInt, 0, NULL, 0, 0, 0, 0, comm, NULL) == ncclInvalidArgument &&
                ncclPutSignal(local, 1, ncclInt, 0, window, 0, 8, 0, 0, comm, NULL) == ncclInvalidArgument &&
                ncclPutSignal(local, 1, ncclInt, 0, window, 0, 0, 1, 0, comm, NULL) == ncclInvalidArgument &&
                ncclPutSignal(local, 1, ncclInt, 0, window, 0, 0, 0, 1, comm, NULL) == ncclInvalidArgument &&
                ncclPutSignal(local, 2, ncclInt, 0, window, (size_t)ranks * WORDS * 4 - 4, 0, 0, 0, comm, NULL) ==
                    ncclInvalidArgument &&
                ncclSignal(ranks, 0, 0, 0, comm, NULL) == ncclInvalidArgument &&
                ncclWaitSignal(1, &wait, comm, NULL) == ncclInvalidArgument &&
                ncclWaitSignal(1, &context, comm, NULL) == ncclInvalidArgument &&
                ncclWaitSignal(-1, &wait, comm, NULL) == ncclInvalidArgument &&
                ncclWaitSignal(1, NULL, comm, NULL) == ncclInvalidArgument,
            "what is wrong is refused");
    GOOD(ncclWaitSignal(0, NULL, comm, NULL));
    GOOD(ncclGroupStart());
    GOOD(ncclPutSignal(local, 1, ncclInt, rank, window, 0, 0, 0, 0, comm, NULL));
    require(ncclCommWindowDeregister(comm, window) == ncclInvalidUsage && ncclGroupEnd() == ncclInvalidUsage,
            "a window stays while a group keeps a put into it");
}

int main(void)
{
    ncclWindow_t window, plain;
    void *memory, *local;
    gpu_select(atoi(getenv("TUTTI_LOCAL_RANK")));
    OK(cuda_driver(&cu));
    ncclUniqueId id = same_id();
    GOOD(ncclCommInitRank(&comm, ranks, id, rank));
    GOOD(ncclMemAlloc(&memory, (size_t)ranks * WORDS * sizeof(int)));
    GOOD(ncclMemAlloc(&local, WORDS * sizeof(int)));
    for (int turn = 0; turn < 2; turn++) {
        GOOD(ncclCommWindowRegister(comm, memory, (size_t)ranks * WORDS * sizeof(int), &window,
                                    NCCL_WIN_COLL_SYMMETRIC));
        GOOD(ncclCommWindowRegister(comm, local, WORDS * sizeof(int), &plain, 0));
        use(window, memory, local);
        misuse(window, plain, local);
        GOOD(ncclAllReduce(local, local, 1, ncclInt, ncclMax, comm, NULL)); /* all have looked */
        finish();
        GOOD(ncclCommWindowDeregister(comm, plain));
        GOOD(ncclCommWindowDeregister(comm, window));
    }
    GOOD(ncclMemFree(local));
    GOOD(ncclMemFree(memory));
    GOOD(ncclCommDestroy(comm));
    return 0;
}
