/* SPDX-License-Identifier: Apache-2.0 */
/* The module with the library's kernels, its functions, and their launch. */
#include "device/cuda/image.h"
#include "device/cuda/internal.h"
#include "device/cuda/launch.h"
#include "device/type.h"
#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const families[3] = {"one", "two", "bulk"};

static tutti_result_t cannot_load(const struct cuda_device *device, CUresult got)
{
    char text[200];
    if (!cuda_image_built)
        return error_set(TUTTI_DEVICE_ERROR, "load kernels on GPU %d: this tutti was built without nvcc and has none", device->ordinal);
    return error_set(TUTTI_DEVICE_ERROR, "load kernels on GPU %d (%s, compute capability %d.%d): %s", device->ordinal, device->name,
                     device->major, device->minor, cuda_result_text(got, text, sizeof text));
}

static tutti_result_t look_up(const struct cuda_driver *driver, const struct cuda_device *device, CUmodule module, const char *name,
                              CUfunction *out)
{
    char text[200];
    CUresult got = driver->ModuleGetFunction(out, module, name);
    /* Loading at the first launch could wait for a kernel that itself waits for that launch. */
    if (got == CUDA_SUCCESS && driver->FuncLoad)
        got = driver->FuncLoad(*out);
    if (got == CUDA_SUCCESS)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_DEVICE_ERROR, "find the kernel %s on GPU %d: %s", name, device->ordinal,
                     cuda_result_text(got, text, sizeof text));
}

static tutti_result_t look_up_all(const struct cuda_driver *driver, struct cuda_device *device, CUmodule module)
{
    char name[64];
    tutti_result_t result = look_up(driver, device, module, "tutti_exchange", &device->exchange);
    for (int family = 0; family < 3; family++)
        for (int type = 0; result == TUTTI_SUCCESS && type < TUTTI_TYPE_COUNT; type++) {
            snprintf(name, sizeof name, "tutti_reduce_%s_%s", families[family], type_name((tutti_type_t)type));
            result = look_up(driver, device, module, name, &device->reduce[family][type]);
        }
    return result;
}

static tutti_result_t load(const struct cuda_driver *driver, struct cuda_device *device)
{
    struct cuda_quiet quiet;
    CUmodule module = NULL;
    cuda_quiet_enter(device, &quiet);
    CUresult got = driver->ModuleLoadData(&module, cuda_image);
    tutti_result_t result = got == CUDA_SUCCESS ? look_up_all(driver, device, module) : cannot_load(device, got);
    if (result == TUTTI_SUCCESS)
        atomic_store_explicit(&device->module, module, memory_order_release);
    else if (module)
        driver->ModuleUnload(module);
    cuda_quiet_leave(&quiet);
    return result;
}

tutti_result_t cuda_device_load(struct cuda_device *device)
{
    const struct cuda_driver *driver;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || atomic_load_explicit(&device->module, memory_order_acquire))
        return result;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&device->module, memory_order_relaxed))
        result = load(driver, device);
    pthread_mutex_unlock(&lock);
    return result;
}

static tutti_result_t choose(const struct cuda_device *device, enum kernel_id kernel, tutti_type_t type, CUfunction *out)
{
    if (kernel == KERNEL_EXCHANGE) {
        *out = device->exchange;
        return TUTTI_SUCCESS;
    }
    if ((unsigned)kernel >= KERNEL_COUNT || (unsigned)type >= TUTTI_TYPE_COUNT)
        return error_set(TUTTI_INTERNAL_ERROR, "launch kernel %d for type %d: there is none", (int)kernel, (int)type);
    *out = device->reduce[kernel - KERNEL_REDUCE_ONE][type];
    return TUTTI_SUCCESS;
}

tutti_result_t cuda_launch(struct cuda_device *device, const struct kernel_launch *how, tutti_type_t type, void *params, CUstream stream)
{
    const struct cuda_driver *driver;
    CUfunction function = NULL;
    void *list[] = {params};
    tutti_result_t result = cuda_driver(&driver);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_load(device);
    if (result == TUTTI_SUCCESS)
        result = choose(device, how->kernel, type, &function);
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_enter(device);
    CUresult got = driver->LaunchKernel(function, how->grid[0], how->grid[1], 1, how->threads, 1, 1, 0, stream, list, NULL);
    cuda_leave();
    return cuda_check(got, "launch a kernel");
}
