/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels: their modules, their functions, their launch. */
#include "device/cuda/internal.h"
#include "device/cuda/kernels/images.h"
#include "device/cuda/launch.h"
#include "device/type.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define EARLY_VERSION 12030

static const char *const moves[KERNEL_REDUCE_ONE] = {
    "tutti_exchange",         "tutti_chain", "tutti_courier",     "tutti_messages",
    "tutti_exchange_dynamic", "tutti_puts",  "tutti_gather_words"};
static const char *const families[KERNEL_FAMILIES] = {"one",   "two",  "bulk",   "peer",
                                                      "lines", "ring", "listed", "folded"};

/* In place of the kernels, where the build found no nvcc: no driver of a real GPU loads this. */
static const unsigned char no_kernels[] = "built without kernels";

static tutti_result_t cannot_load(const struct cuda_device *device, CUresult got)
{
    char text[200];
    if (!kernel_image_count)
        return error_set(TUTTI_DEVICE_ERROR, "load kernels on GPU %d: this tutti was built without nvcc and has none",
                         device->ordinal);
    return error_set(TUTTI_DEVICE_ERROR, "load kernels on GPU %d (%s, compute capability %d.%d): %s", device->ordinal,
                     device->name, device->major, device->minor, cuda_result_text(got, text, sizeof text));
}

static tutti_result_t load_modules(const struct cuda_driver *driver, struct cuda_device *device)
{
    size_t count = kernel_image_count < CUDA_MODULES ? kernel_image_count : CUDA_MODULES;
    CUresult got = CUDA_SUCCESS;
    for (size_t i = 0; got == CUDA_SUCCESS && i < count; i++)
        got = driver->ModuleLoadData(&device->modules[i], kernel_images[i].start);
    if (!count)
        got = driver->ModuleLoadData(&device->modules[0], no_kernels);
    return got == CUDA_SUCCESS ? TUTTI_SUCCESS : cannot_load(device, got);
}

static void unload(const struct cuda_driver *driver, struct cuda_device *device)
{
    for (int i = 0; i < CUDA_MODULES; i++) {
        if (device->modules[i])
            driver->ModuleUnload(device->modules[i]);
        device->modules[i] = NULL;
    }
}

static tutti_result_t module_look_up(const struct cuda_driver *driver, const struct cuda_device *device,
                                     const char *name, CUfunction *out)
{
    char text[200];
    CUresult got = CUDA_ERROR_NOT_FOUND;
    for (int i = 0; got == CUDA_ERROR_NOT_FOUND && i < CUDA_MODULES && device->modules[i]; i++)
        got = driver->ModuleGetFunction(out, device->modules[i], name);
    if (got == CUDA_SUCCESS && driver->FuncLoad)
        got = driver->FuncLoad(*out);
    if (got == CUDA_SUCCESS)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_DEVICE_ERROR, "find the kernel %s on GPU %d: %s", name, device->ordinal,
                     cuda_result_text(got, text, sizeof text));
}

static tutti_result_t look_up_all(const struct cuda_driver *driver, struct cuda_device *device)
{
    char name[64];
    tutti_result_t result = TUTTI_SUCCESS;
    for (int kernel = 0; result == TUTTI_SUCCESS && kernel < KERNEL_REDUCE_ONE; kernel++)
        result = module_look_up(driver, device, moves[kernel], &device->moves[kernel]);
    for (int family = 0; family < KERNEL_FAMILIES; family++)
        for (int type = 0; result == TUTTI_SUCCESS && type < TUTTI_TYPE_COUNT; type++) {
            snprintf(name, sizeof name, "tutti_reduce_%s_%s", families[family], type_name((tutti_type_t)type));
            result = module_look_up(driver, device, name, &device->reduce[family][type]);
        }
    return result;
}

/* Kernels that wait for their stream by themselves may come to the GPU before that is over, from compute capability 9.0
 * on: an end and a launch take place side by side then. Code made of older PTX does not wait. In graphs since 12.3. */
static bool may_come_early(const struct cuda_driver *driver, const struct cuda_device *device)
{
    int version = 0, ptx = 0;
    return param_int(PARAM_EARLY_LAUNCH) && device->major >= 9 && driver->LaunchKernelEx && driver->FuncGetAttribute &&
           driver->DriverGetVersion(&version) == CUDA_SUCCESS && version >= EARLY_VERSION &&
           driver->FuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, device->moves[KERNEL_EXCHANGE]) ==
               CUDA_SUCCESS &&
           ptx >= 90;
}

static CUlaunchAttribute in_clusters_of(unsigned blocks)
{
    return (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {blocks, 1, 1}}};
}

