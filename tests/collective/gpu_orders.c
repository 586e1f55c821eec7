/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_orders: two communicators that odd ranks use in another order than even ones, from their first long reduction and
 * broadcast on. On the stand-in driver, one process a rank: tutti run -n 3 -- gpu_orders. gpu_orders refused: the
 * driver refuses some memory for them, and nobody waits for it.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 2
#define WORDS  300000 /* long enough for scratch that is made at its first use */

static tutti_comm_t world, comm[2];
static CUstream stream[2];
static int rank, nranks;
static int32_t *data[2];

static tutti_result_t reduce(int which)
{
    for (size_t i = 0; i < WORDS; i++)
        data[which][i] = (int32_t)i + (which + 1) * rank;
    return tutti_allreduce(data[which], data[which], WORDS, TUTTI_INT32, TUTTI_SUM, comm[which],
                           (tutti_stream_t)stream[which]);
}

static void begin(int which)
{
    OK(reduce(which));
    OK(tutti_broadcast(data[which], data[which] + WORDS, WORDS, TUTTI_INT32, nranks - 1, comm[which],
                       (tutti_stream_t)stream[which]));
}

static void check(int which)
{
    int32_t ranks = (which + 1) * nranks * (nranks - 1) / 2;
    OK(tutti_comm_synchronize(comm[which]));
    for (size_t i = 0; i < 2 * WORDS; i++)
        require(data[which][i] == (int32_t)(i % WORDS) * nranks + ranks, "the sum on all ranks");
}

static void use(void)
{
    for (int i = 0; i < 2; i++)
        begin((i + rank) % 2);
    for (int i = 0; i < 2; i++)
        check(i);
}

/* Each communicator ends well or fails for that memory, on all ranks alike; one does. */
static void use_refused(void)
{
    bool failed[2] = {false};
    for (int i = 0; i < 2; i++)
        failed[(i + rank) % 2] = reduce((i + rank) % 2) != TUTTI_SUCCESS;
    for (int i = 0; i < 2; i++) {
        failed[i] |= tutti_comm_synchronize(comm[i]) != TUTTI_SUCCESS;
        require(!failed[i] || strstr(tutti_get_last_error(comm[i]), "allocating device memory"), "the cause is told");
    }
    require(failed[0] || failed[1], "memory is refused");
    OK(tutti_barrier(world, NULL)); /* nobody hears of a rank that has gone */
    OK(tutti_comm_synchronize(world));
}

int main(int argc, char **argv)
{
    const struct cuda_driver *cu;
    bool refused = argc > 1 && strcmp(argv[1], "refused") == 0;
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (!local_rank)
        return 2;
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    gpu_join(&world, &rank, &nranks);
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        OK(tutti_device_mem_alloc(&memory, 2 * WORDS * sizeof(int32_t)));
        data[i] = memory;
        DONE(cu->StreamCreateWithPriority(&stream[i], CU_STREAM_NON_BLOCKING, 0));
    }
    for (int round = 0; round < (refused ? 1 : ROUNDS); round++) {
        for (int i = 0; i < 2; i++)
            OK(tutti_comm_split(world, 0, i ? -rank : rank, &comm[i], NULL));
        refused ? use_refused() : use();
        for (int i = 0; i < 2; i++)
            tutti_comm_destroy(comm[i]);
    }
    for (int i = 0; i < 2; i++) {
        OK(tutti_device_mem_free(data[i]));
        DONE(cu->StreamDestroy(stream[i]));
    }
    tutti_comm_destroy(world);
    return 0;
}
