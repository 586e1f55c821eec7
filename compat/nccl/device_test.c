/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's calls on device memory: what a program of one process and several GPUs does. Runs on whatever libcuda.so.1 is found:
 * the stand-in of emulation/cuda, or GPUs.
 */
#include "nccl_testing.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *value);

enum { MOST = 4, COUNT = 3000 };

/* The driver: the few calls that a program makes itself. */
static struct {
    int (*Init)(unsigned);
    int (*DeviceGetCount)(int *);
    int (*DeviceGet)(int *, int);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*StreamCreate)(void **, unsigned);
    int (*StreamSynchronize)(void *);
    int (*StreamDestroy_v2)(void *);
    int (*StreamWaitValue32_v2)(void *, void *, uint32_t, unsigned);
    int (*MemHostAlloc)(void **, size_t, unsigned);
    int (*MemFreeHost)(void *);
    int (*MemcpyHtoD_v2)(void *, const void *, size_t);
    int (*MemcpyDtoH_v2)(void *, const void *, size_t);
    int (*MemAllocManaged)(void **, size_t, unsigned);
    int (*MemFree_v2)(void *);
    int (*StreamBeginCapture_v2)(void *, int);
    int (*StreamEndCapture)(void *, void **);
    int (*GraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*GraphLaunch)(void *, void *);
    int (*GraphExecDestroy)(void *);
    int (*GraphDestroy)(void *);
} cu;

static struct {
    void *context, *stream;
    ncclComm_t comm;
    float *send, *recv;
} rank[MOST];
static int n;

#define done(call) assert_int_equal((call), 0)
#define LOAD(name) (*(void **)&cu.name = dlsym(driver, "cu" #name))

static void select_device(int which)
{
    done(cu.CtxSetCurrent(rank[which].context));
}

/* Managed memory, if asked for: no other GPU reaches it by its address alone. */
static void allocate(float **out, bool managed)
{
    if (managed && getenv("TUTTI_TEST_MANAGED"))
        done(cu.MemAllocManaged((void **)out, MOST * COUNT * sizeof(float), 1));
    else
        good(ncclMemAlloc((void **)out, MOST * COUNT * sizeof(float)));
}

static void release(float *memory, bool managed)
{
    if (managed && getenv("TUTTI_TEST_MANAGED"))
        done(cu.MemFree_v2(memory));
    else
        good(ncclMemFree(memory));
}

static int load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver && LOAD(Init) && LOAD(DeviceGetCount) && LOAD(DeviceGet) && LOAD(DevicePrimaryCtxRetain) && LOAD(CtxSetCurrent) &&
                   LOAD(StreamCreate) && LOAD(StreamSynchronize) && LOAD(StreamDestroy_v2) && LOAD(StreamWaitValue32_v2) &&
                   LOAD(MemHostAlloc) && LOAD(MemFreeHost) && LOAD(MemcpyHtoD_v2) && LOAD(MemcpyDtoH_v2) &&
                   LOAD(MemAllocManaged) && LOAD(MemFree_v2) && LOAD(StreamBeginCapture_v2) && LOAD(StreamEndCapture) &&
                   LOAD(GraphInstantiateWithFlags) && LOAD(GraphLaunch) && LOAD(GraphExecDestroy) && LOAD(GraphDestroy) &&
                   !cu.Init(0) && !cu.DeviceGetCount(&n)
               ? 0
               : -1;
}

/* As nccl-tests: all inits in one group, each with its device current, then memory and registration in another. */
static void make_comms(void)
{
    ncclUniqueId id;
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.nvlinkCentricSched = 1;
        select_device(i);
        good(ncclCommInitRankConfig(&rank[i].comm, n, id, i, &config));
    }
    good(ncclGroupEnd());
}

static int setup(void **state)
{
    n = n < MOST ? n : MOST;
    for (int i = 0; i < n; i++) {
        int device;
        done(cu.DeviceGet(&device, i));
        done(cu.DevicePrimaryCtxRetain(&rank[i].context, device));
        select_device(i);
        done(cu.StreamCreate(&rank[i].stream, 1));
    }
    make_comms();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        select_device(i);
        allocate(&rank[i].send, i == 0);
        allocate(&rank[i].recv, i == 1);
    }
    good(ncclGroupEnd());
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < n; i++) {
        select_device(i);
        release(rank[i].send, i == 0);
        release(rank[i].recv, i == 1);
        good(ncclCommDestroy(rank[i].comm));
        done(cu.StreamDestroy_v2(rank[i].stream));
    }
    return 0;
}

static float value_of(int who, int i)
{
    return (float)(100 * who + i % 50);
}

static void fill(void)
{
    static float values[MOST * COUNT];
    for (int who = 0; who < n; who++) {
        for (int i = 0; i < MOST * COUNT; i++)
            values[i] = value_of(who, i);
        select_device(who);
        done(cu.MemcpyHtoD_v2(rank[who].send, values, sizeof values));
        memset(values, 0xff, sizeof values);
        done(cu.MemcpyHtoD_v2(rank[who].recv, values, sizeof values));
    }
}

