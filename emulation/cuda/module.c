/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: any image will do, its kernels are those compiled into the stand-in. */
#include "cuda/module.h"
#include "cuda/call.h"

#include <stdlib.h>
#include <string.h>

static CUresult load(CUmodule *out, const void *image)
{
    CUmodule module = out && image ? calloc(1, sizeof(*module)) : NULL;
    if (!module)
        return out && image ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    module->context = context_current();
    if (config_get()->block) {
        state_lock();
        context_hold(module->context);
        state_unlock();
    }
    *out = module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return load(out, image);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options,
                                   void **values)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return load(out, image);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    CALL(CALL_CONTEXT | CALL_UNSAFE);
    return load(out, image);
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    CUresult entered = call_enter(__func__, CALL_CONTEXT | CALL_UNSAFE);
    bool dead = entered && context_current() && context_current()->error; /* the code goes all the same */
    if (entered && !dead)
        return entered;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    context_drain(module->context); /* other calls get through */
    while (module->functions) {
        CUfunction next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    free(module);
    state_unlock();
    return entered;
}

/* The same function for the same name, as handles are compared. */
static CUresult find(CUfunction *out, CUmodule module, const char *name)
{
    struct kernel_entry entry;
    CUfunction function = module->functions;
    while (function && strcmp(function->entry.name, name))
        function = function->next;
    if (!function) {
        if (!kernel_entry_find(name, &entry))
            return CUDA_ERROR_NOT_FOUND;
        if (!(function = malloc(sizeof(*function))))
            return CUDA_ERROR_OUT_OF_MEMORY;
        *function = (struct CUfunc_st){.entry = entry, .module = module, .next = module->functions};
        module->functions = function;
    }
    *out = function;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    CALL(CALL_CONTEXT);
    if (!out || !module || !name)
        return module ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    state_lock();
    CUresult result = find(out, module, name);
    state_unlock();
    return result;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *size, CUmodule module, const char *name)
{
    CALL(CALL_CONTEXT);
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CALL(CALL_PLAIN);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CALL(CALL_CONTEXT);
    if (!value || !function)
        return value ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->dynamic_shared ? function->dynamic_shared : 49152;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CALL(CALL_CONTEXT);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > 232448)
            return CUDA_ERROR_INVALID_VALUE;
        function->dynamic_shared = value;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    CALL(CALL_CONTEXT);
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuFuncLoad(CUfunction function)
{
    CALL(CALL_CONTEXT);
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function)
{
    CALL(CALL_CONTEXT);
    if (!name || !function)
        return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *name = function->entry.name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    CALL(CALL_CONTEXT);
    if (!module || !function)
        return module ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *module = function->module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                            size_t shared)
{
    CALL(CALL_CONTEXT);
    if (!blocks || !function || threads < 1 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / ((threads + 31) / 32 * 32) < 32 ? 2048 / ((threads + 31) / 32 * 32) : 32;
    return CUDA_SUCCESS;
}
