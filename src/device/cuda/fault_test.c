/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the driver that fail: each is reported by name, and nothing is left behind. Needs the stand-in driver. */
#include "device/cuda/launch.h"
#include "device/cuda/memory.h"
#include "device/cuda/scenario.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define FAULT "TUTTI_EMULATED_FAULT"

static const struct cuda_driver *cu;

static bool said(const char *words)
{
    if (strstr(error_last(), words))
        return true;
    fprintf(stderr, "said: %s\n", error_last());
    return false;
}

static struct cuda_device *open_gpu(void)
{
    struct cuda_device *device;
    CHECK(cuda_driver(&cu) == TUTTI_SUCCESS);
    CHECK(cuda_device_acquire(0, &device) == TUTTI_SUCCESS);
    return device;
}

static size_t free_bytes(struct cuda_device *device)
{
    size_t bytes, total;
    cuda_enter(device);
    CHECK(cu->MemGetInfo(&bytes, &total) == CUDA_SUCCESS);
    cuda_leave();
    return bytes;
}

/* ---- the driver does not start ---- */

static void start_fails(void)
{
    CHECK(cuda_driver(&cu) == TUTTI_DEVICE_ERROR && said("start the CUDA driver") && said("CUDA_ERROR_OUT_OF_MEMORY"));
}

static void no_gpu(void)
{
    CHECK(cuda_driver(&cu) == TUTTI_DEVICE_ERROR && (said("shows no GPU") || said("NO_DEVICE")));
}

static void open_fails(void)
{
    struct cuda_device *device = NULL;
    CHECK(cuda_device_acquire(0, &device) == TUTTI_DEVICE_ERROR && !device && said("use GPU 0: CUDA_ERROR_"));
    device = open_gpu();
    CHECK(device->users == 1);
    cuda_device_release(device);
}

static void test_start(void **state)
{
    (void)state;
    assert_int_equal(scenario(start_fails, FAULT, "cuInit:1"), 0);
    assert_int_equal(scenario(start_fails, FAULT, "cuDeviceGetCount:1"), 0);
    assert_int_equal(scenario(no_gpu, "TUTTI_EMULATED_GPUS", "0"), 0);
    assert_int_equal(scenario(open_fails, FAULT, "cuDevicePrimaryCtxRetain:1"), 0);
}

/* ---- allocation ---- */

static void alloc_fails(void)
{
    struct cuda_device *device = open_gpu();
    size_t before = free_bytes(device);
    CUdeviceptr address = 5;
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_DEVICE_ERROR && address == 5 &&
          said("allocate 1048576 bytes on GPU 0"));
    CHECK(free_bytes(device) == before);
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS &&
          cuda_memory_free(device, address) == TUTTI_SUCCESS);
    CHECK(free_bytes(device) == before);
    cuda_device_release(device);
}

static void alloc_falls_back(void)
{
    struct cuda_device *device = open_gpu();
    struct cuda_range range;
    CUdeviceptr address;
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS);
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_SUCCESS && range.kind == CUDA_DEVICE &&
          !range.vmm);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    cuda_device_release(device);
}

static void free_fails(void)
{
    struct cuda_device *device = open_gpu();
    CUdeviceptr address;
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS);
    CHECK(cuda_memory_free(device, address) == TUTTI_DEVICE_ERROR && said("CUDA_ERROR_"));
    cuda_device_release(device);
}

static void test_alloc(void **state)
{
    static const char *const calls[] = {"cuMemGetAllocationGranularity:1",
                                        "cuMemCreate:1",
                                        "cuMemAddressReserve:1",
                                        "cuMemMap:1",
                                        "cuMemSetAccess:1",
                                        "cuStreamCreateWithPriority:1",
                                        "cuMemsetD8Async:1",
                                        "cuStreamSynchronize:1"};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (scenario(alloc_fails, FAULT, calls[i]) != 0)
            fail_msg("%s", calls[i]);
    assert_int_equal(scenario(alloc_falls_back, FAULT, "cuMemCreate:1:unsupported"), 0);
    assert_int_equal(scenario(alloc_fails, FAULT, "cuMemCreate:1:unsupported,cuMemAlloc_v2:1"), 0);
    assert_int_equal(scenario(free_fails, FAULT, "cuMemUnmap:1"), 0);
}

