/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: count, names and attributes. They look like the eight-way NVLink part of compute capability 9.0. */
#include "cuda/call.h"
#include "cuda/context.h"
#include "cuda/memory.h"
#include "cuda/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13000

EXPORT CUresult cuInit(unsigned flags)
{
    CALL(CALL_PLAIN);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!config_get()->devices)
        return CUDA_ERROR_NO_DEVICE;
    state_lock();
    CUresult result = private_start(range_describe);
    state_unlock();
    if (!result)
        state_mark_ready();
    return result;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    CALL(CALL_PLAIN);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    CALL(CALL_INIT);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = config_get()->devices;
    return CUDA_SUCCESS;
}

/* A question about a device, which `answerable` says the arguments allow. */
static CUresult device_asked(bool answerable, CUdevice device)
{
    if (!answerable)
        return CUDA_ERROR_INVALID_VALUE;
    return device_get(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(device, ordinal);
    if (result)
        return result;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(name && size > 0, device);
    if (result)
        return result;
    snprintf(name, (size_t)size, "tutti emulated GPU");
    return CUDA_SUCCESS;
}

/* "GPU-7475-7474-..." : the same in every process of a machine, as with hardware. */
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(uuid, device);
    if (result)
        return result;
    config_uuid(device_number(device), (unsigned char *)uuid->bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(bytes, device);
    if (result)
        return result;
    *bytes = config_get()->memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(id && size >= 13, device);
    if (result)
        return result;
    struct config_address at = config_address(device_number(device));
    snprintf(id, (size_t)size, "%04X:%02X:%02X.0", at.domain, at.bus, at.slot);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    unsigned domain = 0, bus = 0, slot = 0;
    CALL(CALL_INIT);
    if (!device || !id || (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3 && sscanf(id, "%x:%x", &bus, &slot) != 2))
        return CUDA_ERROR_INVALID_VALUE;
    int number = config_at(domain, bus, slot), found = number < 0 ? -1 : device_of_number(number);
    if (found < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = found;
    return CUDA_SUCCESS;
}

static const struct {
    CUdevice_attribute name;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
    {CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, 0x233510de},
};

/* What the table lacks (textures, multicast, fabric handles) is 0: not there. */
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CALL(CALL_INIT);
    CUresult result = device_asked(value && attribute >= 1 && attribute <= 1000, device);
    if (result)
        return result;
    struct config_address at = config_address(device_number(device));
    *value = (int)(attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID      ? at.bus
                   : attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ? at.slot
                   : attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID ? at.domain
                                                                    : 0);
    for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
        if (attributes[i].name == attribute)
            *value = attributes[i].value;
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        *value = config_get()->processors;
    if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
        *value = config_get()->dmabuf;
    if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)
        *value = config_get()->ordering;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CALL(CALL_INIT);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_get(device) || !device_get(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && config_get()->peers;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target)
{
    CALL(CALL_INIT);
    if (!value || attribute < 1 || (int)attribute > 5)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_get(source) || !device_get(target) || source == target)
        return CUDA_ERROR_INVALID_DEVICE;
    bool yes = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
               attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    *value = yes && config_get()->peers;
    return CUDA_SUCCESS;
}
