/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of executors on devices, in the order in which they are asked, and what is asked of all devices. */
#include "base/param.h"
#include "device/cuda/device.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/nvml.h"
#include "engine/executor.h"
#include "executor/gpu/executor.h"
#include "executor/gpu/memory.h"
#include "executor/islands/executor.h"
#include "executor/staged/executor.h"
#include "executor/stream/later.h"
#include "wire/rank.h"

const struct executor_kind *const executor_kinds[] = {&executor_gpu, &executor_islands, &executor_staged, NULL};

static struct executor_config kinds_defaults(void)
{
    int policy = (int)param_int(PARAM_CTA_POLICY) % 3; /* by word or by number */
    return (struct executor_config){.device = TUTTI_HOST, .blocks = (int)param_int(PARAM_BLOCKS), .policy = policy};
}

/* No context is made: the ordinal may be wrong, which open() tells. */
static void kinds_describe(int device, struct rank_fact *out)
{
    cuda_device_identity(device, out->gpu, out->bus_id);
    out->island = *out->bus_id ? nvml_island(out->bus_id) : 0;
}

const struct executor_devices executor_devices = {.most_blocks = KERNEL_STRIPES,
                                                  .defaults = kinds_defaults,
                                                  .describe = kinds_describe,
                                                  .current_device = cuda_device_current,
                                                  .memory_alloc = gpu_memory_alloc,
                                                  .memory_free = gpu_memory_free,
                                                  .keep = gpu_memory_keep,
                                                  .keep_no_more = gpu_memory_keep_no_more,
                                                  .copy = gpu_memory_copy,
                                                  .runs = gpu_memory_runs,
                                                  .sweep = later_sweep_device,
                                                  .drain = gpu_memory_drain};
