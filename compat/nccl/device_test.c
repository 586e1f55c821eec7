/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's calls on device memory: what a program of one process and several GPUs does. Runs on whatever libcuda.so.1 is
 * found: the stand-in of emulation/cuda, or GPUs.
 */
#include "nccl/device_testing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *value);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);

static void test_answers(void **state)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++) {
        int device = -1;
        good(ncclCommCuDevice(rank[i].comm, &device));
        assert_int_equal(device, i);
        good(ncclCommMemStats(rank[i].comm, 3, &total));
        assert_true(total > 0);
    }
}

static void test_allreduce(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    check_sum(1);
}

static void test_moves(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        good(ncclSend(rank[i].send, COUNT, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
        good(ncclRecv(rank[i].recv, COUNT, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
    }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        assert_float_equal(result_of(who, COUNT)[COUNT - 1], value_of((who + n - 1) % n, COUNT - 1), 0);
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclAlltoAll(rank[i].send, rank[i].recv, COUNT, ncclFloat, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++) {
        const float *values = result_of(who, (size_t)n * COUNT);
        for (int i = 0; i < n * COUNT; i++)
            assert_float_equal(values[i], value_of(i / COUNT, who * COUNT + i % COUNT), 0);
    }
}

/* ---- Long broadcasts, which are passed on ---- */

static void broadcast_all(float **data, int root)
{
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclBroadcast(data[i], data[i], LONG, ncclFloat, root, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
}

static void check_long(float **data, int root)
{
    static float values[LONG];
    for (int who = 0; who < n; who++) {
        select_device(who);
        done(cu.StreamSynchronize(rank[who].stream));
        done(cu.MemcpyDtoH_v2(values, data[who], sizeof values));
        for (int i = 0; i < LONG; i++)
            assert_float_equal(values[i], value_of(root, i), 0);
    }
}

static void *capture_broadcasts(float **data, int who)
{
    void *graph, *exec;
    select_device(who);
    done(cu.StreamBeginCapture_v2(rank[who].stream, 2)); /* as nobody else minds */
    for (int root = 0; root < n; root++)
        good(ncclBroadcast(data[who], data[who], LONG, ncclFloat, root, rank[who].comm, rank[who].stream));
    done(cu.StreamEndCapture(rank[who].stream, &graph));
    done(cu.GraphInstantiateWithFlags(&exec, graph, 0));
    done(cu.GraphDestroy(graph));
    return exec;
}

static void test_long_broadcasts(void **state)
{
    float *data[MOST];
    void *exec[MOST];
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclMemAlloc((void **)&data[i], LONG * sizeof(float)));
    }
    for (int root = 0; root < n; root++) {
        set_long(data, root);
        broadcast_all(data, root);
        check_long(data, root);
    }
    for (int i = 0; i < n; i++)
        exec[i] = capture_broadcasts(data, i);
    for (int times = 0; times < 3; times++) {
        for (int i = 0; i < n; i++)
            set_long(data, i);
        for (int i = 0; i < n; i++)
            done(cu.GraphLaunch(exec[i], rank[i].stream));
        check_long(data, 0);
    }
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.GraphExecDestroy(exec[i]));
        good(ncclMemFree(data[i]));
    }
}

/* The scalar is in device memory, and the operator is destroyed before the group ends. */
static void test_device_scalar(void **state)
{
    static const float two = 2;
    float *scalar[MOST];
    fill();
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclMemAlloc((void **)&scalar[i], sizeof two));
        done(cu.MemcpyHtoD_v2(scalar[i], &two, sizeof two));
    }
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        ncclRedOp_t op;
        good(ncclRedOpCreatePreMulSum(&op, scalar[i], ncclFloat, ncclScalarDevice, rank[i].comm));
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, op, rank[i].comm, rank[i].stream));
        good(ncclRedOpDestroy(op, rank[i].comm));
    }
    good(ncclGroupEnd());
    check_sum(2);
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclMemFree(scalar[i]));
    }
}

static void test_registration_in_group(void **state)
{
    void *handle[MOST];
    ncclWindow_t window[MOST];
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        select_device(i);
        good(ncclCommRegister(rank[i].comm, rank[i].send, COUNT * sizeof(float), &handle[i]));
        good(ncclCommWindowRegister(rank[i].comm, rank[i].recv, COUNT * sizeof(float), &window[i],
                                    NCCL_WIN_COLL_SYMMETRIC));
    }
    good(ncclGroupEnd());
    test_allreduce(state);
    for (int i = 0; i < n; i++) {
        assert_non_null(window[i]);
        good(ncclCommDeregister(rank[i].comm, handle[i]));
        good(ncclCommWindowDeregister(rank[i].comm, window[i]));
    }
}

