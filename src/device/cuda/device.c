/* SPDX-License-Identifier: Apache-2.0 */
/* The devices in use by this process, their contexts, and who may address whose memory. */
#include "device/cuda/internal.h"
#include "base/error.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_CONNECTIONS 8 /* hardware queues that a process's streams share, unless it wants another number */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t closed = PTHREAD_COND_INITIALIZER;
static struct cuda_device *devices[CUDA_DEVICES];
static bool
    closing[CUDA_DEVICES]; /* outside of the lock: closing may wait for the GPU's work, and others want other GPUs */

tutti_result_t cuda_device_count(int *count)
{
    const struct cuda_driver *driver;
    *count = 0;
    tutti_result_t result = cuda_driver(&driver);
    return result == TUTTI_SUCCESS ? cuda_check(driver->DeviceGetCount(count), "count the GPUs") : result;
}

tutti_result_t cuda_device_current(int *ordinal)
{
    const struct cuda_driver *driver;
    CUdevice current, device;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    *ordinal = 0;
    CUresult got = driver->CtxGetDevice(&current);
    if (got == CUDA_ERROR_INVALID_CONTEXT)
        return TUTTI_SUCCESS;
    for (int i = 0; got == CUDA_SUCCESS && i < CUDA_DEVICES && driver->DeviceGet(&device, i) == CUDA_SUCCESS; i++)
        if (device == current)
            *ordinal = i;
    return cuda_check(got, "ask for the current GPU");
}

/* ---- contexts ---- */

/*
 * Of this thread's cuda_enter(): bit 0: the innermost one pushed a context, which its cuda_leave() must pop; the
 * context that is current by them, NULL where that is not known. Between an enter and its leave nobody else changes it.
 */
static _Thread_local struct {
    uint64_t pushed;
    CUcontext current;
} inside;

static bool cuda_device_push(CUcontext context)
{
    const struct cuda_driver *driver;
    return cuda_driver(&driver) == TUTTI_SUCCESS && driver->CtxPushCurrent(context) == CUDA_SUCCESS;
}

void cuda_enter(struct cuda_device *device)
{
    bool pushes = inside.current != device->context && cuda_device_push(device->context);
    if (pushes)
        inside.current = device->context;
    inside.pushed = inside.pushed << 1 | pushes;
}

void cuda_leave(void)
{
    const struct cuda_driver *driver;
    CUcontext popped;
    if ((inside.pushed & 1) && cuda_driver(&driver) == TUTTI_SUCCESS) {
        driver->CtxPopCurrent(&popped);
        inside.current = NULL;
    }
    inside.pushed >>= 1;
}

void cuda_relaxed_enter(struct cuda_device *device, struct cuda_relaxed *relaxed)
{
    const struct cuda_driver *driver;
    cuda_enter(device);
    relaxed->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (cuda_driver(&driver) == TUTTI_SUCCESS)
        driver->ThreadExchangeStreamCaptureMode(&relaxed->mode);
}

void cuda_relaxed_leave(struct cuda_relaxed *relaxed)
{
    const struct cuda_driver *driver;
    if (cuda_driver(&driver) == TUTTI_SUCCESS)
        driver->ThreadExchangeStreamCaptureMode(&relaxed->mode);
    cuda_leave();
}

/* ---- life ---- */

