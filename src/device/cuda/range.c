/* SPDX-License-Identifier: Apache-2.0 */
/* What a pointer points at. */
#include "device/cuda/memory.h"
#include "base/error.h"

#include <string.h>

/* What the driver says of an address; all zero for memory that it does not know. */
struct facts {
    CUmemorytype type;
    unsigned managed;
    int ordinal;
    unsigned long long id;
};

static CUresult range_ask(const struct cuda_driver *driver, CUdeviceptr address, struct facts *out)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *values[] = {&out->type, &out->managed, &out->ordinal, &out->id};
    memset(out, 0, sizeof *out);
    return driver->PointerGetAttributes(4, which, values, address);
}

/* ---- calls that need a current context, made by a thread that may have none ---- */

struct primary {
    CUdevice device;
    bool entered;
};

static CUresult primary_enter(const struct cuda_driver *driver, int ordinal, struct primary *primary)
{
    CUcontext context = NULL;
    primary->entered = false;
    if (driver->CtxGetCurrent(&context) == CUDA_SUCCESS && context)
        return CUDA_SUCCESS;
    CUresult got = driver->DeviceGet(&primary->device, ordinal);
    if (got == CUDA_SUCCESS)
        got = driver->DevicePrimaryCtxRetain(&context, primary->device);
    if (got != CUDA_SUCCESS)
        return got;
    if ((got = driver->CtxPushCurrent(context)) == CUDA_SUCCESS)
        primary->entered = true;
    else
        driver->DevicePrimaryCtxRelease(primary->device);
    return got;
}

/* Enters any device in use: without one there is no device memory that a pointer could point at. */
static bool primary_enter_active(const struct cuda_driver *driver, struct primary *primary)
{
    unsigned flags;
    CUdevice device;
    for (int i = 0, active = 0; i < CUDA_DEVICES && driver->DeviceGet(&device, i) == CUDA_SUCCESS; i++)
        if (driver->DevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
            return primary_enter(driver, i, primary) == CUDA_SUCCESS;
    return false;
}

static void primary_leave(const struct cuda_driver *driver, struct primary *primary)
{
    CUcontext context;
    if (!primary->entered)
        return;
    driver->CtxPopCurrent(&context);
    driver->DevicePrimaryCtxRelease(primary->device);
}

/* ---- ranges ---- */

/* Mapped piece by piece (cuMemMap): an allocation handle can be had from the address. */
static bool range_is_mapped(const struct cuda_driver *driver, CUdeviceptr address)
{
    CUmemGenericAllocationHandle handle;
    if (!driver->MemRetainAllocationHandle || !driver->MemRelease ||
        driver->MemRetainAllocationHandle(&handle, (void *)(uintptr_t)address) != CUDA_SUCCESS)
        return false;
    driver->MemRelease(handle);
    return true;
}

static enum cuda_kind range_kind_of(const struct facts *facts)
{
    if (facts->type != CU_MEMORYTYPE_HOST && facts->type != CU_MEMORYTYPE_DEVICE)
        return CUDA_HOST;
    if (facts->managed)
        return CUDA_MANAGED;
    return facts->type == CU_MEMORYTYPE_DEVICE ? CUDA_DEVICE : CUDA_PINNED;
}

static tutti_result_t find_bounds(const struct cuda_driver *driver, CUdeviceptr address, struct cuda_range *out)
{
    struct primary primary;
    CUresult got = primary_enter(driver, out->ordinal, &primary);
    if (got == CUDA_SUCCESS) {
        got = driver->MemGetAddressRange(&out->base, &out->size, address);
        out->vmm = out->kind == CUDA_DEVICE && range_is_mapped(driver, address);
        primary_leave(driver, &primary);
    }
    /* Registered host memory has no range of its own in every driver. */
    if (got != CUDA_SUCCESS && out->kind == CUDA_PINNED) {
        out->base = address;
        out->size = 0;
        return TUTTI_SUCCESS;
    }
    return cuda_check(got, "ask for the bounds of an allocation");
}

static tutti_result_t judge(const struct cuda_driver *driver, CUdeviceptr address, CUresult got,
                            const struct facts *facts, struct cuda_range *out)
{
    if (got == CUDA_ERROR_INVALID_VALUE || got == CUDA_ERROR_INVALID_CONTEXT || got == CUDA_ERROR_DEINITIALIZED)
        return TUTTI_SUCCESS;
    if (got != CUDA_SUCCESS)
        return cuda_check(got, "ask what a pointer points at");
    out->kind = range_kind_of(facts);
    if (out->kind == CUDA_HOST)
        return TUTTI_SUCCESS;
    out->ordinal = facts->ordinal;
    out->id = facts->id;
    return find_bounds(driver, address, out);
}

tutti_result_t cuda_range_of(const void *pointer, struct cuda_range *out)
{
    const struct cuda_driver *driver;
    struct primary primary = {0};
    struct facts facts;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    *out = (struct cuda_range){.kind = CUDA_HOST, .ordinal = -1, .base = address};
    if (cuda_driver(&driver) != TUTTI_SUCCESS)
        return TUTTI_SUCCESS;
    CUresult got = range_ask(driver, address, &facts);
    if (got == CUDA_ERROR_INVALID_CONTEXT && primary_enter_active(driver, &primary))
        got = range_ask(driver, address, &facts);
    tutti_result_t result = judge(driver, address, got, &facts, out);
    primary_leave(driver, &primary);
    return result;
}
