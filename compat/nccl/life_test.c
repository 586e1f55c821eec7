/* SPDX-License-Identifier: Apache-2.0 */
/* How communicators are made, divided and ended, by one thread and by one thread for each rank. */
#include "nccl/nccl_testing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- One thread for each rank ---- */

static ncclUniqueId meeting;
static pthread_barrier_t all_here;

static int sum_of_ranks(ncclComm_t comm)
{
    int value, rank;
    if (ncclCommUserRank(comm, &rank) != ncclSuccess)
        return -1;
    value = rank + 1;
    return ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL) == ncclSuccess ? value : -1;
}

static ncclResult_t join_some(ncclComm_t *comm, int count, int rank, int blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result;
    config.blocking = blocking;
    config.commName = "threads";
    result = ncclCommInitRankConfig(comm, count, meeting, rank, &config);
    while (result == ncclInProgress) {
        if (ncclCommGetAsyncError(*comm, &result) != ncclSuccess)
            return ncclInternalError;
        usleep(100);
    }
    return result;
}

static ncclResult_t join(ncclComm_t *comm, int rank, int blocking)
{
    return join_some(comm, RANKS, rank, blocking);
}

/* Each returns NULL, or what went wrong. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return #condition;                                                                                         \
    } while (0)

static void *with_blocking(void *argument)
{
    int rank = (int)(intptr_t)argument;
    ncclComm_t comm;
    CHECK(join(&comm, rank, 1) == ncclSuccess);
    CHECK(sum_of_ranks(comm) == RANKS * (RANKS + 1) / 2);
    CHECK(ncclCommFinalize(comm) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

static void *without_blocking(void *argument)
{
    int rank = (int)(intptr_t)argument;
    ncclComm_t comm;
    CHECK(join(&comm, rank, 0) == ncclSuccess);
    CHECK(sum_of_ranks(comm) == RANKS * (RANKS + 1) / 2);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

static void *scalable(void *argument)
{
    int rank = (int)(intptr_t)argument;
    ncclUniqueId ids[2] = {meeting, {{0}}};
    ncclComm_t comm;
    CHECK(ncclCommInitRankScalable(&comm, RANKS, rank, 2, ids, NULL) == ncclSuccess);
    CHECK(sum_of_ranks(comm) == RANKS * (RANKS + 1) / 2);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

/* Ranks of a communicator that does not block divide it so, too: both are whole when both say so. */
static ncclResult_t split_up(ncclComm_t comm, int color, ncclComm_t *child)
{
    ncclResult_t parent = ncclInProgress, made = ncclInProgress, result = ncclCommSplit(comm, color, 0, child, NULL);
    if (result != ncclInProgress)
        return result;
    while (parent == ncclInProgress)
        ncclCommGetAsyncError(comm, &parent);
    while (*child && made == ncclInProgress)
        ncclCommGetAsyncError(*child, &made);
    return *child ? made : parent;
}