/* For how many clusters of `blocks` blocks is there room, each block on a processor of its own? 0: it is not known. */
static unsigned most_clusters(const struct cuda_driver *driver, const struct cuda_device *device, unsigned blocks)
{
    int clusters = 0;
    CUlaunchAttribute attribute = in_clusters_of(blocks);
    const CUlaunchConfig config = {blocks, 1, 1, KERNEL_BULK_THREADS, 1, 1, 0, NULL, &attribute, 1};
    const CUfunction largest = device->reduce[KERNEL_REDUCE_BULK - KERNEL_REDUCE_ONE][TUTTI_FLOAT32];
    return driver->OccupancyMaxActiveClusters(&clusters, largest, &config) == CUDA_SUCCESS && clusters > 0
               ? (unsigned)clusters
               : 0;
}

static void find_clusters(const struct cuda_driver *driver, struct cuda_device *device)
{
    const bool able =
        param_int(PARAM_CLUSTER) && device->major >= 9 && driver->LaunchKernelEx && driver->OccupancyMaxActiveClusters;
    const unsigned pairs = able ? most_clusters(driver, device, 2) : 0,
                   larger = able ? most_clusters(driver, device, KERNEL_CLUSTER) : 0;
    device->clusters = kernel_clusters((unsigned)device->sms, pairs, larger);
}

static tutti_result_t module_load(const struct cuda_driver *driver, struct cuda_device *device)
{
    struct cuda_relaxed relaxed;
    uint64_t begin = clock_ns(), middle;
    cuda_relaxed_enter(device, &relaxed);
    tutti_result_t result = load_modules(driver, device);
    middle = clock_ns();
    if (result == TUTTI_SUCCESS)
        result = look_up_all(driver, device);
    if (result == TUTTI_SUCCESS) {
        device->early = may_come_early(driver, device);
        find_clusters(driver, device);
        log_info("loaded the kernels on GPU %d: modules took %.1f ms, their functions %.1f", device->ordinal,
                 (double)(middle - begin) / NS_PER_MS, (double)(clock_ns() - middle) / NS_PER_MS);
        atomic_store_explicit(&device->loaded, true, memory_order_release);
    } else {
        unload(driver, device);
    }
    cuda_relaxed_leave(&relaxed);
    return result;
}

tutti_result_t cuda_device_load(struct cuda_device *device)
{
    const struct cuda_driver *driver;
    tutti_result_t result = cuda_driver(&driver);
    if (result != TUTTI_SUCCESS || atomic_load_explicit(&device->loaded, memory_order_acquire))
        return result;
    pthread_mutex_lock(&device->making);
    if (!atomic_load_explicit(&device->loaded, memory_order_relaxed))
        result = module_load(driver, device);
    pthread_mutex_unlock(&device->making);
    return result;
}

static tutti_result_t module_choose(const struct cuda_device *device, enum kernel_id kernel, tutti_type_t type,
                                    CUfunction *out)
{
    if (kernel < KERNEL_REDUCE_ONE) {
        *out = device->moves[kernel];
        return TUTTI_SUCCESS;
    }
    if ((unsigned)kernel >= KERNEL_COUNT || (unsigned)type >= TUTTI_TYPE_COUNT)
        return error_set(TUTTI_INTERNAL_ERROR, "launch kernel %d for type %d: there is none", (int)kernel, (int)type);
    *out = device->reduce[kernel - KERNEL_REDUCE_ONE][type];
    return TUTTI_SUCCESS;
}

static CUresult module_launch(const struct cuda_driver *driver, const struct cuda_device *device, CUfunction function,
                              const struct kernel_launch *how, void *params, CUstream stream)
{
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {how->blocks, 1, 1, how->threads, 1, 1, 0, stream, attributes, 0};
    void *list[] = {params};
    if (device->early)
        attributes[config.numAttrs++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                                            .value = {.programmaticStreamSerializationAllowed = 1}};
    const unsigned cluster = kernel_cluster_of(device->clusters, how->blocks);
    if (cluster > 1)
        attributes[config.numAttrs++] = in_clusters_of(cluster);
    return config.numAttrs
               ? driver->LaunchKernelEx(&config, function, list, NULL)
               : driver->LaunchKernel(function, how->blocks, 1, 1, how->threads, 1, 1, 0, stream, list, NULL);
}

tutti_result_t cuda_launch(struct cuda_device *device, const struct kernel_launch *how, tutti_type_t type, void *params,
                           CUstream stream)
{
    const struct cuda_driver *driver;
    CUfunction function = NULL;
    tutti_result_t result = cuda_driver(&driver);
    if (result == TUTTI_SUCCESS)
        result = cuda_device_load(device);
    if (result == TUTTI_SUCCESS)
        result = module_choose(device, how->kernel, type, &function);
    if (result != TUTTI_SUCCESS)
        return result;
    cuda_enter(device);
    CUresult got = module_launch(driver, device, function, how, params, stream);
    cuda_leave();
    return cuda_check(got, "launch a kernel");
}
