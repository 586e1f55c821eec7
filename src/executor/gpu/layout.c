/* SPDX-License-Identifier: Apache-2.0 */
/* Where things lie in a window. */
#include "executor/gpu/layout.h"

#include "executor/gpu/gpu.h"

/* Behind a window lie the pieces of staged messages, and behind these what only its owner touches. */
size_t layout_mappings_begin(const struct gpu *gpu)
{
    size_t pieces = gpu->messages.stage ? (size_t)(gpu->nranks - 1) * MAILBOX_DEPTH : 0;
    return (kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE + pieces * gpu->messages.stage + 255) & ~(size_t)255;
}

struct kernel_mappings *layout_mappings(const struct gpu *gpu)
{
    if (!gpu->scratch.window || gpu->scratch.in_host)
        return NULL;
    return (struct kernel_mappings *)(uintptr_t)(gpu->scratch.window + layout_mappings_begin(gpu));
}

CUdeviceptr layout_stage(const struct gpu *gpu, int rank, int peer, uint32_t piece)
{
    size_t place = (size_t)(peer < rank ? peer : peer - 1) * MAILBOX_DEPTH + piece % MAILBOX_DEPTH;
    return device_address(gpu->kernels.window[rank]) + kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE +
           place * gpu->messages.stage;
}
