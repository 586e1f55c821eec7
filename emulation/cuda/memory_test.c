/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and memory. */
#include "cuda/tests/check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void test_devices(void **state)
{
    int count, value, device;
    char name[64], id[16];
    CUuuid a, b;
    CUdevice found;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    assert_int_equal(count, 4);
    OK(cuDeviceGet(&device, 3));
    FAILS(cuDeviceGet(&device, 4), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetName(name, sizeof(name), 0));
    assert_string_equal(name, "tutti emulated GPU");
    OK(cuDeviceGetUuid_v2(&a, 0));
    OK(cuDeviceGetUuid_v2(&b, 1));
    assert_memory_not_equal(&a, &b, sizeof(a));
    OK(cuDeviceGetPCIBusId(id, sizeof(id), 2));
    OK(cuDeviceGetByPCIBusId(&found, id));
    assert_int_equal(found, 2);
    FAILS(cuDeviceGetByPCIBusId(&found, "0000:11:00.0"), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(value, 9);
    OK(cuDeviceCanAccessPeer(&value, 0, 1));
    assert_int_equal(value, 1);
    OK(cuDeviceCanAccessPeer(&value, 1, 1));
    assert_int_equal(value, 0);
}

/* Devices of another host are others, and lie where they are said to. */
static void test_identities(void **state)
{
    CUuuid here, there;
    CUdevice found;
    char id[16];
    int value;
    OK(cuInit(0));
    OK(cuDeviceGetUuid_v2(&here, 1));
    setenv("TUTTI_EMULATED_HOST", "h1", 1);
    setenv("TUTTI_EMULATED_PCI", "pci0000:10/0000:10:01.0/0000:11:00.0,pci000a:b0/000a:bc:1d.0", 1);
    OK(cuDeviceGetUuid_v2(&there, 1));
    assert_memory_not_equal(&here, &there, sizeof(here));
    OK(cuDeviceGetPCIBusId(id, sizeof(id), 0));
    assert_string_equal(id, "0000:11:00.0");
    OK(cuDeviceGetPCIBusId(id, sizeof(id), 1));
    assert_string_equal(id, "000A:BC:1D.0");
    OK(cuDeviceGetByPCIBusId(&found, "000a:bc:1d.0"));
    assert_int_equal(found, 1);
    FAILS(cuDeviceGetByPCIBusId(&found, "000a:bc:1e.0"), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 1));
    assert_int_equal(value, 0xa);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1));
    assert_int_equal(value, 0xbc);
    OK(cuDeviceGetPCIBusId(id, sizeof(id), 2)); /* not in the list */
    assert_string_equal(id, "0000:30:00.0");
    unsetenv("TUTTI_EMULATED_HOST");
    unsetenv("TUTTI_EMULATED_PCI");
    OK(cuDeviceGetUuid_v2(&there, 1));
    assert_memory_equal(&here, &there, sizeof(here));
}

