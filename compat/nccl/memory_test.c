/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, registrations and windows, also in an open group; configs of every size; names that are refused. */
#include "nccl/nccl_testing.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ncclComm_t comms[RANKS];
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t which, void **pointer);
ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *value);

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

static void test_memory(void **state)
{
    void *memory, *none;
    good(ncclMemAlloc(&memory, 10000));
    memset(memory, 1, 10000);
    good(ncclMemFree(memory));
    good(ncclMemAlloc(&none, 0));
    good(ncclMemFree(none));
    good(ncclMemFree(NULL));
    fails(ncclMemAlloc(NULL, 1), ncclInvalidArgument);
    fails(ncclMemFree(&memory), ncclInvalidArgument);
    assert_string_not_equal(ncclGetLastError(NULL), "");
}

/* nccl-tests allocates and registers while a group is open. */
static void test_registration_in_group(void **state)
{
    void *memory[RANKS], *handle[RANKS];
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclMemAlloc(&memory[rank], 4096));
        good(ncclCommRegister(comms[rank], memory[rank], 4096, &handle[rank]));
    }
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++) {
        good(ncclCommDeregister(comms[rank], handle[rank]));
        fails(ncclCommDeregister(comms[rank], handle[rank]), ncclInvalidArgument);
        good(ncclCommDeregister(comms[rank], NULL));
        fails(ncclCommRegister(comms[rank], NULL, 4096, &handle[rank]), ncclInvalidArgument);
        good(ncclMemFree(memory[rank]));
    }
}

static void test_windows(void **state)
{
    enum { MANY = 100 };
    static char buffer[RANKS][MANY];
    static ncclWindow_t window[RANKS][MANY];
    void *pointer;
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++) {
            good(ncclCommWindowRegister(comms[rank], &buffer[rank][i], 1, &window[rank][i], NCCL_WIN_COLL_SYMMETRIC));
            assert_null(window[rank][i]);
        }
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++) {
            good(ncclWinGetUserPtr(comms[rank], window[rank][i], &pointer));
            assert_ptr_equal(pointer, &buffer[rank][i]);
        }
    fails(ncclCommWindowDeregister(comms[1], window[0][0]), ncclInvalidArgument);
    fails(ncclCommDestroy((ncclComm_t)window[0][0]), ncclInvalidArgument);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < MANY; i++)
            good(ncclCommWindowDeregister(comms[rank], window[rank][i]));
    fails(ncclCommWindowDeregister(comms[0], window[0][0]), ncclInvalidArgument);
    fails(ncclWinGetUserPtr(comms[0], window[0][0], &pointer), ncclInvalidArgument);
    fails(ncclCommWindowRegister(comms[0], NULL, 1, &window[0][0], 0), ncclInvalidArgument);
    good(ncclCommWindowDeregister(comms[0], NULL));
    good(ncclCommWindowRegister(comms[0], &buffer[0][0], 1, &window[0][0], 0));
    assert_non_null(window[0][0]);
    good(ncclCommWindowDeregister(comms[0], window[0][0]));
}

/* The group fails: no window comes of it. And a communicator takes its windows with it. */
static void test_windows_that_end(void **state)
{
    static char buffer[64];
    ncclWindow_t window;
    ncclComm_t alone;
    void *pointer;
    good(ncclGroupStart());
    good(ncclCommWindowRegister(comms[0], buffer, sizeof buffer, &window, 0));
    fails(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, NULL, NULL), ncclInvalidArgument);
    fails(ncclGroupEnd(), ncclInvalidArgument);
    assert_null(window);
    good(ncclCommInitAll(&alone, 1, NULL));
    good(ncclCommWindowRegister(alone, buffer, sizeof buffer, &window, 0));
    good(ncclCommDestroy(alone));
    good(ncclCommInitAll(&alone, 1, NULL));
    fails(ncclWinGetUserPtr(alone, window, &pointer), ncclInvalidArgument);
    good(ncclCommDestroy(alone));
}

static void test_memory_statistics(void **state)
{
    uint64_t value = 7;
    for (int which = 0; which < 4; which++) {
        good(ncclCommMemStats(comms[0], which, &value));
        assert_int_equal(value, 0);
    }
    fails(ncclCommMemStats(comms[0], 4, &value), ncclInvalidArgument);
    fails(ncclCommMemStats(comms[0], 0, NULL), ncclInvalidArgument);
}

/* ---- Configs ---- */

/* As a caller of that size and version has it: every field undefined, and behind its end what is not its own. */
static void *config_of(size_t size, unsigned version, int blocking)
{
    static unsigned char room[256];
    static const int undefined = NCCL_CONFIG_UNDEF_INT;
    unsigned magic = 0xcafebeef;
    memset(room, 0x5a, sizeof room);
    for (size_t at = 16; at + sizeof undefined <= size; at += sizeof undefined)
        memcpy(room + at, &undefined, sizeof undefined);
    if (size > 32)
        memset(room + 32, 0, 8);
    if (size > 48)
        memset(room + 48, 0, 8);
    memcpy(room, &size, sizeof size);
    memcpy(room + 8, &magic, sizeof magic);
    memcpy(room + 12, &version, sizeof version);
    memcpy(room + 16, &blocking, sizeof blocking);
    return room;
}

