/* SPDX-License-Identifier: Apache-2.0 */
/* The shared libraries as programs use them: loaded at run time, by the names of real ones. Arguments: their paths. */
#include "cuda/tests/check.h"

#include "cuda/nvml/nvml_abi.h"

#include <dlfcn.h>

static void *cuda, *nvml;

#define LOAD(library, name)                                                                                            \
    __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name);                                             \
    assert_non_null(p_##name)

static void test_proc_address(void **state)
{
    CUdriverProcAddressQueryResult status;
    void *found;
    int version;
    LOAD(cuda, cuGetProcAddress_v2);
    LOAD(cuda, cuDriverGetVersion);
    OK(p_cuDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    OK(p_cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status));
    assert_ptr_equal(found, dlsym(cuda, "cuMemAlloc_v2"));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    OK(p_cuGetProcAddress_v2("cuStreamGetCaptureInfo", &found, 13000, 0, NULL));
    assert_ptr_equal(found, dlsym(cuda, "cuStreamGetCaptureInfo_v3"));
    FAILS(p_cuGetProcAddress_v2("cuNoSuchCall", &found, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void test_names(void **state)
{
    const char *text;
    LOAD(cuda, cuGetErrorName);
    LOAD(cuda, cuGetErrorString);
    OK(p_cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
    OK(p_cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    FAILS(p_cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    assert_null(text);
}

static void test_not_initialised(void **state)
{
    int count;
    LOAD(cuda, cuDeviceGetCount);
    LOAD(cuda, cuInit);
    FAILS(p_cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    FAILS(p_cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(p_cuInit(0));
    OK(p_cuDeviceGetCount(&count));
}

/* Links of device 1: 18 to three others, six each, and both ends agree. */
static void test_links(void **state)
{
    nvmlDevice_t device, other;
    nvmlPciInfo_t pci;
    nvmlEnableState_t on;
    nvmlIntNvLinkDeviceType_t type;
    unsigned links[4] = {0}, index;
    LOAD(nvml, nvmlDeviceGetHandleByIndex_v2);
    LOAD(nvml, nvmlDeviceGetHandleByPciBusId_v2);
    LOAD(nvml, nvmlDeviceGetNvLinkState);
    LOAD(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2);
    LOAD(nvml, nvmlDeviceGetNvLinkRemoteDeviceType);
    LOAD(nvml, nvmlDeviceGetIndex);
    FAILS(p_nvmlDeviceGetHandleByIndex_v2(4, &device), NVML_ERROR_INVALID_ARGUMENT);
    OK(p_nvmlDeviceGetHandleByIndex_v2(1, &device));
    for (unsigned link = 0; link < 18; link++) {
        OK(p_nvmlDeviceGetNvLinkState(device, link, &on));
        assert_int_equal(on, NVML_FEATURE_ENABLED);
        OK(p_nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &pci));
        OK(p_nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type));
        assert_int_equal(type, NVML_NVLINK_DEVICE_TYPE_GPU);
        OK(p_nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &other));
        OK(p_nvmlDeviceGetIndex(other, &index));
        links[index]++;
    }
    FAILS(p_nvmlDeviceGetNvLinkState(device, 18, &on), NVML_ERROR_INVALID_ARGUMENT);
    assert_true(links[0] == 6 && !links[1] && links[2] == 6 && links[3] == 6);
}

static void test_management(void **state)
{
    nvmlDevice_t device, other;
    nvmlGpuP2PStatus_t status;
    nvmlPciInfo_t pci;
    char text[80], id[16];
    unsigned count;
    LOAD(nvml, nvmlInit_v2);
    LOAD(nvml, nvmlShutdown);
    LOAD(nvml, nvmlDeviceGetCount_v2);
    LOAD(nvml, nvmlErrorString);
    LOAD(nvml, nvmlSystemGetDriverVersion);
    LOAD(nvml, nvmlDeviceGetHandleByIndex_v2);
    LOAD(nvml, nvmlDeviceGetUUID);
    LOAD(nvml, nvmlDeviceGetHandleByUUID);
    LOAD(nvml, nvmlDeviceGetP2PStatus);
    LOAD(nvml, nvmlDeviceGetPciInfo_v3);
    LOAD(cuda, cuDeviceGetPCIBusId);
    FAILS(p_nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
    assert_string_equal(p_nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized");
    OK(p_nvmlInit_v2());
    OK(p_nvmlDeviceGetCount_v2(&count));
    assert_int_equal(count, 4);
    OK(p_nvmlSystemGetDriverVersion(text, sizeof(text)));
    FAILS(p_nvmlSystemGetDriverVersion(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
    OK(p_nvmlDeviceGetHandleByIndex_v2(3, &device));
    OK(p_nvmlDeviceGetUUID(device, text, sizeof(text)));
    OK(p_nvmlDeviceGetHandleByUUID(text, &other));
    assert_ptr_equal(device, other);
    FAILS(p_nvmlDeviceGetHandleByUUID("GPU-", &other), NVML_ERROR_NOT_FOUND);
    OK(p_nvmlDeviceGetHandleByIndex_v2(0, &other));
    OK(p_nvmlDeviceGetP2PStatus(device, other, NVML_P2P_CAPS_INDEX_NVLINK, &status));
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    OK(p_nvmlDeviceGetPciInfo_v3(device, &pci));
    OK(p_cuDeviceGetPCIBusId(id, sizeof(id), 3));
    assert_string_equal(pci.busIdLegacy, id);
    test_links(state);
    OK(p_nvmlShutdown());
    FAILS(p_nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proc_address),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_not_initialised),
        cmocka_unit_test(test_management),
    };
    cuda = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    nvml = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!cuda || !nvml) {
        fprintf(stderr, "%s LIBCUDA LIBNVIDIA-ML: %s\n", argv[0], argc == 3 ? dlerror() : "two arguments");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
