/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the stand-in. Written by calls.sh from the definitions. */
#pragma once

const char *nvmlErrorString(nvmlReturn_t error);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *out);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size);
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, nvmlNvLinkCapability_t which,
                                           unsigned *out);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, nvmlIntNvLinkDeviceType_t *out);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *out);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *out);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *out);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t which,
                                    nvmlGpuP2PStatus_t *out);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size);
nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out);
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size);
