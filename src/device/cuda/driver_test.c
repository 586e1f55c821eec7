/* SPDX-License-Identifier: Apache-2.0 */
/* What a host without a usable driver answers. Needs none. */
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/nvml.h"
#include "device/cuda/scenario.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool said(const char *words)
{
    if (strstr(error_last(), words))
        return true;
    fprintf(stderr, "said: %s\n", error_last());
    return false;
}

static void every_call_says_why(void)
{
    const struct cuda_driver *driver;
    struct cuda_device *device = NULL;
    int number = 7;
    CHECK(cuda_driver(&driver) == TUTTI_DEVICE_ERROR && said("load the CUDA driver"));
    CHECK(said("no-such-library.so") && said("TUTTI_CUDA_LIBRARY"));
    CHECK(cuda_driver(&driver) == TUTTI_DEVICE_ERROR && said("no-such-library.so"));
    CHECK(cuda_device_count(&number) == TUTTI_DEVICE_ERROR && number == 0);
    CHECK(cuda_device_current(&number) == TUTTI_DEVICE_ERROR);
    CHECK(cuda_device_acquire(0, &device) == TUTTI_DEVICE_ERROR && !device);
    CHECK(said("no-such-library.so"));
    cuda_device_release(NULL);
    cuda_leave();
}

static void pointers_are_host_memory(void)
{
    struct cuda_range range;
    struct cuda_handle handle;
    int local, fd = 0;
    CHECK(cuda_range_of(&local, &range) == TUTTI_SUCCESS);
    CHECK(range.kind == CUDA_HOST && range.ordinal == -1 && range.base == (CUdeviceptr)(uintptr_t)&local && !range.vmm);
    CHECK(cuda_range_of(NULL, &range) == TUTTI_SUCCESS && range.kind == CUDA_HOST);
    CHECK(cuda_export(&range, &handle, &fd) == TUTTI_DEVICE_ERROR && fd == -1);
}

static void lacks_a_symbol(void)
{
    const struct cuda_driver *driver;
    int count;
    CHECK(cuda_driver(&driver) == TUTTI_DEVICE_ERROR && said("lacks cuInit") && said("CUDA 12"));
    CHECK(nvml_count(&count) == TUTTI_DEVICE_ERROR && count == 0 && said("lacks nvmlInit_v2"));
}

static void no_management_library(void)
{
    struct nvml_gpu gpu;
    char version[40] = "x";
    enum nvml_peer way = NVML_PEER_PCI;
    CHECK(nvml_gpu(0, &gpu) == TUTTI_DEVICE_ERROR && said("management library"));
    CHECK(nvml_driver_version(version, sizeof version) == TUTTI_DEVICE_ERROR && !*version);
    CHECK(nvml_peer(0, 1, &way) == TUTTI_DEVICE_ERROR && way == NVML_PEER_NONE);
}

static void unknown_result(void)
{
    char text[80];
    CHECK(cuda_check(CUDA_SUCCESS, "try") == TUTTI_SUCCESS);
    CHECK(cuda_check(CUDA_ERROR_OUT_OF_MEMORY, "try a thing") == TUTTI_DEVICE_ERROR && said("try a thing: result 2"));
    CHECK(strcmp(cuda_result_text((CUresult)12345, text, sizeof text), "result 12345") == 0);
}

static void test_no_driver(void **state)
{
    (void)state;
    assert_int_equal(scenario(every_call_says_why, "TUTTI_CUDA_LIBRARY", "no-such-library.so"), 0);
    assert_int_equal(scenario(pointers_are_host_memory, "TUTTI_CUDA_LIBRARY", "no-such-library.so"), 0);
    assert_int_equal(scenario(unknown_result, "TUTTI_CUDA_LIBRARY", "no-such-library.so"), 0);
}

static void test_no_nvml(void **state)
{
    (void)state;
    assert_int_equal(scenario(no_management_library, "TUTTI_NVML_LIBRARY", "no-such-library.so"), 0);
}

/* A library that exists and is no driver. */
static void test_not_a_driver(void **state)
{
    (void)state;
    setenv("TUTTI_NVML_LIBRARY", "libm.so.6", 1);
    assert_int_equal(scenario(lacks_a_symbol, "TUTTI_CUDA_LIBRARY", "libm.so.6"), 0);
    unsetenv("TUTTI_NVML_LIBRARY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_driver), cmocka_unit_test(test_no_nvml),
                                       cmocka_unit_test(test_not_a_driver)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
