/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sentences for errors. */
#include "cuda/call.h"

static const struct {
    CUresult error;
    const char *name, *text;
} names[] = {
#define NAME(error, text)                                                                                              \
    {                                                                                                                  \
        error, #error, text                                                                                            \
    }
    NAME(CUDA_SUCCESS, "no error"),
    NAME(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    NAME(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    NAME(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    NAME(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    NAME(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    NAME(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    NAME(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    NAME(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAME(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    NAME(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    NAME(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    NAME(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    NAME(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    NAME(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    NAME(CUDA_ERROR_NOT_READY, "device not ready"),
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    NAME(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    NAME(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"),
    NAME(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    NAME(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
         "operation would make the legacy stream depend on a capturing blocking stream"),
    NAME(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
         "attempt to terminate a thread-local capture sequence from another thread"),
    NAME(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef NAME
};

static const char *look_up(CUresult error, bool name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (names[i].error == error)
            return name ? names[i].name : names[i].text;
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = look_up(error, true);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = look_up(error, false);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
