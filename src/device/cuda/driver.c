/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the CUDA driver once, and turns its results into ours. */
#include "device/cuda/driver.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct row {
    const char *symbol;
    size_t offset;
    bool needed;
};

static const struct row rows[] = {
#define CALL(member, symbol, needed, arguments) {symbol, offsetof(struct cuda_driver, member), needed},
#include "device/cuda/driver.tbl"
#undef CALL
};

static struct cuda_driver driver;
static char complaint[400]; /* "" once the driver is usable */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The first needed symbol that the library lacks; NULL: the table is filled. */
static const char *driver_fill(void *library)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].symbol);
        if (!symbol && rows[i].needed)
            return rows[i].symbol;
        memcpy((char *)&driver + rows[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

const char *cuda_result_text(CUresult result, char *out, size_t size)
{
    const char *name = NULL, *text = NULL;
    if (driver.GetErrorName)
        driver.GetErrorName(result, &name);
    if (driver.GetErrorString)
        driver.GetErrorString(result, &text);
    if (name)
        snprintf(out, size, "%s (%s)", name, text ? text : "no text");
    else
        snprintf(out, size, "result %d", (int)result);
    return out;
}

static void driver_start(const char *name)
{
    char text[200];
    CUresult result = driver.Init(0);
    int devices = 0;
    if (result == CUDA_SUCCESS)
        result = driver.DeviceGetCount(&devices);
    if (result != CUDA_SUCCESS)
        snprintf(complaint, sizeof complaint, "start the CUDA driver %.100s: %s; does nvidia-smi work here?", name,
                 cuda_result_text(result, text, sizeof text));
    else if (!devices)
        snprintf(complaint, sizeof complaint, "the CUDA driver %.100s shows no GPU: look at CUDA_VISIBLE_DEVICES",
                 name);
}

static void driver_load(void)
{
    const char *name = param_string(PARAM_CUDA_LIBRARY), *missing;
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        snprintf(complaint, sizeof complaint,
                 "load the CUDA driver: %.200s; is the NVIDIA driver installed? TUTTI_CUDA_LIBRARY names another file",
                 dlerror());
    else if ((missing = driver_fill(library)))
        snprintf(complaint, sizeof complaint,
                 "load the CUDA driver %.100s: it lacks %s; a driver of CUDA 12 or later is needed", name, missing);
    else
        driver_start(name);
    if (*complaint)
        log_info("no CUDA: %s", complaint);
}

tutti_result_t cuda_driver(const struct cuda_driver **out)
{
    pthread_once(&once, driver_load);
    if (*complaint)
        return error_note(TUTTI_DEVICE_ERROR, "%s", complaint);
    *out = &driver;
    return TUTTI_SUCCESS;
}

tutti_result_t cuda_note(CUresult result, const char *tried)
{
    char text[200];
    if (result == CUDA_SUCCESS)
        return TUTTI_SUCCESS;
    return error_note(TUTTI_DEVICE_ERROR, "%s: %s", tried, cuda_result_text(result, text, sizeof text));
}

tutti_result_t cuda_check(CUresult result, const char *tried)
{
    char text[200];
    if (result == CUDA_SUCCESS)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_DEVICE_ERROR, "%s: %s", tried, cuda_result_text(result, text, sizeof text));
}
