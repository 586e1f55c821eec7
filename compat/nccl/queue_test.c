/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All streams of a GPU share one hardware queue, as CUDA_DEVICE_MAX_CONNECTIONS=1 has it: what is posted ahead and
 * waits for a peer must not hold up what that peer waits for. Needs the stand-in driver, with
 * TUTTI_EMULATED_CONNECTIONS=1.
 */
#include "nccl/device_testing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FLOATS = 40000 };

static ncclComm_t second[2];
static void *other[2];
static float *data[2][2];

static int prepare(void **state)
{
    ncclUniqueId id;
    n = 2;
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
            good(ncclMemAlloc((void **)&data[i][k], FLOATS * sizeof(float)));
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

static void set(int who, int which, float value)
{
    static float values[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        values[i] = value + (float)(i % 100);
    select_device(who);
    done(cu.MemcpyHtoD_v2(data[who][which], values, sizeof values));
}

static void check(int who, int which, float value)
{
    static float values[FLOATS];
    select_device(who);
    done(cu.MemcpyDtoH_v2(values, data[who][which], sizeof values));
    for (int i = 0; i < FLOATS; i++)
        assert_float_equal(values[i], value + (float)(i % 100), 0);
}

/*
 * GPU 0 posts a receive, and then sends on another stream and communicator. GPU 1 sends only when it has received that.
 * sends_first: of the second message GPU 0's end comes first, and copies nothing.
 */
static void receive_ahead(bool sends_first)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            set(i, k, (float)(1000 * i + 100 * k));
    select_device(0);
    good(ncclRecv(data[0][0], FLOATS, ncclFloat, 1, rank[0].comm, rank[0].stream));
    if (sends_first)
        good(ncclSend(data[0][1], FLOATS, ncclFloat, 1, second[0], other[0]));
    select_device(1);
    good(ncclRecv(data[1][1], FLOATS, ncclFloat, 0, second[1], other[1]));
    select_device(0);
    if (!sends_first)
        good(ncclSend(data[0][1], FLOATS, ncclFloat, 1, second[0], other[0]));
    done(cu.StreamSynchronize(other[1]));
    check(1, 1, 100);
    select_device(1);
    good(ncclSend(data[1][0], FLOATS, ncclFloat, 0, rank[1].comm, rank[1].stream));
    for (int i = 0; i < n; i++) {
        done(cu.StreamSynchronize(rank[i].stream));
        done(cu.StreamSynchronize(other[i]));
    }
    check(0, 0, 1000);
}

static void test_receive_ahead(void **state)
{
    for (int times = 0; times < 6; times++)
        receive_ahead(times % 2);
}

/* The same, and a computation in the receiving stream, behind what it waits for. */
static void test_work_behind(void **state)
{
    for (int times = 0; times < 4; times++) {
        set(0, 0, 1);
        set(1, 1, 2);
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(data[i][i], data[i][!i], FLOATS, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        for (int i = 0; i < n; i++)
            good(ncclAllGather(data[i][!i], data[i][i], FLOATS / 2, ncclFloat, rank[i].comm, rank[i].stream));
        good(ncclGroupEnd());
        for (int i = 0; i < n; i++)
            done(cu.StreamSynchronize(rank[i].stream));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_receive_ahead), cmocka_unit_test(test_work_behind)};
    if (load_driver() || n < 2) {
        print_message("no libcuda.so.1 with two devices\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, prepare, clear);
}
