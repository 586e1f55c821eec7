/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which copies are made by whom where one rank's host is late. On the stand-in driver, small messages by copy engines:
 * gpu_late left: with TUTTI_COPY_WAIT=0, what a rank is late for is left to the kernel, and nothing is pulled.
 * gpu_late waited: with a long TUTTI_COPY_WAIT all is pushed.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS  20000
#define ROUNDS 12
#define LATE   1     /* the rank */
#define NAP    30000 /* us */
#define MAPPED 3     /* rounds after which all buffers are */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out, *here;

static uint32_t value(int from, int round, size_t i)
{
    return (uint32_t)from * 1000003u + (uint32_t)round * 70001u + (uint32_t)i;
}

static void copy(void *to, const void *from, size_t words)
{
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, words * sizeof *here, NULL));
    DONE(cu->StreamSynchronize(NULL));
}

static void begin(int round)
{
    for (size_t i = 0; i < WORDS; i++)
        here[i] = value(rank, round, i);
    copy(in, here, WORDS);
    memset(here, 0, (size_t)nranks * WORDS * sizeof *here);
    copy(out, here, (size_t)nranks * WORDS);
}

static void expect(const uint32_t *at, int from, int round)
{
    for (size_t i = 0; i < WORDS; i++)
        require(at[i] == value(from, round, i), "the words of a rank");
}

static int pulled(void)
{
    return logged(" from buffer to buffer, pulled", NULL, 0);
}

static int pushed(void)
{
    return logged(" from buffer to buffer, pushed", NULL, 0);
}

/* Hosts have met before each round, so that the others are there long before the late one. */
static void gather(int round)
{
    begin(round);
    OK(tutti_barrier(comm, NULL));
    OK(tutti_comm_synchronize(comm));
    if (rank == LATE)
        usleep(NAP);
    OK(tutti_allgather(in, out, WORDS, TUTTI_UINT32, comm, NULL));
    OK(tutti_comm_synchronize(comm));
    copy(here, out, (size_t)nranks * WORDS);
    for (int from = 0; from < nranks; from++)
        expect(here + (size_t)from * WORDS, from, round);
}

/* The late rank's messages are there in time for who receives, and so are the others' for one another. */
static void gather_late(bool waited)
{
    int before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        before = round == MAPPED ? pushed() : before;
        gather(round);
    }
    int most = (ROUNDS - MAPPED) * (nranks - 1);
    require(pulled() == 0, "nothing is pulled");
    require(!waited || pushed() - before == most, "all is pushed");
    require(waited || rank != LATE || pushed() - before == most, "the late one's messages are pushed");
    require(waited || rank == LATE || pushed() - before < most, "what a rank is late for is left to the kernel");
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK"), *what = argc > 1 ? argv[1] : "";
    void *found[2] = {NULL, NULL};
    if (!local_rank)
        return 2;
    log_open("trace");
    OK(cuda_driver(&cu));
    DONE(cu->Init(0));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], (size_t)nranks * WORDS * sizeof *here));
    in = found[0];
    out = found[1];
    here = calloc((size_t)nranks * WORDS, sizeof *here);
    require(here != NULL, "memory");
    gather_late(strcmp(what, "waited") == 0);
    OK(tutti_comm_destroy(comm));
    free(here);
    return 0;
}
