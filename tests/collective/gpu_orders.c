/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_orders: two communicators that odd ranks use in another order than even ones, from their first long reduction and
 * broadcast on. On the stand-in driver, one process a rank: tutti run -n 3 -- gpu_orders.
 */
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdlib.h>

#define ROUNDS 2
#define WORDS  300000 /* long enough for scratch that is made at its first use */

static tutti_comm_t world, comm[2];
static CUstream stream[2];
static int rank, nranks;
static int32_t *data[2];

static void begin(int which)
{
    int root = nranks - 1;
    for (size_t i = 0; i < WORDS; i++)
        data[which][i] = (int32_t)i + (which + 1) * rank;
    OK(tutti_allreduce(data[which], data[which], WORDS, TUTTI_INT32, TUTTI_SUM, comm[which],
                       (tutti_stream_t)stream[which]));
    OK(tutti_broadcast(data[which], data[which] + WORDS, WORDS, TUTTI_INT32, root, comm[which],
                       (tutti_stream_t)stream[which]));
}

static void check(int which)
{
    int32_t ranks = (which + 1) * nranks * (nranks - 1) / 2;
    OK(tutti_comm_synchronize(comm[which]));
    for (size_t i = 0; i < 2 * WORDS; i++)
        require(data[which][i] == (int32_t)(i % WORDS) * nranks + ranks, "the sum on all ranks");
}

int main(void)
{
    const struct cuda_driver *cu;
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    if (!local_rank)
        return 2;
    gpu_select(atoi(local_rank));
    OK(cuda_driver(&cu));
    tutti_config_t config = gpu_config();
    OK(tutti_comm_init_from_env(&world, &config));
    OK(tutti_comm_rank(world, &rank));
    OK(tutti_comm_count(world, &nranks));
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        OK(tutti_device_mem_alloc(&memory, 2 * WORDS * sizeof(int32_t)));
        data[i] = memory;
        DONE(cu->StreamCreateWithPriority(&stream[i], CU_STREAM_NON_BLOCKING, 0));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            OK(tutti_comm_split(world, 0, i ? -rank : rank, &comm[i], NULL));
        for (int i = 0; i < 2; i++)
            begin((i + rank) % 2);
        for (int i = 0; i < 2; i++)
            check(i);
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