static const float *result_of(int who, size_t count)
{
    static float values[MOST * COUNT];
    select_device(who);
    done(cu.StreamSynchronize(rank[who].stream));
    done(cu.MemcpyDtoH_v2(values, rank[who].recv, count * sizeof *values));
    return values;
}

static void check_sum(float factor)
{
    for (int who = 0; who < n; who++) {
        const float *values = result_of(who, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(values[i], factor * (float)(100 * (n * (n - 1) / 2) + n * (i % 50)), 0);
    }
}

static void test_answers(void **state)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++) {
        int device = -1;
        good(ncclCommCuDevice(rank[i].comm, &device));
        assert_int_equal(device, i);
        good(ncclCommMemStats(rank[i].comm, 0, &total));
        assert_int_equal(total, 0);
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

/* Twenty in a group, one behind the other: the last one's result is there. */
static void test_many_in_a_group(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    check_sum(1);
}

/* Operations of a communicator follow one another on different streams, too, also if the first is held up and its stream is gone. */
static void test_change_of_stream(void **state)
{
    void *held[MOST], *memory;
    select_device(0);
    done(cu.MemHostAlloc(&memory, sizeof(uint32_t), 1 | 2)); /* portable, mapped: its address is good everywhere */
    _Atomic uint32_t *go = memory;
    atomic_store(go, 0);
    fill();
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamCreate(&held[i], 1));
        done(cu.StreamWaitValue32_v2(held[i], memory, 1, 0));
    }
    for (int turn = 0; turn < 3; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(turn ? rank[i].recv : rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm,
                               turn == 1 ? rank[i].stream : held[i]));
        good(ncclGroupEnd());
    }
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        done(cu.StreamDestroy_v2(held[i]));
        good(ncclAllReduce(rank[i].recv, rank[i].recv, COUNT, ncclFloat, ncclMax, rank[i].comm, rank[i].stream));
    }
    good(ncclGroupEnd());
    atomic_store(go, 1);
    check_sum((float)(n * n));
    done(cu.MemFreeHost(memory));
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

enum { LONG = 300001 }; /* floats */

static void broadcast_all(float **data, int root)
{
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclBroadcast(data[i], data[i], LONG, ncclFloat, root, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
}

/* Everybody's data become `who`'s numbers, or must be. */
static void set_long(float **data, int who)
{
    static float values[LONG];
    for (int i = 0; i < LONG; i++)
        values[i] = value_of(who, i);
    select_device(who);
    done(cu.MemcpyHtoD_v2(data[who], values, sizeof values));
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
        good(ncclCommWindowRegister(rank[i].comm, rank[i].recv, COUNT * sizeof(float), &window[i], NCCL_WIN_COLL_SYMMETRIC));
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
    ncclComm_t child[MOST];
    int count, device;
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        good(ncclCommSplit(rank[i].comm, i % 2, i, &child[i], NULL));
    good(ncclGroupEnd());
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        good(ncclCommCount(child[i], &count));
        assert_int_equal(count, (n + 1 - i % 2) / 2);
        good(ncclCommCuDevice(child[i], &device));
        assert_int_equal(device, i);
        good(ncclBroadcast(rank[i].send, rank[i].recv, COUNT, ncclFloat, 0, child[i], rank[i].stream));
    }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        assert_float_equal(result_of(who, COUNT)[1], value_of(who % 2, 1), 0);
    for (int i = 0; i < n; i++)
        good(ncclCommDestroy(child[i]));
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

/* More than the board has places for: what is issued for one rank needs what was called before for another. */
static void test_long_group(void **state)
{
    if (!getenv("TUTTI_COPY_FROM")) /* kernels carry it, and need no places */
        return;
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 70; turn++)
        for (int i = 0; i < n; i++)
            good(ncclAllGather(rank[i].send, rank[i].recv, COUNT, ncclFloat, rank[i].comm, rank[i].stream));
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        for (int from = 0; from < n; from++)
            assert_float_equal(result_of(who, MOST * COUNT)[from * COUNT + 7], value_of(from, 7), 0);
}