/* Even and odd ranks, the order turned round; the last rank of the first call is left out. */
static void *split(void *argument)
{
    int rank = (int)(intptr_t)argument, count, mine;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm, child;
    config.splitShare = 1;
    CHECK(join(&comm, rank, rank % 2) == ncclSuccess);
    CHECK(ncclCommSplit(comm, rank % 2, -rank, &child, &config) == ncclSuccess);
    CHECK(ncclCommCount(child, &count) == ncclSuccess && count == RANKS / 2);
    CHECK(ncclCommUserRank(child, &mine) == ncclSuccess && mine == RANKS / 2 - 1 - rank / 2);
    CHECK(sum_of_ranks(child) == (RANKS / 2) * (RANKS / 2 + 1) / 2);
    CHECK(ncclCommDestroy(child) == ncclSuccess);
    CHECK(split_up(comm, rank == RANKS - 1 ? NCCL_SPLIT_NOCOLOR : 5, &child) == ncclSuccess);
    CHECK(!child == (rank == RANKS - 1));
    CHECK(!child || sum_of_ranks(child) == RANKS * (RANKS - 1) / 2);
    CHECK(ncclCommDestroy(child) == ncclSuccess);
    CHECK(ncclCommSplit(comm, -7, 0, &child, NULL) == ncclInvalidArgument);
    CHECK(ncclCommSplit(comm, 0, 0, NULL, NULL) == ncclInvalidArgument);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

static void *shrink(void *argument)
{
    int rank = (int)(intptr_t)argument, excluded[1] = {1};
    ncclComm_t comm, child;
    CHECK(join(&comm, rank, 1) == ncclSuccess);
    if (rank != 1) {
        CHECK(ncclCommShrink(comm, excluded, 1, &child, NULL, 7) == ncclInvalidArgument);
        CHECK(ncclCommShrink(comm, excluded, 1, &child, NULL, NCCL_SHRINK_DEFAULT) == ncclSuccess);
        CHECK(sum_of_ranks(child) == RANKS * (RANKS - 1) / 2);
        CHECK(ncclCommDestroy(child) == ncclSuccess);
    }
    pthread_barrier_wait(&all_here);
    if (rank != 1) {
        CHECK(ncclCommShrink(comm, excluded, 1, &child, NULL, NCCL_SHRINK_ABORT) == ncclSuccess);
        CHECK(sum_of_ranks(child) == RANKS * (RANKS - 1) / 2);
        CHECK(ncclCommDestroy(child) == ncclSuccess);
    }
    pthread_barrier_wait(&all_here);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

/* Rank 1 makes the id, the last one is new. */
static ncclUniqueId growth;

static void *grow(void *argument)
{
    int rank = (int)(intptr_t)argument, newcomer = rank == RANKS - 1, mine;
    ncclComm_t comm = NULL, grown = NULL;
    ncclUniqueId id;
    CHECK(newcomer || join_some(&comm, RANKS - 1, rank, 1) == ncclSuccess);
    CHECK(rank != 1 || ncclCommGetUniqueId(comm, &growth) == ncclSuccess);
    CHECK(newcomer || ncclCommGetUniqueId(comm, NULL) == ncclInvalidArgument);
    CHECK(ncclCommGetUniqueId(NULL, &id) == ncclInvalidArgument);
    pthread_barrier_wait(&all_here);
    CHECK(newcomer || ncclCommGrow(comm, RANKS - 1, NULL, -1, &grown, NULL) == ncclInvalidArgument);
    CHECK(!grown && ncclCommGrow(NULL, RANKS, NULL, rank, &grown, NULL) == ncclInvalidArgument);
    CHECK(ncclCommGrow(comm, RANKS, rank == 1 || newcomer ? &growth : NULL, newcomer ? rank : -1, &grown, NULL) ==
          ncclSuccess);
    CHECK(ncclCommUserRank(grown, &mine) == ncclSuccess && mine == rank);
    CHECK(sum_of_ranks(grown) == RANKS * (RANKS + 1) / 2);
    CHECK(newcomer || sum_of_ranks(comm) == RANKS * (RANKS - 1) / 2);
    CHECK(ncclCommDestroy(grown) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

static void *revoke_one(void *argument)
{
    int rank = (int)(intptr_t)argument, value = 0, excluded[1] = {0};
    ncclResult_t async;
    ncclComm_t comm, child;
    CHECK(join(&comm, rank, 1) == ncclSuccess);
    CHECK(ncclCommRevoke(comm, 1) == ncclInvalidArgument);
    CHECK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
    CHECK(ncclCommGetAsyncError(comm, &async) == ncclSuccess && async == ncclSuccess);
    CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL) == ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(NULL), "revoked"));
    CHECK(ncclCommFinalize(comm) == ncclInvalidUsage);
    CHECK(ncclCommSplit(comm, 0, 0, &child, NULL) == ncclInvalidUsage);
    if (rank) {
        CHECK(ncclCommShrink(comm, excluded, 1, &child, NULL, NCCL_SHRINK_DEFAULT) == ncclSuccess);
        CHECK(sum_of_ranks(child) == RANKS * (RANKS - 1) / 2);
        CHECK(ncclCommDestroy(child) == ncclSuccess);
    }
    pthread_barrier_wait(&all_here);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return NULL;
}

static void *abort_it(void *argument)
{
    return ncclCommAbort(argument) == ncclSuccess ? NULL : "abort";
}

/* Rank 0 waits for what nobody sends; another thread aborts it. */
static void *aborted(void *argument)
{
    int rank = (int)(intptr_t)argument, value;
    pthread_t other;
    void *wrong;
    ncclComm_t comm;
    CHECK(join(&comm, rank, 1) == ncclSuccess);
    pthread_barrier_wait(&all_here);
    if (rank)
        return ncclCommAbort(comm) == ncclSuccess ? NULL : "abort of a rank that waits for nothing";
    CHECK(!pthread_create(&other, NULL, abort_it, comm));
    ncclResult_t result = ncclRecv(&value, 1, ncclInt, 1, comm, NULL);
    pthread_join(other, &wrong);
    CHECK(!wrong);
    CHECK(result == ncclRemoteError || result == ncclInvalidArgument);
    CHECK(ncclCommCount(comm, &value) == ncclInvalidArgument);
    return NULL;
}

static void run_ranks(void *(*rank)(void *))
{
    pthread_t threads[RANKS];
    void *wrong;
    const char *first = "";
    good(ncclGetUniqueId(&meeting));
    for (intptr_t i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, rank, (void *)i), 0);
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], &wrong);
        first = wrong && !*first ? wrong : first;
    }
    assert_string_equal(first, "");
}

static void test_blocking(void **state)
{
    run_ranks(with_blocking);
}

static void test_not_blocking(void **state)
{
    run_ranks(without_blocking);
}

static void test_scalable(void **state)
{
    run_ranks(scalable);
}

