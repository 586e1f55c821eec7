/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of NCCL by one thread that has all ranks: what single-process programs do. */
#include "nccl/nccl_testing.h"

#include <stdlib.h>
#include <string.h>

static ncclComm_t comms[RANKS];

static int make_all(void **state)
{
    return ncclCommInitAll(comms, RANKS, NULL) != ncclSuccess;
}

static int destroy_all(void **state)
{
    int failed = 0;
    for (int rank = 0; rank < RANKS; rank++)
        failed |= ncclCommDestroy(comms[rank]) != ncclSuccess;
    return failed;
}

static void test_answers(void **state)
{
    int version, count, rank, device;
    ncclResult_t async = ncclInternalError;
    good(ncclGetVersion(&version));
    assert_int_equal(version, 22809);
    fails(ncclGetVersion(NULL), ncclInvalidArgument);
    for (int i = 0; i < RANKS; i++) {
        good(ncclCommCount(comms[i], &count));
        good(ncclCommUserRank(comms[i], &rank));
        good(ncclCommCuDevice(comms[i], &device));
        good(ncclCommGetAsyncError(comms[i], &async));
        assert_int_equal(count, RANKS);
        assert_int_equal(rank, i);
        assert_int_equal(device, i);
        assert_int_equal(async, ncclSuccess);
    }
    for (int result = 0; result < ncclNumResults; result++)
        assert_string_not_equal(ncclGetErrorString((ncclResult_t)result), "unknown result code");
    assert_string_equal(ncclGetErrorString((ncclResult_t)99), "unknown result code");
    fails(ncclCommCount(comms[0], NULL), ncclInvalidArgument);
    said("NULL");
    ncclResetDebugInit();
}

enum { COUNT = 1000 };
static float from[RANKS][RANKS * COUNT], to[RANKS][RANKS * COUNT];

static void fill(void)
{
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < RANKS * COUNT; i++) {
            from[rank][i] = (float)(1000 * rank + i % 97);
            to[rank][i] = -1;
        }
}

static float sum_at(int i)
{
    return 1000.0f * (RANKS * (RANKS - 1) / 2) + RANKS * (float)(i % 97);
}

static void test_reductions(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclAllReduce(from[rank], to[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(to[rank][i], sum_at(i), 0);
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclReduce(from[rank], to[rank], COUNT, ncclFloat, ncclMax, 2, comms[rank], NULL));
        good(ncclReduceScatter(from[rank], to[rank] + COUNT, COUNT, ncclFloat, ncclAvg, comms[rank], NULL));
    }
    good(ncclGroupEnd());
    for (int i = 0; i < COUNT; i++)
        assert_float_equal(to[2][i], from[RANKS - 1][i], 0);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(to[rank][COUNT + i], sum_at(rank * COUNT + i) / RANKS, 0);
}

static void test_moves(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclAllGather(from[rank], to[rank], COUNT, ncclFloat, comms[rank], NULL));
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < RANKS * COUNT; i++)
            assert_float_equal(to[rank][i], from[i / COUNT][i % COUNT], 0);
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclAlltoAll(from[rank], to[rank], COUNT, ncclFloat, comms[rank], NULL));
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < RANKS * COUNT; i++)
            assert_float_equal(to[rank][i], from[i / COUNT][rank * COUNT + i % COUNT], 0);
}

static void test_rooted(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclBroadcast(from[rank], to[rank], COUNT, ncclFloat, 1, comms[rank], NULL));
        good(ncclScatter(from[rank], to[rank] + COUNT, COUNT, ncclFloat, 3, comms[rank], NULL));
    }
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < COUNT; i++) {
            assert_float_equal(to[rank][i], from[1][i], 0);
            assert_float_equal(to[rank][COUNT + i], from[3][rank * COUNT + i], 0);
        }
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclGather(from[rank], rank == 0 ? to[0] : NULL, COUNT, ncclFloat, 0, comms[rank], NULL));
        good(ncclBcast(from[rank] + COUNT, COUNT, ncclFloat, 2, comms[rank], NULL));
    }
    good(ncclGroupEnd());
    for (int i = 0; i < RANKS * COUNT; i++)
        assert_float_equal(to[0][i], from[i / COUNT][i % COUNT], 0);
    for (int rank = 0; rank < RANKS; rank++)
        assert_memory_equal(from[rank] + COUNT, from[2] + COUNT, COUNT * sizeof(float));
}

