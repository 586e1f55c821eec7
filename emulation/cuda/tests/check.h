/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the stand-in share. */
#pragma once

#include "cuda/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define OK(call)         assert_int_equal(call, CUDA_SUCCESS)
#define FAILS(call, why) assert_int_equal(call, why)
#define AT(address)      ((void *)(uintptr_t)(address))

static inline CUcontext use_device(int ordinal)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, ordinal));
    OK(cuCtxSetCurrent(context));
    return context;
}

static inline void leave_device(int ordinal)
{
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(ordinal));
}

static inline CUfunction get_kernel(CUmodule *module, const char *name)
{
    CUfunction function;
    OK(cuModuleLoadData(module, "any image"));
    OK(cuModuleGetFunction(&function, *module, name));
    return function;
}

/* Waits for a flag that a host function sets. */
static inline void set_flag(void *flag)
{
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
}

static inline CUresult launch_words(CUfunction kernel, unsigned blocks, CUstream stream, CUdeviceptr words,
                                    uint32_t value)
{
    void *params[] = {&words, &value};
    return cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}
