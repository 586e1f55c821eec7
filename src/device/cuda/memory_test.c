/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and kinds of memory, on whatever driver there is: the stand-in, or a GPU's. */
#include "device/cuda/memory.h"
#include "device/cuda/scenario.h"
#include "base/board.h"
#include "base/clock.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct cuda_driver *cu;

static bool said(const char *words)
{
    if (strstr(error_last(), words))
        return true;
    fprintf(stderr, "said: %s\n", error_last());
    return false;
}

static struct cuda_device *open_gpu(int ordinal)
{
    struct cuda_device *device;
    CHECK(cuda_driver(&cu) == TUTTI_SUCCESS);
    CHECK(cuda_device_acquire(ordinal, &device) == TUTTI_SUCCESS);
    return device;
}

static CUcontext current(void)
{
    CUcontext context;
    CHECK(cu->CtxGetCurrent(&context) == CUDA_SUCCESS);
    return context;
}

static struct cuda_range range_at(CUdeviceptr address)
{
    struct cuda_range range;
    CHECK(cuda_range_of((void *)(uintptr_t)address, &range) == TUTTI_SUCCESS);
    return range;
}

static bool zero_at(struct cuda_device *device, CUdeviceptr address, size_t size)
{
    unsigned char *copy = malloc(size);
    size_t i = 0;
    CHECK(copy);
    memset(copy, 1, size);
    cuda_enter(device);
    CHECK(cu->Memcpy((uintptr_t)copy, address, size) == CUDA_SUCCESS);
    cuda_leave();
    while (i < size && !copy[i])
        i++;
    free(copy);
    return i == size;
}

static size_t free_bytes(struct cuda_device *device)
{
    size_t bytes, total;
    cuda_enter(device);
    CHECK(cu->MemGetInfo(&bytes, &total) == CUDA_SUCCESS);
    cuda_leave();
    return bytes;
}

/* ---- devices and contexts ---- */

static void devices_are_counted(void)
{
    struct cuda_device *device = open_gpu(0), *again = open_gpu(0), *none = NULL;
    unsigned flags;
    int count, active, current_ordinal = -1;
    CHECK(device == again && device->users == 2 && device->sms > 0 && device->major > 0 &&
          strlen(device->bus_id) == 12);
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS && count > 0);
    CHECK(cuda_device_acquire(count, &none) == TUTTI_INVALID_ARGUMENT && !none && said("this process sees"));
    CHECK(cuda_device_acquire(-1, &none) == TUTTI_INVALID_ARGUMENT && !none);
    CHECK(cuda_device_current(&current_ordinal) == TUTTI_SUCCESS && current_ordinal == 0 && !current());
    CUdevice handle = device->handle;
    cuda_device_release(device);
    CHECK(cu->DevicePrimaryCtxGetState(handle, &flags, &active) == CUDA_SUCCESS && active);
    cuda_device_release(again);
    CHECK(cu->DevicePrimaryCtxGetState(handle, &flags, &active) == CUDA_SUCCESS && !active);
    device = open_gpu(0);
    cuda_device_release(device);
}

static void contexts_come_back(void)
{
    struct cuda_device *device = open_gpu(0);
    cuda_enter(device);
    CHECK(current() == device->context);
    cuda_enter(device);
    cuda_leave();
    CHECK(current() == device->context);
    cuda_leave();
    CHECK(!current());
    cuda_leave(); /* one too many does no harm */
    CHECK(!current());
    cuda_device_release(device);
}

static void another_device_is_current(void)
{
    int count, ordinal = -1;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < 2)
        SKIP();
    struct cuda_device *device = open_gpu(0), *other = open_gpu(1);
    CUdeviceptr address;
    cuda_enter(other);
    CHECK(cuda_device_current(&ordinal) == TUTTI_SUCCESS && ordinal == 1);
    CHECK(cuda_memory_alloc(device, 1 << 20, &address) == TUTTI_SUCCESS && current() == other->context);
    CHECK(range_at(address).ordinal == 0 && current() == other->context);
    CHECK(cuda_memory_free(other, address) == TUTTI_INVALID_ARGUMENT);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS && current() == other->context);
    CHECK(cuda_device_peer(device, 1) == TUTTI_SUCCESS && current() == other->context);
    cuda_leave();
    cuda_device_release(other);
    cuda_device_release(device);
}

