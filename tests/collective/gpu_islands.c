/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_islands bytes: what GPUs of several hosts stage is what their rails carry, and no more; over RDMA if there is a
 * library for it. gpu_islands aborts, or dies: the last rank does, while all others are in a collective; ranks of its
 * island wait for it there, others on a rail. All say that it was that rank. gpu_islands fails: a copy between two
 * steps fails on one rank, by TUTTI_EMULATED_FAULT there; nobody waits for it. On the stand-in driver, as many ranks on
 * each host: TUTTI_HOSTID.
 */
#include "box.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 240000 /* of each rank's vector, or of all blocks: a multiple of the ranks */
#define HOSTS 2

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out;

static void settle(void)
{
    OK(tutti_comm_synchronize(comm));
}

/* This rank has staged `words` words since the last look. */
static void require_staged(const char *what, size_t words)
{
    static uint64_t before;
    settle();
    uint64_t now = box_counter(WIRE_COUNTER_STAGED_BYTES), staged = now - before;
    before = now;
    if (staged == words * sizeof(uint32_t))
        return;
    fprintf(stderr, "rank %d: %s: %" PRIu64 " bytes were staged, not %zu\n", rank, what, staged,
            words * sizeof(uint32_t));
    exit(1);
}

static void to_neighbour(int distance)
{
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, rank ^ distance, comm, NULL));
    OK(tutti_recv(out, WORDS, TUTTI_UINT32, rank ^ distance, comm, NULL));
    OK(tutti_group_end());
}

static void count_bytes(void)
{
    size_t size = (size_t)nranks / HOSTS, part = WORDS / size, block = WORDS / (size_t)nranks;
    bool near_root = (size_t)rank < size;
    require_staged("nothing", box_counter(WIRE_COUNTER_STAGED_BYTES) / sizeof(uint32_t));
    OK(tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_staged("allreduce", 2 * part);
    OK(tutti_reduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, 0, comm, NULL));
    require_staged("reduce", near_root ? 2 * part : part);
    OK(tutti_broadcast(in, out, WORDS, TUTTI_UINT32, 0, comm, NULL));
    require_staged("broadcast", near_root ? 2 * part : part);
    OK(tutti_allgather(in, out, block, TUTTI_UINT32, comm, NULL));
    require_staged("allgather", (HOSTS + 1) * block);
    OK(tutti_reduce_scatter(in, out, block, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_staged("reduce-scatter", (HOSTS + 1) * block);
    OK(tutti_alltoall(in, out, block, TUTTI_UINT32, comm, NULL));
    require_staged("alltoall", 2 * ((size_t)nranks - size) * block);
    OK(tutti_gather(in, out, block, TUTTI_UINT32, 0, comm, NULL));
    require_staged("gather", rank == 0 ? ((size_t)nranks - size) * block : near_root ? 0 : block);
    OK(tutti_scatter(in, out, block, TUTTI_UINT32, 0, comm, NULL));
    require_staged("scatter", rank == 0 ? ((size_t)nranks - size) * block : near_root ? 0 : block);
    to_neighbour(1);
    require_staged("messages within islands", 0);
    to_neighbour(nranks / HOSTS);
    require_staged("messages between islands", 2 * WORDS);
}

/* The call, or its end, fails by the fault of the last rank. */
static void require_blame(tutti_result_t called, const char *what)
{
    char words[40];
    snprintf(words, sizeof words, "%s rank %d", what, nranks - 1);
    require((called == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : called) == TUTTI_REMOTE_ERROR, "a failure");
    if (strstr(tutti_get_last_error(comm), words))
        return;
    fprintf(stderr, "rank %d: %s\n", rank, tutti_get_last_error(comm));
    exit(1);
}

static void without_the_last(bool dies)
{
    settle();
    if (rank == nranks - 1) {
        usleep(100000); /* in which the others come to wait */
        if (dies)
            _exit(0);
        OK(tutti_comm_abort(comm));
        return;
    }
    tutti_result_t called = tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL);
    require_blame(called, dies ? "lost" : "aborted by");
    OK(tutti_comm_abort(comm));
}

static void fail_between_steps(void)
{
    bool here = getenv("TUTTI_EMULATED_FAULT") != NULL;
    tutti_result_t result = tutti_allgather(in, out, WORDS / (size_t)nranks, TUTTI_UINT32, comm, NULL);
    result = result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
    require(result == (here ? TUTTI_DEVICE_ERROR : TUTTI_REMOTE_ERROR), "a failure");
    require(strstr(tutti_get_last_error(comm), "copying blocks") != NULL, tutti_get_last_error(comm));
    OK(tutti_comm_abort(comm));
}

static void make_memory(void)
{
    void *found[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], WORDS * sizeof(uint32_t)));
    in = found[0];
    out = found[1];
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK"), *what = argc > 1 ? argv[1] : "";
    if (!local_rank)
        return 2;
    OK(cuda_driver(&cu));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    make_memory();
    if (strcmp(what, "fails") == 0) {
        fail_between_steps();
        return 0;
    }
    OK(tutti_barrier(comm, NULL));
    if (strcmp(what, "bytes") != 0) {
        without_the_last(strcmp(what, "dies") == 0);
        return 0;
    }
    count_bytes();
    if (getenv("TUTTI_IBVERBS_LIBRARY"))
        require(box_counter(WIRE_COUNTER_SENT_VERBS) && box_counter(WIRE_COUNTER_RECEIVED_VERBS), "RDMA");
    OK(tutti_comm_destroy(comm));
    return 0;
}
