/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that this process sees. */
#include "cuda/context.h"
#include "cuda/memory.h"

static struct emulated_device devices[CONFIG_DEVICES_MAX];

struct emulated_device *device_get(CUdevice ordinal)
{
    return ordinal >= 0 && ordinal < config_get()->devices ? &devices[ordinal] : NULL;
}

int device_number(CUdevice ordinal)
{
    return config_get()->first + ordinal;
}

CUdevice device_of_number(int number)
{
    return device_get(number - config_get()->first) ? number - config_get()->first : -1;
}

void memory_uncharge(int device, size_t size)
{
    device_get(device)->used -= size;
}
