/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls of the driver that a program needs before it makes a communicator. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

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

/* By a stream that waits for no other one: tests hold up streams of theirs. */
static void copy_beside(void *driver, void *to, const void *from, size_t size)
{
    void *stream = NULL;
    int (*create)(void **, unsigned) = (int (*)(void **, unsigned))symbol(driver, "cuStreamCreate");
    int (*copy)(uintptr_t, uintptr_t, size_t, void *) =
        (int (*)(uintptr_t, uintptr_t, size_t, void *))symbol(driver, "cuMemcpyAsync");
    int (*wait)(void *) = (int (*)(void *))symbol(driver, "cuStreamSynchronize");
    int (*destroy)(void *) = (int (*)(void *))symbol(driver, "cuStreamDestroy_v2");
    must(create(&stream, NON_BLOCKING), "cuStreamCreate");
    must(copy((uintptr_t)to, (uintptr_t)from, size, stream), "cuMemcpyAsync");
    must(wait(stream), "cuStreamSynchronize");
    must(destroy(stream), "cuStreamDestroy");
}

void gpu_bytes_copy(void *to, const void *from, size_t size)
{
    if (!gpu_wanted())
        memcpy(to, from, size);
    else if (size)
        copy_beside(dlopen("libcuda.so.1", RTLD_NOW), to, from, size);
}

tutti_config_t gpu_config(void)
{
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = gpu_wanted() ? TUTTI_CURRENT_DEVICE : TUTTI_HOST;
    return config;
}