/* As nccl-tests with NCCL_TESTS_SPLIT: one thread divides all ranks in one group. */
static void test_split_in_group(void **state)
{
    ncclComm_t child[MOST], turned[MOST];
    int count, device, place;
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) { /* two of one parent */
        char name[] = "turned";
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.commName = name;
        good(ncclCommSplit(rank[i].comm, i % 2, i, &child[i], NULL));
        good(ncclCommSplit(rank[i].comm, 0, -i, &turned[i], &config));
        memset(name, 'x', sizeof name); /* the caller's again */
    }
    good(ncclGroupEnd());
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        good(ncclCommUserRank(turned[i], &place));
        assert_int_equal(place, n - 1 - i);
        good(ncclCommCount(child[i], &count));
        assert_int_equal(count, (n + 1 - i % 2) / 2);
        good(ncclCommCuDevice(child[i], &device));
        assert_int_equal(device, i);
        good(ncclBroadcast(rank[i].send, rank[i].recv, COUNT, ncclFloat, 0, child[i], rank[i].stream));
    }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        assert_float_equal(result_of(who, COUNT)[1], value_of(who % 2, 1), 0);
    for (int i = 0; i < n; i++) {
        good(ncclCommDestroy(child[i]));
        good(ncclCommDestroy(turned[i]));
    }
}

static void test_devices_by_list(void **state)
{
    ncclComm_t comms[MOST];
    int list[MOST], device;
    for (int i = 0; i < n; i++)
        list[i] = n - 1 - i;
    good(ncclCommInitAll(comms, n, list));
    for (int i = 0; i < n; i++) {
        good(ncclCommCuDevice(comms[i], &device));
        assert_int_equal(device, list[i]);
        good(ncclCommDestroy(comms[i]));
    }
}

static uint64_t statistic(int which, ncclComm_t comm)
{
    uint64_t value = 0;
    good(ncclCommMemStats(comm, which, &value));
    return value;
}

static void sum_on(ncclComm_t *comms)
{
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, comms[i], rank[i].stream));
    good(ncclGroupEnd());
    check_sum(1);
}

/* All ranks of this thread rest and wake together, in groups. Nothing of the GPUs is held meanwhile, and another
 * communicator works on. */
static void test_suspended(void **state)
{
    ncclComm_t comms[MOST];
    good(ncclCommInitAll(comms, n, NULL));
    fails(ncclCommSuspend(comms[0], 0), ncclInvalidArgument);
    fails(ncclCommResume(comms[0]), ncclInvalidUsage);
    for (int times = 0; times < 3; times++) {
        sum_on(comms);
        uint64_t held = statistic(3, comms[0]);
        assert_true(held > 0 && statistic(0, comms[0]) == held && statistic(1, comms[0]) == 0);
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclCommSuspend(comms[i], 1));
        good(ncclGroupEnd());
        for (int i = 0; i < n; i++)
            assert_true(statistic(1, comms[i]) == 1 && statistic(3, comms[i]) == 0);
        assert_true(statistic(0, comms[0]) == held && statistic(2, comms[0]) == 0);
        fails(ncclAllReduce(rank[0].send, rank[0].recv, COUNT, ncclFloat, ncclSum, comms[0], rank[0].stream),
              ncclInvalidUsage);
        said("suspended");
        sum_on((ncclComm_t[MOST]){rank[0].comm, rank[1].comm, rank[2].comm, rank[3].comm});
        if (times == 2)
            break;
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclCommResume(comms[i]));
        good(ncclGroupEnd());
    }
    for (int i = 0; i < n; i++)
        good(ncclCommDestroy(comms[i]));
}

/* Graphs hold addresses of what would be freed. */
static void test_suspended_with_graphs(void **state)
{
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclCommSuspend(rank[i].comm, 1));
    fails(ncclGroupEnd(), ncclInvalidUsage);
    said("CUDA graphs");
    test_allreduce(state);
}

/* A driver's call fails for one of the ranks: the group's end says so, the others hear of it, and nothing waits for
 * ever. */
static void test_failing_groups(void **state)
{
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        result = ncclGroupEnd();
    }
    assert_int_equal(result, ncclUnhandledCudaError);
    said("launch a kernel");
    for (int i = 0; i < n; i++) {
        ncclResult_t heard = ncclSuccess;
        while (heard == ncclSuccess)
            good(ncclCommGetAsyncError(rank[i].comm, &heard));
        good(ncclCommAbort(rank[i].comm));
    }
    for (int i = 0; i < n; i++) { /* what was given up has read the buffers for the last time */
        select_device(i);
        done(cu.StreamSynchronize(rank[i].stream));
    }
    make_comms();
}

/* TUTTI_TEST_FAULT: the driver was told to fail later on. */
static int run_faults(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failing_groups), cmocka_unit_test(test_allreduce)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_allreduce),
        cmocka_unit_test(test_many_in_a_group),
        cmocka_unit_test(test_change_of_stream),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_long_broadcasts),
        cmocka_unit_test(test_suspended),
        cmocka_unit_test(test_suspended_with_graphs),
        cmocka_unit_test(test_device_scalar),
        cmocka_unit_test(test_registration_in_group),
        cmocka_unit_test(test_split_in_group),
        cmocka_unit_test(test_devices_by_list),
        cmocka_unit_test(test_quick_groups),
        cmocka_unit_test(test_long_group),
        cmocka_unit_test(test_many_messages),
        cmocka_unit_test(test_long_group_by_gpu),
        cmocka_unit_test(test_messages_around_collective),
        cmocka_unit_test(test_messages_on_streams),
        cmocka_unit_test(test_collectives_on_streams),
        cmocka_unit_test(test_aborts_in_a_group),
    };
    if (load_driver()) {
        print_message("no libcuda.so.1 with devices\n");
        return 77;
    }
    return getenv("TUTTI_TEST_FAULT") ? run_faults() : cmocka_run_group_tests(tests, setup, teardown);
}