static void test_contexts(void **state)
{
    CUcontext first = use_device(0), made, now;
    CUdevice device;
    OK(cuCtxCreate_v4(&made, NULL, 0, 1));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuCtxPopCurrent_v2(&now));
    assert_ptr_equal(now, made);
    OK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, first);
    OK(cuCtxEnablePeerAccess(made, 0));
    FAILS(cuCtxEnablePeerAccess(made, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuCtxDisablePeerAccess(made));
    FAILS(cuCtxDisablePeerAccess(made), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxDestroy_v2(made));
    FAILS(cuCtxPushCurrent_v2(made), CUDA_ERROR_INVALID_CONTEXT);
    leave_device(0);
    FAILS(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_alloc(void **state)
{
    CUdeviceptr a, b, base;
    size_t size, before, after, total;
    use_device(0);
    OK(cuMemGetInfo_v2(&before, &total));
    assert_int_equal(total, (size_t)1 << 30);
    OK(cuMemAlloc_v2(&a, 1000));
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before - after, 1000);
    OK(cuMemGetAddressRange_v2(&base, &size, a + 999));
    assert_true(base == a && size == 1000);
    FAILS(cuMemGetAddressRange_v2(&base, &size, a + 1000), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(*(unsigned char *)AT(a), 0xa5);
    FAILS(cuMemAlloc_v2(&b, total), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuMemAlloc_v2(&b, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemFree_v2(a + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(a));
    FAILS(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemAlloc_v2(&a, MIB)); /* goes with the context */
    leave_device(0);
    use_device(0);
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before, after);
    leave_device(0);
}

static unsigned type_of(CUdeviceptr address)
{
    unsigned type = 0;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ? 0 : type;
}

static void test_pointers(void **state)
{
    static char own[8192];
    CUdeviceptr a, managed, start;
    unsigned long long first, second;
    int ordinal, legacy, is_managed;
    void *pinned, *host;
    use_device(2);
    OK(cuMemAlloc_v2(&a, 4096));
    assert_int_equal(type_of(a + 5), CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
    assert_int_equal(ordinal, 2);
    OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    FAILS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(a));
    OK(cuMemAlloc_v2(&a, 4096));
    OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    assert_true(first != second);
    OK(cuMemAllocHost_v2(&pinned, 100));
    assert_int_equal(type_of((uintptr_t)pinned), CU_MEMORYTYPE_HOST);
    OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&is_managed, &start, &legacy, &ordinal};
    OK(cuPointerGetAttributes(4, list, data, managed + 50));
    assert_true(is_managed && start == managed && !legacy && ordinal == 2);
    OK(cuPointerGetAttributes(4, list, data, (uintptr_t)own));
    assert_true(!is_managed && !start && ordinal == -2);
    assert_int_equal(type_of((uintptr_t)own), 0);
    OK(cuMemHostRegister_v2(own, sizeof(own), 0));
    assert_int_equal(type_of((uintptr_t)own + 8191), CU_MEMORYTYPE_HOST);
    FAILS(cuMemHostRegister_v2(own + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer_v2(&start, own, 0));
    assert_ptr_equal(AT(start), own);
    OK(cuMemHostUnregister(own));
    FAILS(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFreeHost(pinned));
    FAILS(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(managed));
    OK(cuMemFree_v2(a));
    leave_device(2);
}

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
static const CUmemAccessDesc open_to_1 = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* Maps all of the allocation anew. */
static CUdeviceptr map_all(CUmemGenericAllocationHandle handle, size_t size)
{
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, size, 0, 0, 0));
    OK(cuMemMap(at, size, 0, handle, 0));
    OK(cuMemSetAccess(at, size, &open_to_1, 1));
    return at;
}

static void unmap_all(CUdeviceptr at, size_t size)
{
    OK(cuMemUnmap(at, size));
    OK(cuMemAddressFree(at, size));
}

static void test_virtual(void **state)
{
    CUmemGenericAllocationHandle handle, retained, imported;
    size_t size, before, after;
    uint64_t types;
    unsigned long long flags;
    int fd;
    use_device(1);
    OK(cuMemGetInfo_v2(&before, NULL));
    OK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(size, 2 * MIB);
    FAILS(cuMemCreate(&handle, 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemCreate(&handle, (size_t)2 << 30, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemCreate(&handle, size, &prop, 0));
    CUdeviceptr at = map_all(handle, size);
    FAILS(cuMemAddressFree(at, size), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemMap(at, size, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED);
    OK(cuMemRelease(handle)); /* the mapping keeps it */
    OK(cuMemRetainAllocationHandle(&retained, AT(at + 100)));
    assert_true(retained == handle);
    OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
    assert_int_equal(types, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuMemExportToShareableHandle(&fd, retained, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CUdeviceptr other = map_all(imported, size);
    strcpy(AT(at), "seen twice");
    assert_string_equal(AT(other), "seen twice");
    OK(cuMemGetAccess(&flags, &open_to_1.location, at));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    unmap_all(other, size);
    unmap_all(at, size);
    OK(cuMemRelease(imported));
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before - after, size);
    OK(cuMemRelease(retained));
    FAILS(cuMemRelease(retained), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before, after);
    FAILS(cuMemImportFromShareableHandle(&imported, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          CUDA_ERROR_INVALID_VALUE);
    leave_device(1);
}

/* Whether a child that touches the address dies of it. */
static bool touch_kills(CUdeviceptr address)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        *(volatile char *)AT(address) = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void test_no_access(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at, a;
    use_device(1);
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0));
    assert_true(touch_kills(at));
    OK(cuMemMap(at, 2 * MIB, 0, handle, 0));
    assert_true(touch_kills(at));
    OK(cuMemSetAccess(at, 2 * MIB, &open_to_1, 1));
    assert_false(touch_kills(at));
    assert_true(touch_kills(at + 2 * MIB));
    OK(cuMemUnmap(at, 2 * MIB));
    assert_true(touch_kills(at));
    OK(cuMemAddressFree(at, 4 * MIB));
    OK(cuMemRelease(handle));
    OK(cuMemAlloc_v2(&a, 4096));
    assert_true(touch_kills(a + 4096)); /* the guard */
    OK(cuMemFree_v2(a));
    leave_device(1);
}

static void test_copies(void **state)
{
    char text[] = "some bytes to copy", back[sizeof(text)] = "";
    CUdeviceptr a, b;
    use_device(0);
    OK(cuMemAlloc_v2(&a, 64));
    use_device(1);
    OK(cuMemAlloc_v2(&b, 64));
    OK(cuMemcpyHtoD_v2(a, text, sizeof(text)));
    OK(cuMemcpyDtoD_v2(b, a, sizeof(text)));
    OK(cuMemcpyDtoH_v2(back, b, sizeof(text)));
    assert_string_equal(text, back);
    OK(cuMemsetD32_v2(b, 0x01020304, 16));
    OK(cuMemsetD8_v2(b + 4, 7, 4));
    OK(cuMemsetD16_v2(b + 8, 0x0909, 2));
    const unsigned char want[] = {4, 3, 2, 1, 7, 7, 7, 7, 9, 9, 9, 9, 4};
    assert_memory_equal(AT(b), want, sizeof(want));
    CUDA_MEMCPY2D part = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = text,
                          .srcPitch = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = a,
                          .dstPitch = 8,
                          .WidthInBytes = 2,
                          .Height = 2};
    OK(cuMemcpy2D_v2(&part));
    assert_memory_equal(AT(a), "so", 2);
    assert_memory_equal(AT(a + 8), " b", 2);
    OK(cuMemFree_v2(b));
    leave_device(1);
    leave_device(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),   cmocka_unit_test(test_identities), cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_alloc),     cmocka_unit_test(test_pointers),   cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_no_access), cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
