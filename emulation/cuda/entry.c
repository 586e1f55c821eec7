/* SPDX-License-Identifier: Apache-2.0 */
/* Looking calls up by name: the newest interface of a name wins, whatever version was asked for. */
#include "cuda/call.h"

#include <dlfcn.h>
#include <stdio.h>

static void *look_up(const char *name)
{
    static const char *const endings[] = {"_v4", "_v3", "_v2", ""};
    char full[128];
    Dl_info own;
    void *library = dladdr((void *)(uintptr_t)cuInit, &own) ? dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL,
         *found = NULL;
    for (size_t i = 0; library && !found && i < sizeof(endings) / sizeof(*endings); i++) {
        snprintf(full, sizeof(full), "%s%s", name, endings[i]);
        found = dlsym(library, full);
    }
    if (library)
        dlclose(library);
    return found;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    CALL(CALL_PLAIN);
    if (!name || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = look_up(name);
    if (status)
        *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Private tables of the runtime library: there are none, and so no runtime library on top of this. */
EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    CALL(CALL_PLAIN);
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuProfilerStart(void)
{
    return CUDA_SUCCESS;
}

EXPORT CUresult cuProfilerStop(void)
{
    return CUDA_SUCCESS;
}
