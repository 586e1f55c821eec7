/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls of the driver that a program needs before it makes a communicator. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gpu_wanted(void)
{
    const char *value = getenv("TUTTI_TEST_GPU");
    return value && strcmp(value, "1") == 0;
}

static void must(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: CUDA error %d\n", what, result);
    exit(1);
}

static void *symbol(void *driver, const char *name)
{
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found) {
        fprintf(stderr, "no CUDA driver, or one without %s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

void gpu_select(int ordinal)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int device = 0, count = 0;
    int (*init)(unsigned) = (int (*)(unsigned))symbol(driver, "cuInit");
    int (*counted)(int *) = (int (*)(int *))symbol(driver, "cuDeviceGetCount");
    int (*get)(int *, int) = (int (*)(int *, int))symbol(driver, "cuDeviceGet");
    int (*retain)(void **, int) = (int (*)(void **, int))symbol(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))symbol(driver, "cuCtxSetCurrent");
    must(init(0), "cuInit");
    must(counted(&count), "cuDeviceGetCount");
    must(get(&device, count ? ordinal % count : ordinal), "cuDeviceGet");
    must(retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(set(context), "cuCtxSetCurrent");
}

void gpu_bytes_copy(void *to, const void *from, size_t size)
{
    static _Atomic(void *) found;
    void *copy = found;
    if (!gpu_wanted()) {
        memcpy(to, from, size);
        return;
    }
    if (!copy)
        found = copy = symbol(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpy");
    if (size)
        must(((int (*)(uintptr_t, uintptr_t, size_t))copy)((uintptr_t)to, (uintptr_t)from, size), "cuMemcpy");
}

tutti_config_t gpu_config(void)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = gpu_wanted() ? TUTTI_CURRENT_DEVICE : TUTTI_HOST;
    return config;
}
