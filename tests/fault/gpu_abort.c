/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_abort: two processes, two communicators of the same GPUs. Whatever is under way on one of them, giving up or
 * destroying the other one returns: nothing of that waits for all work of the GPU. Needs the stand-in driver.
 */
#include "family.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>

#define LARGE 400000 /* words: peers map one another's buffers, and large scratch */

static const struct cuda_driver *cu;

struct rank {
    struct family *family;
    int rank;
    tutti_comm_t a, b;
    CUstream stream[2];
    uint32_t *in, *out;
};

static size_t free_memory(void)
{
    size_t left = 0, total;
    DONE(cu->MemGetInfo(&left, &total));
    return left;
}

static void use(struct rank *me, tutti_comm_t comm)
{
    for (int turn = 0; turn < 4; turn++) {
        OK(tutti_group_start());
        OK(tutti_send(me->in, LARGE, TUTTI_UINT32, !me->rank, comm, (tutti_stream_t)me->stream[0]));
        OK(tutti_recv(me->out, LARGE, TUTTI_UINT32, !me->rank, comm, (tutti_stream_t)me->stream[0]));
        OK(tutti_group_end());
        OK(tutti_allreduce(me->in, me->out, LARGE, TUTTI_UINT32, TUTTI_SUM, comm, (tutti_stream_t)me->stream[0]));
        OK(tutti_comm_synchronize(comm));
    }
}

/* Until both ranks are here. */
static void meet(struct rank *me)
{
    uint64_t times = atomic_fetch_add(&me->family->report[me->rank].rounds, 1) + 1;
    while (atomic_load(&me->family->report[!me->rank].rounds) < times)
        family_nap(1);
}

/* Rank 1 never comes. The communicators are given up in the order in which they are not used. */
static void abort_one_by_one(struct rank *me)
{
    if (me->rank == 0) {
        OK(tutti_recv(me->out, 1000, TUTTI_UINT32, 1, me->a, (tutti_stream_t)me->stream[0]));
        OK(tutti_send(me->in, LARGE, TUTTI_UINT32, 1, me->b, (tutti_stream_t)me->stream[1]));
        OK(tutti_comm_abort(me->b));
        OK(tutti_comm_destroy(me->b));
    }
    meet(me);
    if (me->rank == 1)
        OK(tutti_comm_destroy(me->b));
    OK(tutti_comm_abort(me->a));
    OK(tutti_comm_destroy(me->a));
    meet(me);
}

/* Each rank's call finds nothing under way, rank 0's once more when rank 1 has let go, too. */
static void call_in_turns(struct rank *me)
{
    for (int turn = 0; turn < 3; turn++) {
        OK(tutti_comm_synchronize(me->a));
        meet(me);
        if (turn % 2 == me->rank)
            OK(tutti_send(me->in, 10, TUTTI_UINT32, !me->rank, me->a, (tutti_stream_t)me->stream[0]));
        meet(me);
        if (turn % 2 != me->rank)
            OK(tutti_recv(me->out, 10, TUTTI_UINT32, !me->rank, me->a, (tutti_stream_t)me->stream[0]));
    }
    OK(tutti_comm_synchronize(me->a));
}

/* Each rank's GPU waits for what the other rank issues when it has destroyed a communicator. */
static void destroy_between(struct rank *me)
{
    tutti_comm_t gone, first = me->rank ? me->b : me->a, then = me->rank ? me->a : me->b;
    call_in_turns(me);
    size_t before = free_memory();
    OK(tutti_comm_split(me->a, 0, me->rank, &gone, NULL));
    use(me, gone);
    require(free_memory() < before, "a communicator takes memory");
    OK(tutti_recv(me->out, LARGE, TUTTI_UINT32, !me->rank, first, (tutti_stream_t)me->stream[0]));
    meet(me);
    OK(tutti_comm_destroy(gone));
    OK(tutti_send(me->in, LARGE, TUTTI_UINT32, !me->rank, then, (tutti_stream_t)me->stream[1]));
    OK(tutti_comm_synchronize(first));
    OK(tutti_comm_synchronize(then));
    call_in_turns(me);
    require(free_memory() == before, "what was destroyed while GPUs were busy is freed by later calls");
    OK(tutti_comm_destroy(me->b));
    OK(tutti_comm_destroy(me->a));
}

static void work(struct family *family, int rank, tutti_comm_t comm)
{
    static void (*const scenes[])(struct rank *) = {abort_one_by_one, destroy_between};
    struct rank me = {.family = family, .rank = rank, .a = comm};
    void *memory;
    OK(cuda_driver(&cu));
    for (int i = 0; i < 2; i++)
        DONE(cu->StreamCreateWithPriority(&me.stream[i], CU_STREAM_NON_BLOCKING, 0));
    OK(tutti_device_mem_alloc(&memory, 2 * LARGE * sizeof(uint32_t)));
    me.in = memory;
    me.out = me.in + LARGE;
    OK(tutti_comm_split(comm, 0, rank, &me.b, NULL));
    use(&me, me.a);
    use(&me, me.b);
    meet(&me);
    scenes[family->variant](&me);
}

int main(void)
{
    int failures = 0;
    setenv("TUTTI_TEST_GPU", "1", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
    setenv("TUTTI_COPY_FROM", "64K", 0);
    for (int variant = 0; variant < 2; variant++) {
        struct family *family = family_start(2, -1, variant, 1, work);
        failures += !family_wait(family, 30);
        family_free(family);
    }
    return failures != 0;
}
