/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults and the other settings of the environment. */
#include "cuda/tests/check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
    config_reload();
}

static int clear(void **state)
{
    unsetenv("TUTTI_EMULATED_FAULT");
    unsetenv("TUTTI_EMULATED_P2P");
    unsetenv("TUTTI_EMULATED_JITTER");
    unsetenv("TUTTI_EMULATED_MEMORY");
    unsetenv("TUTTI_EMULATED_GPUS");
    unsetenv("TUTTI_EMULATED_POISON");
    config_reload();
    return 0;
}

static void test_once(void **state)
{
    CUdeviceptr a;
    CUstream stream;
    use_device(0);
    set("TUTTI_EMULATED_FAULT", "cuMemAlloc:2,cuStreamCreate:1:launch,cuStreamCreateWithPriority:1:712");
    OK(cuMemAlloc_v2(&a, 64));
    OK(cuMemFree_v2(a));
    FAILS(cuMemAlloc_v2(&a, 64), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&a, 64));
    OK(cuMemFree_v2(a));
    FAILS(cuStreamCreate(&stream, 0), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuStreamCreateWithPriority(&stream, 0, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    leave_device(0);
}

static void ends_by(const char *fault, int signal)
{
    bool sticky;
    int status = 0;
    pid_t child = fork();
    if (child == 0) { /* which may make no call of the driver */
        set("TUTTI_EMULATED_FAULT", fault);
        fault_due("kernel", &sticky);
        fault_due("cuInit", &sticky);
        fault_due("kernel", &sticky);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal);
}

static void test_dies(void **state)
{
    ends_by("kernel:2:dies", SIGKILL);
    ends_by("kernel:2:signals", SIGUSR1);
}

/* A sticky fault kills the context: what waits is let go, every later call fails, other devices live. */
static void test_sticky(void **state)
{
    CUstream stream;
    CUdeviceptr a;
    CUevent event, never;
    set("TUTTI_EMULATED_FAULT", "cuMemcpyAsync:1:sticky");
    use_device(0);
    OK(cuMemAlloc_v2(&a, 64));
    OK(cuMemsetD32_v2(a, 0, 16));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&never, 0));
    OK(cuEventQuery(never));
    OK(cuStreamWaitValue32_v2(stream, a, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(event, stream));
    FAILS(cuMemcpyAsync(a, a + 8, 4, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuEventQuery(never)); /* a driver need not say more of it */
    FAILS(cuEventRecord(never, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuMemFree_v2(a), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuMemAlloc_v2(&a, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    use_device(1);
    OK(cuCtxSynchronize());
    leave_device(1);
    OK(cuEventDestroy_v2(never));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    leave_device(0);
    use_device(0); /* a new context is well */
    OK(cuCtxSynchronize());
    leave_device(0);
}

static void test_bad_faults(void **state)
{
    use_device(0);
    set("TUTTI_EMULATED_FAULT", "cuCtxSynchronize,cuCtxSynchronize:x,:1,cuCtxSynchronize:1:nonsense");
    OK(cuCtxSynchronize());
    leave_device(0);
}

static void test_settings(void **state)
{
    CUcontext one;
    CUdeviceptr a;
    int can, count;
    set("TUTTI_EMULATED_P2P", "0");
    OK(cuInit(0));
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_false(can);
    one = use_device(1);
    use_device(0);
    FAILS(cuCtxEnablePeerAccess(one, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    set("TUTTI_EMULATED_MEMORY", "8K");
    FAILS(cuMemAlloc_v2(&a, 8193), CUDA_ERROR_OUT_OF_MEMORY);
    set("TUTTI_EMULATED_POISON", "0");
    OK(cuMemAlloc_v2(&a, 8192));
    assert_int_equal(*(char *)AT(a), 0);
    OK(cuMemFree_v2(a));
    leave_device(0);
    leave_device(1);
    set("TUTTI_EMULATED_GPUS", "7");
    OK(cuDeviceGetCount(&count));
    assert_int_equal(count, 7);
    set("TUTTI_EMULATED_GPUS", "0");
    FAILS(cuInit(0), CUDA_ERROR_NO_DEVICE);
}

static void test_jitter(void **state)
{
    CUstream stream;
    CUdeviceptr a;
    use_device(0);
    set("TUTTI_EMULATED_JITTER", "200:7");
    OK(cuMemAlloc_v2(&a, 4));
    OK(cuStreamCreate(&stream, 0));
    for (uint32_t i = 1; i <= 20; i++)
        OK(cuStreamWriteValue32_v2(stream, a, i, 0));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(*(uint32_t *)AT(a), 20);
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(a));
    leave_device(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_once, clear),     cmocka_unit_test_teardown(test_dies, clear),
        cmocka_unit_test_teardown(test_sticky, clear),   cmocka_unit_test_teardown(test_bad_faults, clear),
        cmocka_unit_test_teardown(test_settings, clear), cmocka_unit_test_teardown(test_jitter, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
