/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: zeroed, by plain allocations, which a peer maps by nothing but an IPC handle; copied. */
#include "executor/gpu/memory.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "executor/gpu/gpu.h"

/* On a stream of its own: the default stream would wait for the user's. */
static tutti_result_t clear(const struct cuda_driver *cu, CUdeviceptr memory, size_t size)
{
    CUstream stream;
    tutti_result_t result =
        cuda_check(cu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), "making a stream");
    if (result != TUTTI_SUCCESS)
        return result;
    result = cuda_check(cu->MemsetD8Async(memory, 0, size, stream), "clearing device memory");
    if (result == TUTTI_SUCCESS &&
        (result = cuda_check(cu->StreamSynchronize(stream), "clearing device memory")) != TUTTI_SUCCESS)
        cu->StreamSynchronize(stream); /* the memory is given back: nothing may still write to it, if that can be had */
    cu->StreamDestroy(stream);
    return result;
}

tutti_result_t memory_zeroed(const struct cuda_driver *cu, size_t size, CUdeviceptr *out)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* the caller may be capturing a graph */
    cu->ThreadExchangeStreamCaptureMode(&mode);
    tutti_result_t result = cuda_check(cuda_memory_take(cu, size, out), "allocating device memory");
    if (result == TUTTI_SUCCESS) {
        result = clear(cu, *out, size);
        if (result != TUTTI_SUCCESS)
            cu->MemFree(*out);
    }
    cu->ThreadExchangeStreamCaptureMode(&mode);
    if (result != TUTTI_SUCCESS)
        *out = 0;
    return result;
}

bool memory_is_reached(const struct gpu *gpu, const void *memory)
{
    unsigned capable = 0;
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    void *values = &capable;
    return gpu->base.cu->PointerGetAttributes(1, &which, &values, device_address(memory)) == CUDA_SUCCESS && capable;
}

tutti_result_t gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    return cuda_check(gpu->base.cu->MemcpyDtoDAsync(to, from, bytes, stream), "copying device memory");
}

tutti_result_t gpu_memory_alloc(void **out, size_t size)
{
    const struct cuda_driver *cu;
    struct cuda_device *device;
    CUdeviceptr memory = 0;
    int ordinal;
    tutti_result_t result = cuda_driver(&cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_current(&ordinal);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_acquire(ordinal, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_enter(device);
    result = memory_zeroed(cu, size, &memory);
    cuda_leave();
    cuda_device_release(device); /* the memory needs nothing but the context, which the caller has */
    if (result == TUTTI_SUCCESS)
        *out = (void *)(uintptr_t)memory;
    return result;
}

tutti_result_t gpu_memory_free(void *pointer)
{
    const struct cuda_driver *cu;
    tutti_result_t result = cuda_driver(&cu);
    if (result == TUTTI_SUCCESS && pointer)
        result = cuda_check(cu->MemFree(device_address(pointer)), "freeing device memory");
    return result;
}

/* ---- Of the library's own ---- */

tutti_result_t gpu_memory_keep(int ordinal, size_t size, void **out)
{
    struct cuda_device *device;
    CUdeviceptr memory = 0;
    tutti_result_t result = cuda_device_acquire(ordinal, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    result = cuda_memory_alloc(device, size, &memory);
    cuda_device_release(device);
    *out = (void *)(uintptr_t)memory;
    return result;
}

void gpu_memory_keep_no_more(int ordinal, void *memory)
{
    struct cuda_device *device;
    if (!memory || cuda_device_acquire(ordinal, &device) != TUTTI_SUCCESS)
        return;
    cuda_memory_free(device, device_address(memory));
    cuda_device_release(device);
}

/* *cu, and the device, whose context is current until cuda_leave() and its release. */
static tutti_result_t gpu_memory_enter(int ordinal, const struct cuda_driver **cu, struct cuda_device **device)
{
    tutti_result_t result = cuda_driver(cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_acquire(ordinal, device);
    if (result == TUTTI_SUCCESS)
        cuda_enter(*device);
    return result;
}

static tutti_result_t memory_leave(struct cuda_device *device, tutti_result_t result)
{
    cuda_leave();
    cuda_device_release(device);
    return result;
}

tutti_result_t gpu_memory_copy(int ordinal, void *to, const void *from, size_t size, tutti_stream_t stream)
{
    const struct cuda_driver *cu;
    struct cuda_device *device;
    tutti_result_t result = gpu_memory_enter(ordinal, &cu, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    CUresult got = cu->MemcpyDtoDAsync(device_address(to), device_address(from), size, (CUstream)stream);
    return memory_leave(device, cuda_check(got, "copying device memory"));
}

tutti_result_t gpu_memory_drain(int ordinal, tutti_stream_t stream)
{
    const struct cuda_driver *cu;
    struct cuda_device *device;
    tutti_result_t result = gpu_memory_enter(ordinal, &cu, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    return memory_leave(device, cuda_check(cu->StreamSynchronize((CUstream)stream), "waiting for a stream"));
}

tutti_result_t gpu_memory_runs(int ordinal, tutti_stream_t stream)
{
    const struct cuda_driver *cu;
    struct cuda_device *device;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result = gpu_memory_enter(ordinal, &cu, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    CUresult got = cu->StreamIsCapturing((CUstream)stream, &status);
    result = memory_leave(device, cuda_check(got, "asking whether the stream is being captured"));
    if (result == TUTTI_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        result = error_set(TUTTI_INVALID_USAGE,
                           "the stream %p is being captured, and the call waits for its work; end the capture first, "
                           "or pass another stream",
                           (void *)stream);
    return result;
}
