/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of this folder only. */
#ifndef TUTTI_DEVICE_CUDA_INTERNAL_H
#define TUTTI_DEVICE_CUDA_INTERNAL_H

#include "device/cuda/device.h"

struct cuda_relaxed {
    CUstreamCaptureMode mode;
};

/* As cuda_enter() and cuda_leave(), for calls that a capture by this or another thread would otherwise forbid, or that
 * would invalidate it: allocation, loading. */
void cuda_relaxed_enter(struct cuda_device *device, struct cuda_relaxed *relaxed);
void cuda_relaxed_leave(struct cuda_relaxed *relaxed);

/* Reserves addresses for an allocation, maps it there and gives `device` access; and undoes that. */
CUresult cuda_map(const struct cuda_driver *driver, const struct cuda_device *device,
                  CUmemGenericAllocationHandle handle, size_t size, CUdeviceptr *out);
CUresult cuda_unmap(const struct cuda_driver *driver, CUdeviceptr address, size_t size);

#endif
