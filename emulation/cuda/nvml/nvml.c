/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the management library: the devices of the stand-in driver, each pair joined by NVLinks. */
#include "cuda/nvml/nvml_abi.h"
#include "cuda/call.h"
#include "cuda/config.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINKS          18 /* of each device, shared out evenly among the others */
#define DRIVER_VERSION "580.00.00"
#define DRIVER_CUDA    13000
#define UUID_SIZE      48

static atomic_int users;

struct nvmlDevice_st {
    int ordinal;
};

static struct nvmlDevice_st devices[CONFIG_DEVICES_MAX];

#define NEED(condition, otherwise)                                                                                     \
    do {                                                                                                               \
        if (!atomic_load(&users))                                                                                      \
            return NVML_ERROR_UNINITIALIZED;                                                                           \
        if (!(condition))                                                                                              \
            return otherwise;                                                                                          \
    } while (0)

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    for (int i = 0; !atomic_load(&users) && i < CONFIG_DEVICES_MAX; i++)
        devices[i].ordinal = i;
    atomic_fetch_add(&users, 1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    return nvmlInit_v2();
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    NEED(true, NVML_SUCCESS);
    atomic_fetch_sub(&users, 1);
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t error)
{
    switch (error) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    default:
        return "Unknown Error";
    }
}

static nvmlReturn_t give(char *out, unsigned size, const char *text)
{
    NEED(out, NVML_ERROR_INVALID_ARGUMENT);
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    return give(out, size, DRIVER_VERSION);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    return give(out, size, "13." DRIVER_VERSION);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    NEED(out, NVML_ERROR_INVALID_ARGUMENT);
    *out = DRIVER_CUDA;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    NEED(out, NVML_ERROR_INVALID_ARGUMENT);
    *out = (unsigned)config_get()->machine;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    NEED(out && index < (unsigned)config_get()->machine, NVML_ERROR_INVALID_ARGUMENT);
    *out = &devices[index];
    return NVML_SUCCESS;
}

static void write_bus_id(char *out, size_t size, int ordinal)
{
    struct config_address at = config_address(ordinal);
    snprintf(out, size, "%08X:%02X:%02X.0", at.domain, at.bus, at.slot);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out)
{
    unsigned domain, bus, slot;
    NEED(id && out, NVML_ERROR_INVALID_ARGUMENT);
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    int number = config_at(domain, bus, slot);
    if (number < 0 || number >= config_get()->machine)
        return NVML_ERROR_NOT_FOUND;
    *out = &devices[number];
    return NVML_SUCCESS;
}

/* The text of what cuDeviceGetUuid gives. */
static void write_uuid(char out[UUID_SIZE], int ordinal)
{
    unsigned char bytes[16];
    config_uuid(ordinal, bytes);
    snprintf(out, UUID_SIZE, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", bytes[0],
             bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9], bytes[10],
             bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    char own[UUID_SIZE];
    NEED(uuid && out, NVML_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < config_get()->machine; i++) {
        write_uuid(own, i);
        if (!strcmp(own, uuid)) {
            *out = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size)
{
    char own[UUID_SIZE];
    NEED(device, NVML_ERROR_INVALID_ARGUMENT);
    write_uuid(own, device->ordinal);
    return give(out, size, own);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size)
{
    NEED(device, NVML_ERROR_INVALID_ARGUMENT);
    return give(out, size, "tutti emulated GPU");
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    NEED(device && out, NVML_ERROR_INVALID_ARGUMENT);
    *out = (unsigned)device->ordinal;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *out)
{
    return nvmlDeviceGetIndex(device, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    NEED(device && major && minor, NVML_ERROR_INVALID_ARGUMENT);
    *major = 9;
    *minor = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    NEED(device && out, NVML_ERROR_INVALID_ARGUMENT);
    out->total = out->free = config_get()->memory;
    out->used = 0;
    return NVML_SUCCESS;
}

static void write_pci(int ordinal, nvmlPciInfo_t *out)
{
    struct config_address at = config_address(ordinal);
    *out = (nvmlPciInfo_t){.domain = at.domain, .bus = at.bus, .device = at.slot, .pciDeviceId = 0x233510de};
    write_bus_id(out->busId, sizeof(out->busId), ordinal);
    snprintf(out->busIdLegacy, sizeof(out->busIdLegacy), "%.12s", out->busId + 4);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    NEED(device && out, NVML_ERROR_INVALID_ARGUMENT);
    write_pci(device->ordinal, out);
    return NVML_SUCCESS;
}

/* The device at the other end: link l goes to the (l mod others)-th other device. -1: the link is not used. */
static int other_end(int ordinal, unsigned link)
{
    int others = config_get()->machine - 1;
    if (!config_get()->peers || others < 1 || (int)link >= LINKS / others * others)
        return -1;
    int other = (int)link % others;
    return other + (other >= ordinal);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *out)
{
    NEED(device && out && link < LINKS, NVML_ERROR_INVALID_ARGUMENT);
    *out = other_end(device->ordinal, link) >= 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *out)
{
    NEED(device && out && link < LINKS, NVML_ERROR_INVALID_ARGUMENT);
    *out = 4;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, nvmlNvLinkCapability_t which,
                                                  unsigned *out)
{
    NEED(device && out && link < LINKS && (unsigned)which < NVML_NVLINK_CAP_COUNT, NVML_ERROR_INVALID_ARGUMENT);
    *out = which == NVML_NVLINK_CAP_P2P_SUPPORTED || which == NVML_NVLINK_CAP_VALID;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *out)
{
    NEED(device && out && link < LINKS, NVML_ERROR_INVALID_ARGUMENT);
    int other = other_end(device->ordinal, link);
    if (other < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    write_pci(other, out);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                        nvmlIntNvLinkDeviceType_t *out)
{
    NEED(device && out && link < LINKS, NVML_ERROR_INVALID_ARGUMENT);
    *out = NVML_NVLINK_DEVICE_TYPE_GPU;
    return other_end(device->ordinal, link) >= 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t which,
                                           nvmlGpuP2PStatus_t *out)
{
    NEED(one && other && out && (unsigned)which <= NVML_P2P_CAPS_INDEX_PCI, NVML_ERROR_INVALID_ARGUMENT);
    *out = one != other && config_get()->peers ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}
