/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that cannot be had, at every place in turn: a clean error, nothing left behind, and the next try is right. */
#include "nccl/nccl_testing.h"
#include "inject.h"

#include <stdio.h>
#include <string.h>

enum { PAIR = 2, WINDOWS = 20 };

static ncclResult_t first(ncclResult_t so_far, ncclResult_t next)
{
    return so_far == ncclSuccess ? next : so_far;
}

/* Registers, reduces and divides, all in one group each; returns the first error. */
static ncclResult_t use(ncclComm_t *comms)
{
    ncclWindow_t windows[PAIR][WINDOWS];
    float value[PAIR] = {1, 2};
    ncclResult_t result = ncclGroupStart();
    for (int rank = 0; rank < PAIR; rank++) {
        for (int i = 0; i < WINDOWS; i++)
            result = first(result,
                           ncclCommWindowRegister(comms[rank], &value[rank], sizeof value[rank], &windows[rank][i], 0));
        result = first(result, ncclAllReduce(&value[rank], &value[rank], 1, ncclFloat, ncclSum, comms[rank], NULL));
    }
    result = first(result, ncclGroupEnd());
    if (result == ncclSuccess && (value[0] != 3 || value[1] != 3))
        return ncclInternalError;
    return result;
}

static ncclResult_t attempt(void)
{
    ncclComm_t comms[PAIR] = {0};
    ncclResult_t result = ncclCommInitAll(comms, PAIR, NULL);
    if (result != ncclSuccess)
        return result;
    result = use(comms);
    for (int rank = 0; rank < PAIR; rank++)
        ncclCommDestroy(comms[rank]);
    return result;
}

static void sweep(const char *function)
{
    unsigned long fired = 1;
    for (int n = 1; fired && n < 2000; n++) {
        char what[40];
        snprintf(what, sizeof what, "%s:%d", function, n);
        assert_true(inject_arm(what));
        ncclResult_t result = attempt();
        fired = inject_disarm();
        if (result != ncclSuccess && result != ncclSystemError && result != ncclRemoteError)
            fail_msg("%s: result %d, %s", what, result, ncclGetLastError(NULL));
        if (result != ncclSuccess)
            assert_string_not_equal(ncclGetLastError(NULL), "");
    }
    good(attempt());
}

static void test_slabs(void **state)
{
    sweep("calloc");
}

static void test_lists(void **state)
{
    sweep("realloc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slabs), cmocka_unit_test(test_lists)};
    if (!inject_present()) {
        printf("libinject.so is not loaded\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
