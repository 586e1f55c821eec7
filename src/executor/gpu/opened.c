/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory of this rank's user peers are let store to, call by call. */
#include "executor/gpu/opened.h"

#include "executor/gpu/gpu.h"

void opened_call(struct gpu *gpu)
{
    gpu->departs.opening = (struct opened){.begin = 0};
}

static void open_to(struct gpu *gpu, uint32_t *ranks, uint32_t to, const void *memory, uint64_t bytes)
{
    struct opened *opening = &gpu->departs.opening;
    if (!opening->bytes)
        opening->begin = (uintptr_t)memory;
    opening->bytes += bytes;
    *ranks |= to;
}

void opened_given(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes)
{
    open_to(gpu, &gpu->departs.opening.given, ranks, memory, bytes);
}

void opened_invited(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes)
{
    open_to(gpu, &gpu->departs.opening.invited, ranks, memory, bytes);
}

void opened_issued(struct gpu *gpu, uint64_t step)
{
    gpu->departs.opened[step % MAILBOX_STEPS] = gpu->departs.opening;
}
