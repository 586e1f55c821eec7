/* SPDX-License-Identifier: Apache-2.0 */
/* Calls under the names of older interfaces, which programs built against them look up. */
#include "cuda/call.h"

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
    return cuCtxCreate_v4(out, NULL, flags, device);
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}

EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return cuStreamWaitValue32_v2(stream, address, value, flags);
}

EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return cuStreamWriteValue32_v2(stream, address, value, flags);
}

EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list, unsigned flags)
{
    return cuStreamBatchMemOp_v2(stream, count, list, flags);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *after, size_t count, unsigned flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, after, NULL, count, flags);
}