static ncclResult_t make_with(void *config)
{
    ncclComm_t comm;
    ncclUniqueId id;
    ncclResult_t result = ncclGetUniqueId(&id), state = ncclSuccess;
    if (result != ncclSuccess)
        return result;
    result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
    if (result != ncclSuccess && result != ncclInProgress)
        return result;
    do
        ncclCommGetAsyncError(comm, &state);
    while (state == ncclInProgress);
    if (ncclCommDestroy(comm) != ncclSuccess)
        return ncclInternalError;
    return state == ncclSuccess ? result : state;
}

static void test_configs(void **state)
{
    static const struct {
        size_t size;
        unsigned version;
    } callers[] = {{24, 21405}, {40, 21701}, {48, 21805},  {48, 22602},  {72, 22707}, {80, 22809},
                   {88, 22902}, {96, 23007}, {112, 23102}, {120, 23203}, {200, 24000}};
    good(make_with(NULL));
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        good(make_with(config_of(callers[i].size, callers[i].version, NCCL_CONFIG_UNDEF_INT)));
        good(make_with(config_of(callers[i].size, callers[i].version, 1)));
        fails(make_with(config_of(callers[i].size, callers[i].version, 0)), ncclInProgress);
        fails(make_with(config_of(callers[i].size, callers[i].version, 2)), ncclInvalidArgument);
        said("blocking");
    }
}

/* Fields that the caller's version did not have are not looked at, whatever the size says. */
static void test_newer_fields(void **state)
{
    static const int wild = -5;
    unsigned char *config = config_of(80, 21701, 1);
    memcpy(config + 40, &wild, sizeof wild); /* splitShare came with 2.18 */
    memset(config + 48, 0x11, 8);            /* commName with 2.27 */
    good(make_with(config));
    config = config_of(80, 21801, 1);
    memcpy(config + 40, &wild, sizeof wild);
    fails(make_with(config), ncclInvalidArgument);
    said("splitShare");
}

static void test_wrong_configs(void **state)
{
    static const unsigned wrong = 0xdeadbeef;
    static const int five = 5, four = 4;
    unsigned char *config = config_of(80, 22809, 1);
    memcpy(config + 8, &wrong, sizeof wrong);
    fails(make_with(config), ncclInvalidArgument);
    said("magic");
    fails(make_with(config_of(8, 22809, 1)), ncclInvalidArgument);
    fails(make_with(config_of(16, 22809, 1)), ncclInvalidArgument);
    config = config_of(80, 22809, 1);
    memset(config, 0xff, 8);
    fails(make_with(config), ncclInvalidArgument);
    said("size");
    config = config_of(80, 22809, 1);
    memcpy(config + 24, &five, sizeof five);
    memcpy(config + 28, &four, sizeof four);
    fails(make_with(config), ncclInvalidArgument);
    said("maxCTAs");
}

/* ---- Names ---- */

static void test_refused_names(void **state)
{
    static const char *const names[] = {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclSetEncryption",
                                        "ncclParamBind",     "pncclParamGetStr",   "ncclCommQueryProperties"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ncclResult_t (*function)(void *, void *, void *, void *) =
            (ncclResult_t(*)(void *, void *, void *, void *))dlsym(RTLD_DEFAULT, names[i]);
        assert_non_null(function);
        fails(function(comms[0], NULL, NULL, NULL), ncclInvalidUsage);
        said(names[i][0] == 'p' ? names[i] + 1 : names[i]);
        said("tutti");
    }
}

static void test_calls_with_advice(void **state)
{
    ncclResult_t (*function)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t,
                             const void *);
    int value[RANKS] = {1, 2, 3, 4};
    *(void **)&function = dlsym(RTLD_DEFAULT, "ncclAllReduceConfig");
    assert_non_null(function);
    good(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        good(function(&value[rank], &value[rank], 1, ncclInt, ncclSum, comms[rank], NULL, NULL));
    good(ncclGroupEnd());
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(value[rank], 10);
}

static void test_teams(void **state)
{
    struct device_team {
        int nranks, rank, stride;
    } world, own;
    struct device_team (*world_of)(ncclComm_t), (*own_of)(ncclComm_t);
    int (*place)(ncclComm_t, struct device_team, int);
    *(void **)&world_of = dlsym(RTLD_DEFAULT, "ncclTeamWorld");
    *(void **)&own_of = dlsym(RTLD_DEFAULT, "ncclTeamLsa");
    *(void **)&place = dlsym(RTLD_DEFAULT, "ncclTeamRankToWorld");
    for (int rank = 0; rank < RANKS; rank++) {
        world = world_of(comms[rank]);
        own = own_of(comms[rank]);
        assert_int_equal(world.nranks, RANKS);
        assert_int_equal(world.rank, rank);
        assert_int_equal(own.nranks, 1);
        assert_int_equal(place(comms[rank], world, 3), 3);
        assert_int_equal(place(comms[rank], own, 0), rank);
    }
    assert_int_equal(world_of(NULL).nranks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_registration_in_group),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_windows_that_end),
        cmocka_unit_test(test_memory_statistics),
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_newer_fields),
        cmocka_unit_test(test_wrong_configs),
        cmocka_unit_test(test_refused_names),
        cmocka_unit_test(test_calls_with_advice),
        cmocka_unit_test(test_teams),
    };
    return cmocka_run_group_tests(tests, make_all, destroy_all);
}