/* ---- ranges and sharing ---- */

static void range_fails(void)
{
    struct cuda_device *device = open_gpu();
    struct cuda_range range;
    CUdeviceptr address;
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS);
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_DEVICE_ERROR && said("CUDA_ERROR_"));
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_SUCCESS && range.kind == CUDA_DEVICE);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    cuda_device_release(device);
}

static bool mapped; /* memory of cuda_memory_alloc() rather than cuMemAlloc() */

static CUdeviceptr export_one(struct cuda_device *device, struct cuda_handle *handle, int *fd, tutti_result_t *result)
{
    struct cuda_range range;
    CUdeviceptr address;
    cuda_enter(device);
    CHECK(mapped ? cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS
                 : cu->MemAlloc(&address, 1 << 20) == CUDA_SUCCESS);
    cuda_leave();
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_SUCCESS);
    *result = cuda_export(&range, handle, fd);
    return address;
}

static void export_fails(void)
{
    struct cuda_device *device = open_gpu();
    struct cuda_handle handle;
    tutti_result_t result;
    int fd = 3;
    CUdeviceptr address = export_one(device, &handle, &fd, &result);
    CHECK(result == (mapped ? TUTTI_DEVICE_ERROR : TUTTI_INVALID_USAGE) && fd == -1 && said("CUDA_ERROR_"));
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    cuda_device_release(device);
}

static void import_fails(void)
{
    struct cuda_device *device = open_gpu();
    struct cuda_handle handle;
    tutti_result_t result;
    int fd;
    size_t before = free_bytes(device);
    CUdeviceptr address = export_one(device, &handle, &fd, &result), there = 9;
    CHECK(result == TUTTI_SUCCESS);
    CHECK(cuda_import(device, &handle, fd, &there) == TUTTI_DEVICE_ERROR && there == 9 && said("descriptor"));
    CHECK(cuda_import(device, &handle, fd, &there) == TUTTI_SUCCESS &&
          cuda_unimport(device, &handle, there) == TUTTI_SUCCESS);
    close(fd);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS && free_bytes(device) == before);
    cuda_device_release(device);
}

static void test_share(void **state)
{
    (void)state;
    assert_int_equal(scenario(range_fails, FAULT, "cuMemGetAddressRange_v2:1"), 0);
    assert_int_equal(scenario(range_fails, FAULT, "cuPointerGetAttributes:1:address"), 0);
    mapped = false;
    assert_int_equal(scenario(export_fails, FAULT, "cuIpcGetMemHandle:1"), 0);
    mapped = true;
    assert_int_equal(scenario(export_fails, FAULT, "cuMemExportToShareableHandle:1"), 0);
    assert_int_equal(scenario(export_fails, FAULT, "cuMemGetAllocationPropertiesFromHandle:1"), 0);
    assert_int_equal(scenario(export_fails, FAULT, "cuMemRetainAllocationHandle:2"), 0); /* the first is the range's */
    assert_int_equal(scenario(import_fails, FAULT, "cuMemImportFromShareableHandle:1"), 0);
    assert_int_equal(scenario(import_fails, FAULT, "cuMemAddressReserve:2"), 0);
    assert_int_equal(scenario(import_fails, FAULT, "cuMemMap:2"), 0);
    assert_int_equal(scenario(import_fails, FAULT, "cuMemSetAccess:2"), 0);
}

/* ---- peers and kernels ---- */

static void no_peer_access(void)
{
    struct cuda_device *device = open_gpu();
    CHECK(cuda_device_peer(device, 1) == TUTTI_INVALID_USAGE && said("no peer access") && !device->peers);
    CHECK(cuda_device_reaches(device, 1) == TUTTI_INVALID_USAGE && said("no peer access"));
    CHECK(!cuda_device_whole(device, 1));
    cuda_device_release(device);
}