static void test_ring_of_sends(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclSend(from[rank], COUNT, ncclFloat, (rank + 1) % RANKS, comms[rank], NULL));
        good(ncclRecv(to[rank], COUNT, ncclFloat, (rank + RANKS - 1) % RANKS, comms[rank], NULL));
        good(ncclSend(from[rank], 0, ncclFloat, rank, comms[rank], NULL));
        good(ncclRecv(NULL, 0, ncclFloat, rank, comms[rank], NULL));
    }
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        assert_memory_equal(to[rank], from[(rank + RANKS - 1) % RANKS], COUNT * sizeof(float));
}

/* As nccl-tests with -m. */
static void test_many_in_a_group(void **state)
{
    enum { MANY = 50 };
    static int64_t values[RANKS][MANY];
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++)
            values[rank][i] = rank + i;
    good(ncclGroupStart());
    for (int i = 0; i < MANY; i++)
        for (int rank = 0; rank < RANKS; rank++)
            good(ncclAllReduce(&values[rank][i], &values[rank][i], 1, ncclInt64, ncclSum, comms[rank], NULL));
    good(ncclGroupStart());
    good(ncclGroupEnd());
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++)
            assert_int_equal(values[rank][i], RANKS * (RANKS - 1) / 2 + RANKS * i);
}

static void test_zero_counts(void **state)
{
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comms[rank], NULL));
        good(ncclAllGather(NULL, NULL, 0, ncclFloat, comms[rank], NULL));
        good(ncclBroadcast(NULL, NULL, 0, ncclFloat, 0, comms[rank], NULL));
    }
    good(ncclGroupEnd());
}

/* The operator is destroyed while the group is still open. */
static void test_premul(void **state)
{
    float scalar[RANKS], value[RANKS];
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        ncclRedOp_t op;
        scalar[rank] = (float)rank;
        value[rank] = 10;
        good(ncclRedOpCreatePreMulSum(&op, &scalar[rank], ncclFloat,
                                      rank % 2 ? ncclScalarDevice : ncclScalarHostImmediate, comms[rank]));
        assert_true(op >= ncclNumOps);
        good(ncclAllReduce(&value[rank], &value[rank], 1, ncclFloat, op, comms[rank], NULL));
        good(ncclRedOpDestroy(op, comms[rank]));
        fails(ncclRedOpCreatePreMulSum(NULL, &scalar[rank], ncclFloat, ncclScalarDevice, NULL), ncclInvalidArgument);
    }
    fails(ncclGroupEnd(), ncclInvalidArgument);
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        ncclRedOp_t op;
        good(ncclRedOpCreatePreMulSum(&op, &scalar[rank], ncclFloat, ncclScalarHostImmediate, comms[rank]));
        good(ncclAllReduce(&value[rank], &value[rank], 1, ncclFloat, op, comms[rank], NULL));
        good(ncclRedOpDestroy(op, comms[rank]));
    }
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        assert_float_equal(value[rank], 10 * RANKS * (RANKS - 1) / 2, 0);
    fails(ncclRedOpDestroy((ncclRedOp_t)77, comms[0]), ncclInvalidArgument);
    fails(ncclRedOpDestroy(ncclSum, comms[0]), ncclInvalidArgument);
}

