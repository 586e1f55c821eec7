/* SPDX-License-Identifier: Apache-2.0 */
/* What an address is: attributes of pointers. */
#include "cuda/call.h"
#include "cuda/memory.h"

#include <string.h>

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    CALL(CALL_CONTEXT);
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    if (range && base)
        *base = (uintptr_t)range->base;
    if (range && size)
        *size = range->size;
    state_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static bool is_host(const struct range *range)
{
    return range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED;
}

static unsigned handle_types(const struct range *range)
{
    return range->kind == RANGE_MAPPED ? (unsigned)range->allocation->prop.requestedHandleTypes : 0;
}

/* The attribute's value and its size; 0: the attribute is unknown. */
static size_t attribute_of(const struct range *range, CUdeviceptr address, CUpointer_attribute attribute,
                           uint64_t *value)
{
    bool visible = is_host(range) || range->kind == RANGE_MANAGED;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *value = (uintptr_t)range->context;
        return range->context ? sizeof(CUcontext) : 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *value = is_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return sizeof(unsigned);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *value = address;
        return sizeof(CUdeviceptr);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *value = address;
        return visible ? sizeof(void *) : 0;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *value = (uint64_t)range->sync_memops;
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *value = range->id;
        return sizeof(unsigned long long);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *value = range->kind == RANGE_MANAGED;
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *value = (uint64_t)range->device;
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *value = range->kind == RANGE_DEVICE && !(range->flags & RANGE_POOLED);
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *value = (uintptr_t)range->base;
        return sizeof(void *);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *value = range->size;
        return sizeof(size_t);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *value = range->kind != RANGE_MAPPED || range->access != 0;
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *value = handle_types(range);
        return sizeof(uint64_t);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *value = range->kind == RANGE_DEVICE ||
                 (range->kind == RANGE_MAPPED && range->allocation->prop.allocFlags.gpuDirectRDMACapable);
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *value = 0;
        return sizeof(void *);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *value = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return sizeof(int);
    default:
        return 0;
    }
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    uint64_t value;
    CALL(CALL_CONTEXT);
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    size_t size = range ? attribute_of(range, address, attribute, &value) : 0;
    state_unlock();
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, size); /* little end first on both kinds of processor */
    return CUDA_SUCCESS;
}

/* Unknown addresses are no error here: they get zeros, and -2 for the device. */
static void answer(const struct range *range, CUdeviceptr address, CUpointer_attribute attribute, void *data)
{
    static const struct range none = {.kind = RANGE_DEVICE};
    uint64_t value = 0;
    size_t size = attribute_of(range ? range : &none, address, attribute, &value);
    if (!range)
        value = attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2 : 0;
    if (!size && (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER || attribute == CU_POINTER_ATTRIBUTE_CONTEXT)) {
        value = 0;
        size = sizeof(void *);
    }
    memcpy(data, &value, size);
}

EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *list, void **data, CUdeviceptr address)
{
    CALL(CALL_CONTEXT);
    if (!count || !list || !data)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    for (unsigned i = 0; i < count; i++)
        answer(range, address, list[i], data[i]);
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    CALL(CALL_CONTEXT);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    struct range *range = range_find((void *)(uintptr_t)address);
    if (range)
        range->sync_memops = *(const int *)value;
    state_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