static void peers(void)
{
    int count, active;
    unsigned flags;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < 2)
        SKIP();
    struct cuda_device *device = open_gpu(0);
    CHECK(cuda_device_peer(device, 0) == TUTTI_SUCCESS);
    CHECK(cuda_device_peer(device, 1) == TUTTI_SUCCESS && (device->peers & 2));
    CHECK(cuda_device_peer(device, 1) == TUTTI_SUCCESS);
    CHECK(cuda_device_peer(device, -1) == TUTTI_INVALID_ARGUMENT &&
          cuda_device_peer(device, 64) == TUTTI_INVALID_ARGUMENT);
    CHECK(cuda_device_peer(device, 63) == TUTTI_DEVICE_ERROR);
    CHECK(cu->DevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS && active);
    cuda_device_release(device);
    CHECK(cu->DevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS && !active);
}

/* Asking about another process' GPU makes no context on it. */
static void found_without_context(void)
{
    int count, active, ordinal = -2;
    unsigned flags;
    CUuuid uuid;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < 2)
        SKIP();
    struct cuda_device *device = open_gpu(0);
    CHECK(cu->DeviceGetUuid(&uuid, 1) == CUDA_SUCCESS);
    CHECK(cuda_device_find((const uint8_t *)uuid.bytes, &ordinal) == TUTTI_SUCCESS && ordinal == 1);
    CHECK(cuda_device_find(device->uuid, &ordinal) == TUTTI_SUCCESS && ordinal == 0);
    memset(uuid.bytes, 0x5a, sizeof uuid.bytes);
    CHECK(cuda_device_find((const uint8_t *)uuid.bytes, &ordinal) == TUTTI_SUCCESS && ordinal == -1);
    CHECK(cuda_device_reaches(device, 0) == TUTTI_SUCCESS && cuda_device_reaches(device, 1) == TUTTI_SUCCESS &&
          !device->peers);
    CHECK(cuda_device_reaches(device, -1) == TUTTI_DEVICE_ERROR);
    CHECK(cuda_device_whole(device, 1) && !cuda_device_whole(device, -1) && !cuda_device_whole(device, 0));
    CHECK(cu->DevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS && !active);
    cuda_device_release(device);
}

/* ---- memory ---- */

static void allocations_are_zero_and_known(void)
{
    struct cuda_device *device = open_gpu(0);
    size_t size = (5 << 20) + 3, before = free_bytes(device);
    CUdeviceptr address = 0, second = 0;
    CHECK(cuda_memory_alloc(device, size, &address) == TUTTI_SUCCESS && !current());
    CHECK(zero_at(device, address, size));
    struct cuda_range range = range_at(address), inside = range_at(address + size - 1);
    CHECK(range.kind == CUDA_DEVICE && range.ordinal == 0 && range.base == address && range.size >= size && range.id);
    CHECK(range.vmm == device->vmm && inside.vmm == range.vmm && inside.kind == range.kind &&
          inside.ordinal == range.ordinal);
    CHECK(inside.base == range.base && inside.size == range.size && inside.id == range.id && !current());
    CHECK(cuda_memory_free(device, address + 1) == TUTTI_INVALID_ARGUMENT && said("no allocation"));
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS && range_at(address).kind == CUDA_HOST);
    CHECK(cuda_memory_free(device, 0) == TUTTI_SUCCESS && free_bytes(device) == before);
    CHECK(cuda_memory_alloc(device, size, &second) == TUTTI_SUCCESS && range_at(second).id != range.id);
    CHECK(cuda_memory_free(device, second) == TUTTI_SUCCESS);
    CHECK(cuda_memory_alloc(device, 0, &second) == TUTTI_INVALID_ARGUMENT);
    CHECK(cuda_memory_alloc(device, SIZE_MAX - 5, &second) == TUTTI_DEVICE_ERROR && said("on GPU 0"));
    cuda_device_release(device);
}

