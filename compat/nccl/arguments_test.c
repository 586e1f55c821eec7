/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments where communicators are made: whatever fails leaves NULL behind. And a communicator that is still
 * being made: calls on it fail alike alone and in a group, and an abort leaves nothing open. */
#include "nccl/nccl_testing.h"

#include <dirent.h>
#include <string.h>

static ncclComm_t something; /* what was there before */

static void must_be_null(void)
{
    assert_ptr_equal(something, NULL);
    something = (ncclComm_t)(uintptr_t)0x40;
}

static void what_fails_leaves_null(void **state)
{
    ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id, ids[3];
    ncclComm_t one, all[2] = {(ncclComm_t)(uintptr_t)0x40, (ncclComm_t)(uintptr_t)0x40};
    const int twice[2] = {1, 1};
    (void)state;
    bad.magic = 7;
    good(ncclGetUniqueId(&id));
    memset(ids, 0, sizeof ids);
    something = (ncclComm_t)(uintptr_t)0x40;
    fails(ncclCommInitRankConfig(&something, 1, id, 0, &bad), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommInitRank(&something, 2, id, 2), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommInitRankScalable(&something, 2, 0, 1, NULL, NULL), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommInitRankScalable(&something, 2, 0, 3, ids, NULL), ncclInvalidArgument);
    said("nId is 3");
    must_be_null();
    fails(ncclCommInitRankScalable(&something, 2, 0, 0, ids, NULL), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommInitAll(all, 2, twice), ncclInvalidUsage);
    assert_ptr_equal(all[0], NULL);
    assert_ptr_equal(all[1], NULL);
    good(ncclCommInitRank(&one, 1, id, 0));
    fails(ncclCommShrink(one, NULL, 0, &something, NULL, 7), ncclInvalidArgument);
    said("shrinkFlags is 7");
    must_be_null();
    fails(ncclCommShrink(one, NULL, 0, &something, &bad, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommSplit(one, 0, 0, &something, &bad), ncclInvalidArgument);
    must_be_null();
    fails(ncclCommSplit((ncclComm_t)&id, 0, 0, &something, NULL), ncclInvalidArgument);
    must_be_null();
    good(ncclCommDestroy(one));
}

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* One of two ranks, who waits for the other in vain. */
static ncclComm_t begin_alone(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t comm;
    config.blocking = 0;
    good(ncclGetUniqueId(&id));
    fails(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
    return comm;
}

static void a_group_says_what_a_call_says(void **state)
{
    ncclComm_t comm = begin_alone(), child;
    int word = 0;
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
#define BOTH(call)                                                                                                     \
    if (grouped)                                                                                                       \
        good(ncclGroupStart());                                                                                        \
    fails(call, ncclInvalidArgument);                                                                                  \
    said("still being made");                                                                                          \
    if (grouped)                                                                                                       \
        fails(ncclGroupEnd(), ncclInvalidArgument);
        BOTH(ncclAllReduce(&word, &word, 1, ncclInt, ncclSum, comm, NULL))
        BOTH(ncclSend(&word, 1, ncclInt, 1, comm, NULL))
        BOTH(ncclRecv(&word, 1, ncclInt, 1, comm, NULL))
        BOTH(ncclCommSplit(comm, 0, 0, &child, NULL))
    }
    good(ncclCommAbort(comm));
}

/* The meeting point of a communicator that is never made closes at once. */
static void an_aborted_beginning_leaves_nothing_open(void **state)
{
    (void)state;
    good(ncclCommAbort(begin_alone()));
    int before = open_files();
    for (int i = 0; i < 3; i++) {
        good(ncclCommAbort(begin_alone()));
        assert_int_equal(open_files(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fails_leaves_null),
        cmocka_unit_test(a_group_says_what_a_call_says),
        cmocka_unit_test(an_aborted_beginning_leaves_nothing_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
