/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs and the links between them, as NVIDIA's management library tells. Needs the stand-in library. */
#include "device/cuda/nvml.h"
#include "device/cuda/device.h"
#include "device/cuda/scenario.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void gpus_and_links(void)
{
    struct nvml_gpu gpu, other;
    char version[80];
    int count;
    CHECK(nvml_count(&count) == TUTTI_SUCCESS && count == 3);
    CHECK(nvml_driver_version(version, sizeof version) == TUTTI_SUCCESS && *version);
    CHECK(nvml_gpu(0, &gpu) == TUTTI_SUCCESS && nvml_gpu(1, &other) == TUTTI_SUCCESS);
    CHECK(strlen(gpu.bus_id) == 12 && strcmp(gpu.bus_id, other.bus_id) != 0 && *gpu.name && gpu.links > 0);
    int to_gpus = 0;
    for (int i = 0; i < gpu.remotes; i++)
        to_gpus += gpu.remote[i].links;
    CHECK(gpu.switches + to_gpus == gpu.links);
    CHECK(nvml_gpu(3, &gpu) == TUTTI_DEVICE_ERROR && nvml_gpu(-1, &gpu) == TUTTI_INVALID_ARGUMENT);
}

/* The driver and the management library number GPUs apart: the PCI address joins them. */
static void same_address_as_the_driver(void)
{
    struct cuda_device *device;
    struct nvml_gpu gpu;
    CHECK(cuda_device_acquire(2, &device) == TUTTI_SUCCESS && nvml_gpu(2, &gpu) == TUTTI_SUCCESS);
    CHECK(strcmp(device->bus_id, gpu.bus_id) == 0);
    cuda_device_release(device);
}

/* The names of two GPUs of one island are one, and what is no GPU has none. */
static void islands(void)
{
    uint8_t uuid[16], none[16] = {0};
    char first[16], second[16];
    cuda_device_identity(0, uuid, first);
    CHECK(memcmp(uuid, none, sizeof uuid) != 0);
    cuda_device_identity(1, uuid, second);
    CHECK(nvml_island(first) != 0 && nvml_island(first) == nvml_island(second));
    cuda_device_identity(3, uuid, second);
    CHECK(memcmp(uuid, none, sizeof uuid) == 0 && !*second && nvml_island(second) == 0);
}

static void memory(void)
{
    struct nvml_gpu gpu;
    uint64_t free_bytes = 0, total = 0;
    CHECK(nvml_gpu(1, &gpu) == TUTTI_SUCCESS && nvml_memory(gpu.bus_id, &free_bytes, &total) == TUTTI_SUCCESS);
    CHECK(total > 0 && free_bytes > 0 && free_bytes <= total);
    CHECK(nvml_memory("0000:ff:00.0", &free_bytes, &total) == TUTTI_DEVICE_ERROR);
}

static void reach(void)
{
    enum nvml_peer way;
    CHECK(nvml_peer(0, 1, &way) == TUTTI_SUCCESS && way == NVML_PEER_NVLINK);
    CHECK(nvml_peer(0, 7, &way) == TUTTI_DEVICE_ERROR && way == NVML_PEER_NONE);
    CHECK(nvml_peer(-1, 0, &way) == TUTTI_INVALID_ARGUMENT);
}

static void no_reach(void)
{
    enum nvml_peer way;
    CHECK(nvml_peer(0, 1, &way) == TUTTI_SUCCESS && way == NVML_PEER_NONE);
}

static void test_nvml(void **state)
{
    (void)state;
    setenv("TUTTI_EMULATED_GPUS", "3", 1);
    assert_int_equal(scenario(gpus_and_links, NULL, NULL), 0);
    assert_int_equal(scenario(same_address_as_the_driver, NULL, NULL), 0);
    assert_int_equal(scenario(islands, NULL, NULL), 0);
    assert_int_equal(scenario(reach, NULL, NULL), 0);
    assert_int_equal(scenario(memory, NULL, NULL), 0);
    assert_int_equal(scenario(no_reach, "TUTTI_EMULATED_P2P", "0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nvml)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
