/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of several communicators on GPUs of few processors: each waits for its peers there, so that all that one GPU
 * can be given at a time must fit on it. Needs the stand-in driver, with TUTTI_EMULATED_PROCESSORS.
 */
#include "nccl/device_testing.h"

#include <stdlib.h>
#include <string.h>

enum { FLOATS = 150000, ROUNDS = 2 };

static ncclComm_t second[MOST];
static void *other[MOST];
static float *data[MOST][2];

static int prepare(void **state)
{
    ncclUniqueId id;
    setup(state);
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclCommInitRank(&second[i], n, id, i));
        done(cu.StreamCreate(&other[i], 1));
    }
    good(ncclGroupEnd());
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            select_device(i);
            good(ncclMemAlloc((void **)&data[i][k], 2 * MOST * FLOATS * sizeof(float)));
        }
    return 0;
}

static int clear(void **state)
{
    for (int i = 0; i < n; i++) {
        select_device(i);
        for (int k = 0; k < 2; k++)
            good(ncclMemFree(data[i][k]));
        good(ncclCommDestroy(second[i]));
        done(cu.StreamDestroy_v2(other[i]));
    }
    return teardown(state);
}

typedef ncclResult_t operation(const float *from, float *to, ncclComm_t comm, void *stream);

static ncclResult_t gather(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclAllGather(from, to, FLOATS, ncclFloat, comm, stream);
}

static ncclResult_t turn_round(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclAlltoAll(from, to, FLOATS / MOST, ncclFloat, comm, stream);
}

static ncclResult_t reduce(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclAllReduce(from, to, FLOATS, ncclFloat, ncclSum, comm, stream);
}

static ncclResult_t reduce_little(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclAllReduce(from, to, 60000, ncclFloat, ncclSum, comm, stream);
}

static ncclResult_t scatter(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclReduceScatter(from, to, FLOATS / MOST, ncclFloat, ncclSum, comm, stream);
}

static ncclResult_t broadcast(const float *from, float *to, ncclComm_t comm, void *stream)
{
    return ncclBroadcast(from, to, FLOATS, ncclFloat, 1, comm, stream);
}

/* Of one communicator, on all GPUs. */
static void capture(operation *what, int k, void *exec[MOST][2])
{
    void *stream[MOST], *graph;
    for (int i = 0; i < n; i++) {
        stream[i] = k ? other[i] : rank[i].stream;
        select_device(i);
        done(cu.StreamBeginCapture_v2(stream[i], 2));
    }
    good(ncclGroupStart()); /* a call may wait for another one's host */
    for (int i = 0; i < n; i++)
        good(what(data[i][k], data[i][k] + MOST * FLOATS, k ? second[i] : rank[i].comm, stream[i]));
    good(ncclGroupEnd());
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamEndCapture(stream[i], &graph));
        done(cu.GraphInstantiateWithFlags(&exec[i][k], graph, 0));
        done(cu.GraphDestroy(graph));
    }
}

/* On GPUs of even number the first communicator comes first, on the others the second one. */
static void in_opposite_orders(operation *first, operation *next)
{
    void *exec[MOST][2];
    capture(first, 0, exec);
    capture(next, 1, exec);
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < n; i++) {
                int which = k ^ (i % 2);
                select_device(i);
                done(cu.GraphLaunch(exec[i][which], which ? other[i] : rank[i].stream));
            }
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamSynchronize(rank[i].stream));
        done(cu.StreamSynchronize(other[i]));
        for (int k = 0; k < 2; k++)
            done(cu.GraphExecDestroy(exec[i][k]));
    }
}

static void test_opposite_orders(void **state)
{
    static operation *const all[] = {gather, reduce, broadcast, turn_round, reduce_little, scatter};
    for (size_t a = 0; a < sizeof all / sizeof *all; a++)
        for (size_t b = a; b < sizeof all / sizeof *all; b++)
            in_opposite_orders(all[a], all[b]);
}

/* The ends of a pair have other messages beside it, and so other numbers of blocks for it; and not all come in one
 * order. */
static ncclResult_t uneven(int who, ncclComm_t comm, void *stream)
{
    float *mine = data[who][0], *theirs = data[who][1];
    if (who == 1) { /* one after the other */
        good(ncclRecv(theirs, FLOATS, ncclFloat, 2, comm, stream));
        return ncclSend(mine, FLOATS, ncclFloat, 0, comm, stream);
    }
    if (who == 2) {
        good(ncclRecv(theirs, FLOATS, ncclFloat, 0, comm, stream));
        return ncclSend(mine, FLOATS, ncclFloat, 1, comm, stream);
    }
    if (who > 2)
        return ncclSuccess;
    good(ncclGroupStart());
    good(ncclRecv(theirs, FLOATS, ncclFloat, 1, comm, stream));
    good(ncclSend(mine, FLOATS, ncclFloat, 2, comm, stream));
    return ncclGroupEnd();
}

static void test_uneven_messages(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) {
            select_device(i);
            good(uneven(i, rank[i].comm, rank[i].stream));
        }
        for (int i = 0; i < n; i++)
            done(cu.StreamSynchronize(rank[i].stream));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_uneven_messages), cmocka_unit_test(test_opposite_orders)};
    if (load_driver()) {
        print_message("no libcuda.so.1 with devices\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, prepare, clear);
}