static int attribute(const struct cuda_driver *driver, CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return driver->DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static void cuda_device_names(const struct cuda_driver *driver, CUdevice handle, uint8_t uuid[16], char bus_id[16])
{
    CUuuid found;
    memset(uuid, 0, 16);
    memset(bus_id, 0, 16);
    if (driver->DeviceGetUuid(&found, handle) == CUDA_SUCCESS)
        memcpy(uuid, found.bytes, 16);
    if (driver->DeviceGetPCIBusId(bus_id, 16, handle) != CUDA_SUCCESS)
        *bus_id = 0;
    for (char *p = bus_id; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

void cuda_device_identity(int ordinal, uint8_t uuid[16], char bus_id[16])
{
    const struct cuda_driver *driver;
    CUdevice handle;
    memset(uuid, 0, 16);
    memset(bus_id, 0, 16);
    if (cuda_driver(&driver) == TUTTI_SUCCESS && driver->DeviceGet(&handle, ordinal) == CUDA_SUCCESS)
        cuda_device_names(driver, handle, uuid, bus_id);
}

static void cuda_device_describe(const struct cuda_driver *driver, struct cuda_device *device)
{
    CUdevice handle = device->handle;
    device->sms = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    device->clusters = kernel_clusters((unsigned)device->sms, 0, 0);
    device->major = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    device->minor = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    /* Drivers since CUDA 12 have wait and write on every device; the calls are NULL before. */
    device->memops = driver->StreamWaitValue32 && driver->StreamWriteValue32 && driver->StreamBatchMemOp;
    device->vmm = driver->MemCreate && driver->MemAddressReserve && driver->MemMap && driver->MemSetAccess &&
                  driver->MemExportToShareableHandle && driver->MemGetAllocationGranularity && driver->MemUnmap &&
                  driver->MemAddressFree && driver->MemRelease &&
                  attribute(driver, handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
                  attribute(driver, handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    device->dmabuf =
        driver->MemGetHandleForAddressRange && attribute(driver, handle, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
    device->ordered = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                      CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    cuda_device_names(driver, handle, device->uuid, device->bus_id);
    if (driver->DeviceGetName(device->name, sizeof device->name, handle) != CUDA_SUCCESS)
        *device->name = 0;
}

static tutti_result_t open_device(const struct cuda_driver *driver, int ordinal, struct cuda_device **out)
{
    struct cuda_device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(TUTTI_SYSTEM_ERROR, "use GPU %d: no memory for %zu bytes", ordinal, sizeof *device);
    device->ordinal = ordinal;
    CUresult got = driver->DeviceGet(&device->handle, ordinal);
    if (got == CUDA_SUCCESS)
        got = driver->DevicePrimaryCtxRetain(&device->context, device->handle);
    if (got != CUDA_SUCCESS) {
        char text[200];
        free(device);
        return error_set(TUTTI_DEVICE_ERROR, "use GPU %d: %s", ordinal, cuda_result_text(got, text, sizeof text));
    }
    cuda_device_describe(driver, device);
    pthread_mutex_init(&device->making, NULL);
    *out = device;
    return TUTTI_SUCCESS;
}

static void release_peers(const struct cuda_driver *driver, struct cuda_device *device)
{
    CUdevice handle;
    for (int i = 0; i < CUDA_DEVICES; i++)
        if ((device->peers >> i & 1) && i != device->ordinal && driver->DeviceGet(&handle, i) == CUDA_SUCCESS)
            driver->DevicePrimaryCtxRelease(handle);
}

/* Results are not looked at: at the end of a process the driver may be gone before we are. */
static void cuda_device_close_device(struct cuda_device *device)
{
    const struct cuda_driver *driver;
    if (cuda_driver(&driver) == TUTTI_SUCCESS) {
        cuda_enter(device);
        for (int i = 0; i < CUDA_MODULES; i++)
            if (device->modules[i])
                driver->ModuleUnload(device->modules[i]);
        cuda_leave();
        release_peers(driver, device);
        driver->DevicePrimaryCtxRelease(device->handle);
    }
    pthread_mutex_destroy(&device->making);
    free(device);
}

tutti_result_t cuda_device_acquire(int ordinal, struct cuda_device **out)
{
    const struct cuda_driver *driver;
    int count;
    tutti_result_t result = cuda_device_count(&count);
    if (result == TUTTI_SUCCESS)
        result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= count || ordinal >= CUDA_DEVICES)
        return error_set(TUTTI_INVALID_ARGUMENT, "use GPU %d: this process sees %d (CUDA_VISIBLE_DEVICES)", ordinal,
                         count);
    pthread_mutex_lock(&lock);
    while (closing[ordinal])
        pthread_cond_wait(&closed, &lock);
    if (!devices[ordinal])
        result = open_device(driver, ordinal, &devices[ordinal]);
    if (result == TUTTI_SUCCESS) {
        devices[ordinal]->users++;
        *out = devices[ordinal];
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void cuda_device_release(struct cuda_device *device)
{
    if (!device)
        return;
    int ordinal = device->ordinal;
    pthread_mutex_lock(&lock);
    bool last = --device->users == 0;
    if (last)
        devices[ordinal] = NULL;
    closing[ordinal] |= last;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    cuda_device_close_device(device);
    pthread_mutex_lock(&lock);
    closing[ordinal] = false;
    pthread_cond_broadcast(&closed);
    pthread_mutex_unlock(&lock);
}

/* ---- peers ---- */

/* Needs no context of either. */
static tutti_result_t check_access(const struct cuda_driver *driver, const struct cuda_device *device, int peer,
                                   CUdevice *handle)
{
    int can = 0;
    CUresult got = driver->DeviceGet(handle, peer);
    if (got == CUDA_SUCCESS)
        got = driver->DeviceCanAccessPeer(&can, device->handle, *handle);
    if (got == CUDA_SUCCESS && !can)
        return error_set(TUTTI_INVALID_USAGE, "let GPU %d address the memory of GPU %d: this pair has no peer access",
                         device->ordinal, peer);
    return cuda_check(got, "ask about peer access");
}

static tutti_result_t enable(const struct cuda_driver *driver, struct cuda_device *device, int peer)
{
    CUdevice handle;
    CUcontext context;
    tutti_result_t result = check_access(driver, device, peer, &handle);
    if (result != TUTTI_SUCCESS)
        return result;
    CUresult got;
    /* Held until the device is closed: access ends with the peer's context. */
    if ((got = driver->DevicePrimaryCtxRetain(&context, handle)) != CUDA_SUCCESS)
        return cuda_check(got, "open the peer GPU");
    cuda_enter(device);
    got = driver->CtxEnablePeerAccess(context, 0);
    cuda_leave();
    if (got == CUDA_SUCCESS || got == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
        device->peers |= 1ull << peer;
        return TUTTI_SUCCESS;
    }
    driver->DevicePrimaryCtxRelease(handle);
    return cuda_check(got, "enable peer access");
}

tutti_result_t cuda_device_peer(struct cuda_device *device, int peer_ordinal)
{
    const struct cuda_driver *driver;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || peer_ordinal == device->ordinal)
        return result;
    if (peer_ordinal < 0 || peer_ordinal >= CUDA_DEVICES)
        return error_set(TUTTI_INVALID_ARGUMENT, "let GPU %d address GPU %d: there is none", device->ordinal,
                         peer_ordinal);
    pthread_mutex_lock(&device->making);
    if (!(device->peers >> peer_ordinal & 1))
        result = enable(driver, device, peer_ordinal);
    pthread_mutex_unlock(&device->making);
    return result;
}

tutti_result_t cuda_device_reaches(const struct cuda_device *device, int peer_ordinal)
{
    const struct cuda_driver *driver;
    CUdevice handle;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || peer_ordinal == device->ordinal)
        return result;
    return check_access(driver, device, peer_ordinal, &handle);
}

bool cuda_queues_are_few(void)
{
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return connections && atoi(connections) > 0 && atoi(connections) < USUAL_CONNECTIONS;
}

bool cuda_device_whole(const struct cuda_device *device, int peer_ordinal)
{
    const struct cuda_driver *driver;
    CUdevice handle;
    int atomic = 0;
    return cuda_driver(&driver) == TUTTI_SUCCESS && driver->DeviceGetP2PAttribute &&
           driver->DeviceGet(&handle, peer_ordinal) == CUDA_SUCCESS &&
           driver->DeviceGetP2PAttribute(&atomic, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device->handle,
                                         handle) == CUDA_SUCCESS &&
           atomic;
}

tutti_result_t cuda_device_find(const uint8_t uuid[16], int *ordinal)
{
    const struct cuda_driver *driver;
    CUdevice handle;
    CUuuid theirs;
    int count;
    *ordinal = -1;
    tutti_result_t result = cuda_device_count(&count);
    if (result == TUTTI_SUCCESS)
        result = cuda_driver(&driver);
    for (int i = 0; result == TUTTI_SUCCESS && *ordinal < 0 && i < count; i++) {
        CUresult got = driver->DeviceGet(&handle, i);
        if (got == CUDA_SUCCESS)
            got = driver->DeviceGetUuid(&theirs, handle);
        if (got == CUDA_SUCCESS && memcmp(theirs.bytes, uuid, sizeof theirs.bytes) == 0)
            *ordinal = i;
        result = cuda_check(got, "ask which GPU is which");
    }
    return result;
}