static void peer_fails(void)
{
    struct cuda_device *device = open_gpu();
    CHECK(cuda_device_peer(device, 1) == TUTTI_DEVICE_ERROR && !device->peers);
    CHECK(cuda_device_peer(device, 1) == TUTTI_SUCCESS && device->peers == 2);
    cuda_device_release(device);
}

static void search_fails(void)
{
    struct cuda_device *device = open_gpu();
    int ordinal = 0;
    CHECK(cuda_device_find(device->uuid, &ordinal) == TUTTI_DEVICE_ERROR && said("which GPU is which") &&
          ordinal == -1);
    CHECK(cuda_device_find(device->uuid, &ordinal) == TUTTI_SUCCESS && ordinal == 0);
    cuda_device_release(device);
}

static void question_fails(void)
{
    struct cuda_device *device = open_gpu();
    CHECK(cuda_device_reaches(device, 1) == TUTTI_DEVICE_ERROR && said("peer access"));
    CHECK(cuda_device_reaches(device, 1) == TUTTI_SUCCESS);
    cuda_device_release(device);
}

static void load_fails(void)
{
    struct cuda_device *device = open_gpu();
    CHECK(cuda_device_load(device) == TUTTI_DEVICE_ERROR && said("GPU 0") && !device->loaded && !device->modules[0]);
    cuda_device_release(device);
}

static void test_peers(void **state)
{
    (void)state;
    assert_int_equal(scenario(no_peer_access, "TUTTI_EMULATED_P2P", "0"), 0);
    assert_int_equal(scenario(peer_fails, FAULT, "cuDeviceCanAccessPeer:1"), 0);
    assert_int_equal(scenario(peer_fails, FAULT, "cuDevicePrimaryCtxRetain:2"), 0);
    assert_int_equal(scenario(search_fails, FAULT, "cuDeviceGetUuid:2"), 0); /* the first describes the device */
    assert_int_equal(scenario(question_fails, FAULT, "cuDeviceCanAccessPeer:1"), 0);
    assert_int_equal(scenario(peer_fails, FAULT, "cuCtxEnablePeerAccess:1"), 0);
}

static void test_load(void **state)
{
    (void)state;
    assert_int_equal(scenario(load_fails, FAULT, "cuModuleLoadData:1"), 0);
    assert_int_equal(scenario(load_fails, FAULT, "cuModuleGetFunction:1"), 0);
}

/* ---- launches beside the end of what is in front of them ---- */

static void launch_one(bool early)
{
    struct cuda_device *device = open_gpu();
    struct kernel_launch how = {.kernel = KERNEL_EXCHANGE, .blocks = 1, .threads = KERNEL_EXCHANGE_THREADS};
    struct kernel_exchange params = {.team = {.nranks = 1}};
    CHECK(cuda_device_load(device) == TUTTI_SUCCESS && device->early == early);
    CHECK(cuda_launch(device, &how, TUTTI_TYPE_COUNT, &params, NULL) == TUTTI_DEVICE_ERROR &&
          said("launch a kernel: CUDA_ERROR_"));
    cuda_device_release(device);
}

static void comes_early(void)
{
    setenv(FAULT, "cuLaunchKernelEx:1", 1);
    launch_one(true);
}

static void comes_late(void)
{
    const char *faults = getenv(FAULT);
    char more[128];
    snprintf(more, sizeof more, "cuLaunchKernel:1%s%s", faults ? "," : "", faults ? faults : "");
    setenv(FAULT, more, 1);
    launch_one(false);
}

static void test_early(void **state)
{
    (void)state;
    assert_int_equal(scenario(comes_early, NULL, NULL), 0);
    assert_int_equal(scenario(comes_late, "TUTTI_EARLY_LAUNCH", "0"), 0);
    assert_int_equal(scenario(comes_late, FAULT, "cuFuncGetAttribute:1"), 0); /* of which PTX are the kernels? */
    assert_int_equal(scenario(comes_late, FAULT, "cuDriverGetVersion:1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start), cmocka_unit_test(test_alloc),
                                       cmocka_unit_test(test_share), cmocka_unit_test(test_peers),
                                       cmocka_unit_test(test_load),  cmocka_unit_test(test_early)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