static void test_split(void **state)
{
    run_ranks(split);
}

static void test_shrink(void **state)
{
    run_ranks(shrink);
}

static void test_grow(void **state)
{
    run_ranks(grow);
}

static void test_revoke(void **state)
{
    run_ranks(revoke_one);
}

static void test_abort(void **state)
{
    for (int i = 0; i < 5; i++)
        run_ranks(aborted);
}

/* ---- One thread for all ---- */

static void make_in_group(ncclComm_t *comms, int blocking, ncclResult_t expected)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = blocking;
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclCommInitRankConfig(&comms[rank], RANKS, id, rank, &config));
    fails(ncclGroupEnd(), expected);
    for (int rank = 0; rank < RANKS; rank++) {
        ncclResult_t async;
        do
            good(ncclCommGetAsyncError(comms[rank], &async));
        while (async == ncclInProgress && !usleep(100));
        good(async);
    }
}

static void test_group_of_inits(void **state)
{
    ncclComm_t comms[RANKS];
    int value[RANKS];
    for (int blocking = 0; blocking < 2; blocking++) {
        make_in_group(comms, blocking, blocking ? ncclSuccess : ncclInProgress);
        good(ncclGroupStart());
        for (int rank = 0; rank < RANKS; rank++) {
            value[rank] = rank;
            good(ncclAllReduce(&value[rank], &value[rank], 1, ncclInt, ncclSum, comms[rank], NULL));
            good(ncclCommFinalize(comms[rank]));
            good(ncclCommDestroy(comms[rank]));
        }
        good(ncclGroupEnd());
        for (int rank = 0; rank < RANKS; rank++)
            assert_int_equal(value[rank], RANKS * (RANKS - 1) / 2);
    }
}

/* Old and new ranks of one thread. */
static void test_group_of_growths(void **state)
{
    ncclComm_t comms[RANKS], grown[RANKS + 1];
    int value[RANKS + 1];
    ncclUniqueId id;
    make_in_group(comms, 1, ncclSuccess);
    good(ncclCommGetUniqueId(comms[2], &id));
    good(ncclGroupStart());
    for (int rank = 0; rank <= RANKS; rank++)
        good(ncclCommGrow(rank < RANKS ? comms[rank] : NULL, RANKS + 1, rank == 2 || rank == RANKS ? &id : NULL,
                          rank < RANKS ? -1 : rank, &grown[rank], NULL));
    good(ncclGroupEnd());
    good(ncclGroupStart());
    for (int rank = 0; rank <= RANKS; rank++) {
        value[rank] = rank;
        good(ncclAllReduce(&value[rank], &value[rank], 1, ncclInt, ncclSum, grown[rank], NULL));
    }
    good(ncclGroupEnd());
    for (int rank = 0; rank <= RANKS; rank++)
        good(ncclCommDestroy(grown[rank]));
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclCommDestroy(comms[rank]));
    for (int rank = 0; rank <= RANKS; rank++)
        assert_int_equal(value[rank], (RANKS + 1) * RANKS / 2);
}

/* An init that cannot be: the group fails, and no communicator is left. */
static void test_group_of_inits_that_fails(void **state)
{
    ncclComm_t comms[RANKS];
    ncclUniqueId id;
    good(ncclGetUniqueId(&id));
    good(ncclGroupStart());
    good(ncclCommInitRank(&comms[0], 2, id, 0));
    fails(ncclCommInitRank(&comms[1], 2, id, 5), ncclInvalidArgument);
    fails(ncclGroupEnd(), ncclInvalidArgument);
    assert_null(comms[0]);
    assert_null(comms[1]);
}

static void test_abort_in_group(void **state)
{
    ncclComm_t comms[RANKS];
    int value;
    make_in_group(comms, 1, ncclSuccess);
    good(ncclGroupStart());
    good(ncclRecv(&value, 1, ncclInt, 1, comms[0], NULL));
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclCommAbort(comms[rank]));
    fails(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comms[0], NULL), ncclInvalidArgument);
    fails(ncclGroupEnd(), ncclInvalidArgument);
    fails(ncclCommCount(comms[0], &value), ncclInvalidArgument);
}

static void test_environment_beats_config(void **state)
{
    ncclComm_t comms[RANKS];
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    make_in_group(comms, 1, ncclInProgress);
    unsetenv("NCCL_COMM_BLOCKING");
    for (int rank = 0; rank < RANKS; rank++)
        good(ncclCommDestroy(comms[rank]));
}

static int prepare(void **state)
{
    return pthread_barrier_init(&all_here, NULL, RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking),
        cmocka_unit_test(test_not_blocking),
        cmocka_unit_test(test_scalable),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_revoke),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_group_of_inits),
        cmocka_unit_test(test_group_of_growths),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_group_of_inits_that_fails),
        cmocka_unit_test(test_abort_in_group),
        cmocka_unit_test(test_environment_beats_config),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
