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
#define MANY   1000  /* rounds in which peers map all buffers */

static tutti_comm_t comm, hosts; /* of GPUs; of their hosts, which tell each other when they have called */
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

/* Hosts meet. */
static bool all_say(bool yes)
{
    uint32_t mine = yes, all = 0;
    OK(tutti_allreduce(&mine, &all, 1, TUTTI_UINT32, TUTTI_MIN, hosts, NULL));
    OK(tutti_comm_synchronize(hosts));
    return all != 0;
}

/* The others have called before the late one does, unless they wait for it in that call. */
static void come(bool waited)
{
    if (rank == LATE && waited)
        usleep(NAP);
    if (rank == LATE && !waited)
        all_say(true);
    OK(tutti_allgather(in, out, WORDS, TUTTI_UINT32, comm, NULL));
    if (rank != LATE && !waited)
        all_say(true);
}

static void gather(int round, bool waited)
{
    begin(round);
    OK(tutti_barrier(comm, NULL));
    OK(tutti_comm_synchronize(comm));
    come(waited);
    OK(tutti_comm_synchronize(comm));
    copy(here, out, (size_t)nranks * WORDS);
    for (int from = 0; from < nranks; from++)
        expect(here + (size_t)from * WORDS, from, round);
}

/* Rounds until peers have mapped all buffers: all that is to be pushed is. Returns how many there were. */
static int map_all(bool waited)
{
    bool mapped = false;
    int round = 0;
    for (; !mapped && round < MANY; round++) {
        int before = pushed();
        gather(round, waited);
        mapped = all_say((!waited && rank != LATE) || pushed() - before == nranks - 1);
    }
    require(mapped, "buffers are mapped");
    return round;
}

/* The late rank's messages are there in time for who receives, and so are the others' for one another. */
static void gather_late(bool waited)
{
    int first = map_all(waited), before = pushed(), most = ROUNDS * (nranks - 1);
    for (int round = first; round < first + ROUNDS; round++)
        gather(round, waited);
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
    OK(tutti_comm_init_from_env(&hosts, NULL));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], (size_t)nranks * WORDS * sizeof *here));
    in = found[0];
    out = found[1];
    here = calloc((size_t)nranks * WORDS, sizeof *here);
    require(here != NULL, "memory");
    gather_late(strcmp(what, "waited") == 0);
    OK(tutti_comm_destroy(comm));
    OK(tutti_comm_destroy(hosts));
    free(here);
    return 0;
}