static void refuses_to_share(const void *pointer, enum cuda_kind kind, const char *words)
{
    struct cuda_range range;
    struct cuda_handle handle;
    int fd = 5;
    CHECK(cuda_range_of(pointer, &range) == TUTTI_SUCCESS && range.kind == kind);
    CHECK(cuda_export(&range, &handle, &fd) == TUTTI_INVALID_USAGE && fd == -1 && said(words));
}

static void kinds_are_told_apart(void)
{
    struct cuda_device *device = open_gpu(0);
    CUdeviceptr plain, managed = 0;
    void *pinned, *registered = aligned_alloc(4096, 8192);
    int local;
    cuda_enter(device);
    CHECK(cu->MemAlloc(&plain, 4096) == CUDA_SUCCESS &&
          cu->MemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS);
    CHECK(cu->MemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    CHECK(registered && cu->MemHostRegister(registered, 8192, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS);
    cuda_leave();
    CHECK(range_at(plain).kind == CUDA_DEVICE && !range_at(plain).vmm && range_at(plain + 17).base == plain);
    refuses_to_share(&local, CUDA_HOST, "it is host memory");
    refuses_to_share(pinned, CUDA_PINNED, "it is pinned memory");
    refuses_to_share(registered, CUDA_PINNED, "tutti_device_mem_alloc");
    refuses_to_share((void *)(uintptr_t)managed, CUDA_MANAGED, "it is managed memory");
    cuda_enter(device);
    CHECK(cu->MemHostUnregister(registered) == CUDA_SUCCESS && cu->MemFreeHost(pinned) == CUDA_SUCCESS);
    CHECK(cu->MemFree(managed) == CUDA_SUCCESS && cu->MemFree(plain) == CUDA_SUCCESS);
    cuda_leave();
    free(registered);
    cuda_device_release(device);
}

/* As PyTorch's expandable segments: one reservation, pieces mapped one after the other. */
static void pieces_are_ranges(void)
{
    struct cuda_device *device = open_gpu(0);
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->handle}};
    CUmemAccessDesc who = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    size_t unit;
    if (!device->vmm)
        SKIP();
    cuda_enter(device);
    CHECK(cu->MemGetAllocationGranularity(&unit, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
    CHECK(cu->MemAddressReserve(&base, 4 * unit, 0, 0, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cu->MemCreate(&handle, unit, &what, 0) == CUDA_SUCCESS);
        CHECK(cu->MemMap(base + (size_t)i * unit, unit, 0, handle, 0) == CUDA_SUCCESS &&
              cu->MemRelease(handle) == CUDA_SUCCESS);
        CHECK(cu->MemSetAccess(base + (size_t)i * unit, unit, &who, 1) == CUDA_SUCCESS);
    }
    cuda_leave();
    struct cuda_range first = range_at(base + 5), second = range_at(base + unit);
    CHECK(first.vmm && first.base == base && first.size == unit && first.ordinal == 0);
    CHECK(second.vmm && second.base == base + unit && second.size == unit && second.id != first.id);
    refuses_to_share((void *)(uintptr_t)(base + unit), CUDA_DEVICE, "expandable segments");
    cuda_enter(device);
    CHECK(cu->MemUnmap(base, unit) == CUDA_SUCCESS && cu->MemUnmap(base + unit, unit) == CUDA_SUCCESS);
    CHECK(cu->MemAddressFree(base, 4 * unit) == CUDA_SUCCESS);
    cuda_leave();
    cuda_device_release(device);
}

static void allocation_leaves_a_capture_alone(void)
{
    struct cuda_device *device = open_gpu(0);
    CUstream stream;
    CUgraph graph;
    CUdeviceptr address;
    cuda_enter(device);
    CHECK(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(cuda_memory_alloc(device, 4096, &address) == TUTTI_SUCCESS);
    CHECK(cuda_memory_free(device, address) == TUTTI_SUCCESS);
    CHECK(cu->StreamEndCapture(stream, &graph) == CUDA_SUCCESS && cu->GraphDestroy(graph) == CUDA_SUCCESS);
    CHECK(cu->StreamDestroy(stream) == CUDA_SUCCESS);
    cuda_leave();
    cuda_device_release(device);
}

/* Memory of a GPU that this process does nothing else with. */
static void memory_beside(void)
{
    struct cuda_device *device = open_gpu(0);
    CUdeviceptr address = 0;
    size_t size = 4097;
    unsigned flags;
    int count, active;
    CHECK(cuda_device_count(&count) == TUTTI_SUCCESS);
    if (count < 2 || !device->vmm || cuda_device_reaches(device, 1) != TUTTI_SUCCESS)
        SKIP();
    CHECK(cuda_memory_beside(device, 1, &size, &address) == TUTTI_SUCCESS && address && size > 4097);
    struct cuda_range range = range_at(address + size - 1);
    CHECK(range.kind == CUDA_DEVICE && range.ordinal == 1 && range.base == address && range.size == size);
    CHECK(cu->DevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS && !active);
    CHECK(cuda_memory_leave(device, address, size) == TUTTI_SUCCESS);
    CHECK(range_at(address).kind == CUDA_HOST);
    CHECK(cuda_memory_beside(device, count, &size, &address) == TUTTI_DEVICE_ERROR);
    cuda_device_release(device);
}

#define WAITS (100 * NS_PER_MS)

/* A relay's slots on the GPU are given back when an allocation there fails. */
static void memory_is_given_back(void)
{
    struct cuda_device *device = open_gpu(0);
    struct board *board = board_open((uint64_t)getpid());
    struct board_use *use = board ? board_use(board, board_gpu(device->uuid)) : NULL;
    CUdeviceptr address;
    CHECK(use);
    uint64_t begun = clock_ns();
    CHECK(cuda_memory_alloc(device, SIZE_MAX / 4, &address) == TUTTI_DEVICE_ERROR);
    CHECK(clock_ns() - begun < WAITS); /* nobody has any */
    CHECK(atomic_load(&use->out) > begun);
    atomic_store(&use->outstanding, 1);
    begun = clock_ns();
    CHECK(cuda_memory_alloc(device, SIZE_MAX / 4, &address) == TUTTI_DEVICE_ERROR);
    CHECK(clock_ns() - begun >= WAITS);
    board_close(board);
    cuda_device_release(device);
}

static void test_devices(void **state)
{
    (void)state;
    assert_int_equal(scenario(devices_are_counted, NULL, NULL), 0);
    assert_int_equal(scenario(contexts_come_back, NULL, NULL), 0);
    assert_int_equal(scenario(another_device_is_current, NULL, NULL), 0);
    assert_int_equal(scenario(peers, NULL, NULL), 0);
    assert_int_equal(scenario(found_without_context, NULL, NULL), 0);
}

static void test_memory(void **state)
{
    (void)state;
    assert_int_equal(scenario(allocations_are_zero_and_known, NULL, NULL), 0);
    assert_int_equal(scenario(kinds_are_told_apart, NULL, NULL), 0);
    assert_int_equal(scenario(pieces_are_ranges, NULL, NULL), 0);
    assert_int_equal(scenario(allocation_leaves_a_capture_alone, NULL, NULL), 0);
    assert_int_equal(scenario(memory_beside, NULL, NULL), 0);
    assert_int_equal(scenario(memory_is_given_back, NULL, NULL), 0);
}

static void driver_is_there(void)
{
    const struct cuda_driver *driver;
    exit(cuda_driver(&driver) == TUTTI_SUCCESS ? 0 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices), cmocka_unit_test(test_memory)};
    if (scenario(driver_is_there, NULL, NULL) != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