/* An error of one call makes the end fail, nothing is issued, and the next group is as if nothing had been. */
static void test_group_that_fails(void **state)
{
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclAllReduce(from[rank], to[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
    fails(ncclAllReduce(from[0], to[0], COUNT, ncclFloat, ncclSum, NULL, NULL), ncclInvalidArgument);
    fails(ncclGroupEnd(), ncclInvalidArgument);
    assert_float_equal(to[0][0], -1, 0);
    good(ncclGroupStart());
    fails(ncclAllReduce(from[0], to[0], COUNT, (ncclDataType_t)50, ncclSum, comms[0], NULL), ncclInvalidArgument);
    said("type");
    fails(ncclGroupEnd(), ncclInvalidArgument);
    fails(ncclGroupEnd(), ncclInvalidUsage);
    test_reductions(state);
}

static void test_simulate(void **state)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    fill();
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclAllReduce(from[rank], to[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
    good(ncclGroupSimulateEnd(&info));
    assert_float_equal(to[0][0], -1, 0);
    float few = info.estimatedTime;
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        for (int times = 0; times < 3; times++)
            good(ncclAllReduce(from[rank], to[rank], COUNT, ncclFloat, ncclSum, comms[rank], NULL));
    good(ncclGroupSimulateEnd(&info));
    assert_true(few > 0 && few < 1e6f);
    assert_float_equal(info.estimatedTime, 3 * few, few / 1000); /* one behind another, ranks at the same time */
    good(ncclGroupStart());
    info.magic = 1;
    fails(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
    fails(ncclGroupSimulateEnd(NULL), ncclInvalidArgument);
    test_reductions(state);
}

static void test_wrong_arguments(void **state)
{
    float a = 0, b = 0;
    fails(ncclAllReduce(&a, &b, 1, ncclFloat, (ncclRedOp_t)60, comms[0], NULL), ncclInvalidArgument);
    fails(ncclBroadcast(&a, &b, 1, ncclFloat, RANKS, comms[0], NULL), ncclInvalidArgument);
    fails(ncclSend(&a, 1, ncclFloat, -1, comms[0], NULL), ncclInvalidArgument);
    fails(ncclRecv(NULL, 1, ncclFloat, 1, comms[0], NULL), ncclInvalidArgument);
    said("NULL");
    fails(ncclCommInitAll(NULL, 2, NULL), ncclInvalidArgument);
    fails(ncclCommInitAll(comms, 0, NULL), ncclInvalidArgument);
    fails(ncclCommInitAll(comms, 2, (int[]){1, 1}), ncclInvalidUsage);
    fails(ncclCommInitAll(comms, 2, (int[]){1, -1}), ncclInvalidArgument);
    fails(ncclGetUniqueId(NULL), ncclInvalidArgument);
    ncclUniqueId id = {{0}};
    ncclComm_t none = comms[0];
    fails(ncclCommInitRank(NULL, 2, id, 0), ncclInvalidArgument);
    fails(ncclCommInitRank(&none, 2, id, 2), ncclInvalidArgument);
    assert_null(none);
    fails(ncclCommInitRank(&none, 0, id, 0), ncclInvalidArgument);
    fails(ncclCommInitRankScalable(&none, 1, 0, 0, &id, NULL), ncclInvalidArgument);
}

static void expect_no_comm(ncclComm_t comm)
{
    int number;
    ncclResult_t async;
    float a = 0;
    ncclComm_t child;
    fails(ncclCommCount(comm, &number), ncclInvalidArgument);
    fails(ncclCommUserRank(comm, &number), ncclInvalidArgument);
    fails(ncclCommCuDevice(comm, &number), ncclInvalidArgument);
    fails(ncclCommGetAsyncError(comm, &async), ncclInvalidArgument);
    fails(ncclAllReduce(&a, &a, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidArgument);
    fails(ncclCommSplit(comm, 0, 0, &child, NULL), ncclInvalidArgument);
    fails(ncclCommShrink(comm, NULL, 0, &child, NULL, 0), ncclInvalidArgument);
    fails(ncclCommRegister(comm, &a, 4, (void **)&child), ncclInvalidArgument);
    fails(ncclCommDeregister(comm, &a), ncclInvalidArgument);
    assert_non_null(ncclGetLastError(comm));
    if (comm) {
        fails(ncclCommFinalize(comm), ncclInvalidArgument);
        fails(ncclCommRevoke(comm, 0), ncclInvalidArgument);
        fails(ncclCommDestroy(comm), ncclInvalidArgument);
        fails(ncclCommAbort(comm), ncclInvalidArgument);
    }
}

static void test_what_is_no_communicator(void **state)
{
    ncclComm_t dead, inside = (ncclComm_t)((char *)comms[0] + 8);
    expect_no_comm(NULL);
    expect_no_comm((ncclComm_t)0x10);
    expect_no_comm((ncclComm_t)(uintptr_t)-8);
    expect_no_comm((ncclComm_t)&dead);
    expect_no_comm(inside);
    good(ncclCommInitAll(&dead, 1, NULL));
    good(ncclCommDestroy(dead));
    expect_no_comm(dead);
    good(ncclCommDestroy(NULL));
    good(ncclCommFinalize(NULL));
    good(ncclCommRevoke(NULL, 0));
    good(ncclCommAbort(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_rooted),
        cmocka_unit_test(test_ring_of_sends),
        cmocka_unit_test(test_many_in_a_group),
        cmocka_unit_test(test_zero_counts),
        cmocka_unit_test(test_premul),
        cmocka_unit_test(test_group_that_fails),
        cmocka_unit_test(test_simulate),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_what_is_no_communicator),
    };
    return cmocka_run_group_tests(tests, make_all, destroy_all);
}
