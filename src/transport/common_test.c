/* SPDX-License-Identifier: Apache-2.0 */
#include "base/param.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static bool is_off_with(const char *ours, const char *nccls, const char *no_peers)
{
    setenv("TUTTI_SHM_DISABLE", ours, 1);
    setenv("NCCL_SHM_DISABLE", nccls, 1);
    setenv("NCCL_P2P_DISABLE", no_peers, 1);
    if (!*ours)
        unsetenv("TUTTI_SHM_DISABLE");
    param_reload();
    return transport_shm_is_off();
}

/* NCCL's switch leaves GPUs alone that reach one another; so must we, who need shared memory for that. */
static void test_switches_for_shared_memory(void **state)
{
    assert_false(is_off_with("", "0", "0"));
    assert_false(is_off_with("", "1", "0"));
    assert_true(is_off_with("", "1", "1"));
    assert_true(is_off_with("1", "0", "0"));
    assert_false(is_off_with("0", "1", "1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_switches_for_shared_memory)};
    return cmocka_run_group_tests_name("transport common", tests, NULL, NULL);
}