/* In quick succession, so that other threads help to issue them: what each rank issues stays in order. */
static void test_quick_groups(void **state)
{
    fill();
    for (int turn = 0; turn < 40; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++) {
            good(ncclSend(rank[i].send, COUNT, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
            good(ncclRecv(rank[i].recv, COUNT, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
        }
        good(ncclGroupEnd());
        good(ncclGroupStart());
        for (int i = 0; i < n; i++)
            good(ncclAllReduce(rank[i].recv, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        good(ncclGroupEnd());
    }
    check_sum(1);
}

/* Likewise, all calls for one GPU before those for the next. */
static void test_long_group_by_gpu(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++)
        for (int turn = 0; turn < 70; turn++) {
            good(ncclAllGather(rank[i].send, rank[i].recv, 600, ncclFloat, rank[i].comm, rank[i].stream));
            good(ncclBroadcast(rank[i].send, rank[i].recv + n * 600, 600, ncclFloat, 0, rank[i].comm, rank[i].stream));
        }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++) {
        for (int from = 0; from < n; from++)
            assert_float_equal(result_of(who, MOST * COUNT)[from * 600 + 7], value_of(from, 7), 0);
        assert_float_equal(result_of(who, MOST * COUNT)[n * 600 + 7], value_of(0, 7), 0);
    }
}

/* Likewise, of one pair in one operation. */
static void test_many_messages(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int turn = 0; turn < 70; turn++)
        for (int i = 0; i < n; i++) {
            good(ncclSend(rank[i].send + turn, 500, ncclFloat, (i + 1) % n, rank[i].comm, rank[i].stream));
            good(ncclRecv(rank[i].recv + turn, 500, ncclFloat, (i + n - 1) % n, rank[i].comm, rank[i].stream));
        }
    good(ncclGroupEnd());
    for (int who = 0; who < n; who++)
        for (int i = 0; i < 500; i++)
            assert_float_equal(result_of(who, COUNT)[69 + i], value_of((who + n - 1) % n, 69 + i), 0);
}

/* Everybody sends to rank 0, the odd ones in front of a collective and the others behind it. */
static void test_messages_around_collective(void **state)
{
    float *to[MOST];
    fill();
    good(ncclGroupStart());
    for (int i = 0; i < n; i++) {
        to[i] = rank[i].send + COUNT;
        if (i == 0)
            good(ncclRecv(rank[0].recv + COUNT + 7 * (1 % n), 7, ncclFloat, 1 % n, rank[0].comm, rank[0].stream));
        else if (i % 2)
            good(ncclSend(to[i], 7, ncclFloat, 0, rank[i].comm, rank[i].stream));
        good(ncclAllReduce(rank[i].send, rank[i].recv, COUNT, ncclFloat, ncclSum, rank[i].comm, rank[i].stream));
        if (i % 2 == 0)
            good(ncclSend(to[i], 7, ncclFloat, 0, rank[i].comm, rank[i].stream));
    }
    for (int i = 0; i < n; i++)
        if (i != 1 % n)
            good(ncclRecv(rank[0].recv + COUNT + 7 * i, 7, ncclFloat, i, rank[0].comm, rank[0].stream));
    good(ncclGroupEnd());
    check_sum(1);
    for (int i = 0; i < n; i++)
        assert_float_equal(result_of(0, 2 * COUNT)[COUNT + 7 * i + 3], value_of(i, COUNT + 3), 0);
}

/* One operation on several streams, which differ from rank to rank. The messages are longer than what waits in a window. */
static void test_messages_on_streams(void **state)
{
    void *beside[MOST];
    float *data[MOST];
    for (int i = 0; i < n; i++) {
        select_device(i);
        done(cu.StreamCreate(&beside[i], 1));
        good(ncclMemAlloc((void **)&data[i], 2 * LONG * sizeof(float)));
        set_long(data, i);
    }
    for (int turn = 0; turn < 3; turn++) {
        good(ncclGroupStart());
        for (int i = 0; i < n; i++) {
            good(ncclSend(data[i], LONG, ncclFloat, (i + 1) % n, rank[i].comm, i % 2 ? beside[i] : rank[i].stream));
            good(ncclRecv(data[i] + LONG, LONG, ncclFloat, (i + n - 1) % n, rank[i].comm, i % 2 ? rank[i].stream : beside[i]));
        }
        good(ncclGroupEnd());
    }
    for (int i = 0; i < n; i++) {
        float last;
        select_device(i);
        done(cu.StreamSynchronize(i % 2 ? beside[i] : rank[i].stream)); /* the sender's waits for what comes, too */
        done(cu.MemcpyDtoH_v2(&last, data[i] + 2 * LONG - 1, sizeof last));
        assert_float_equal(last, value_of((i + n - 1) % n, LONG - 1), 0);
        done(cu.StreamSynchronize(i % 2 ? rank[i].stream : beside[i]));
        done(cu.StreamDestroy_v2(beside[i]));
        good(ncclMemFree(data[i]));
    }
}

/* A driver's call fails for one of the ranks: the group's end says so, the others hear of it, and nothing waits for ever. */
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
        cmocka_unit_test(test_answers),       cmocka_unit_test(test_allreduce),
        cmocka_unit_test(test_many_in_a_group), cmocka_unit_test(test_change_of_stream),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_long_broadcasts),
        cmocka_unit_test(test_device_scalar), cmocka_unit_test(test_registration_in_group),
        cmocka_unit_test(test_split_in_group), cmocka_unit_test(test_devices_by_list),
        cmocka_unit_test(test_quick_groups),  cmocka_unit_test(test_long_group),
        cmocka_unit_test(test_many_messages), cmocka_unit_test(test_long_group_by_gpu),
        cmocka_unit_test(test_messages_around_collective), cmocka_unit_test(test_messages_on_streams),
    };
    if (load()) {
        print_message("no libcuda.so.1 with devices\n");
        return 77;
    }
    return getenv("TUTTI_TEST_FAULT") ? run_faults() : cmocka_run_group_tests(tests, setup, teardown);
}
