/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by a kernel of the user's stream that takes orders. Where streams share few hardware queues, copies that a
 * channel puts into streams of its own would come behind whatever the user's stream has in that queue, which waits for
 * these very copies. A kernel has begun.
 */
#include "executor/staged/internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda/launch.h"

#include <sched.h>
#include <string.h>

#define BOUNCE      ((size_t)256 << 10) /* bytes of pinned memory for what lies in memory that GPUs do not reach */
#define PATIENCE_MS 5000                /* with a kernel, when the communicator has failed */
#define LOOKS       20000 /* at a kernel's answer, until the driver is asked whether the GPU still works */

tutti_result_t courier_open(struct staged *staged)
{
    void *memory = NULL;
    size_t copies = (size_t)staged->channels * sizeof *staged->copies;
    if (!cuda_queues_are_few())
        return TUTTI_SUCCESS;
    tutti_result_t result = cuda_check(staged->cu->MemHostAlloc(&memory, copies + (size_t)staged->channels * BOUNCE,
                                                                CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                                       "allocating pinned memory");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(memory, 0, copies);
    staged->copies = memory;
    return cuda_check(staged->cu->MemHostGetDevicePointer(&staged->copies_device, memory, 0),
                      "finding the orders' device address");
}

void courier_close(struct staged *staged)
{
    if (staged->copies)
        staged->cu->MemFreeHost(staged->copies);
    staged->copies = NULL;
}

tutti_result_t courier_launch(struct staged *staged, uint32_t sequence, CUstream stream)
{
    struct kernel_launch how = {
        .kernel = KERNEL_COURIER, .blocks = (unsigned)staged->channels, .threads = KERNEL_COURIER_THREADS};
    struct kernel_courier what = {.copies = (struct kernel_copy *)(uintptr_t)staged->copies_device,
                                  .over = (const uint32_t *)(uintptr_t)staged->done_device,
                                  .job = sequence};
    return cuda_launch(staged->device, &how, TUTTI_UINT8, &what, stream);
}

/* The GPU has failed; or the communicator, and the kernel does not come. */
static tutti_result_t is_hopeless(struct channel *channel, uint64_t *deadline)
{
    const struct staged *staged = channel->staged;
    CUresult got = staged->cu->EventQuery(channel->finished);
    tutti_result_t failure = team_failure(staged->team);
    if (got != CUDA_SUCCESS && got != CUDA_ERROR_NOT_READY)
        return cuda_check(got, "staging by a kernel");
    if (failure != TUTTI_SUCCESS && !*deadline)
        *deadline = clock_deadline_ms(PATIENCE_MS);
    return failure != TUTTI_SUCCESS && clock_passed(*deadline) ? failure : TUTTI_SUCCESS;
}

/* One order, and its end. */
static tutti_result_t order(struct channel *channel, uint64_t to, uint64_t from, size_t bytes)
{
    struct staged *staged = channel->staged;
    struct kernel_copy *slot = &staged->copies[channel->index];
    uint32_t number = ++channel->ordered;
    if (slot->job != channel->job)
        __atomic_store_n(&slot->job, KERNEL_ORDER_OF_NOBODY(channel->job), __ATOMIC_RELAXED);
    slot->to = to;
    slot->from = from;
    slot->bytes = bytes;
    __atomic_store_n(&slot->number, number, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->job, channel->job, __ATOMIC_RELEASE);
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t deadline = 0;
    for (unsigned look = 1; result == TUTTI_SUCCESS && __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE) != number;
         look++) {
        if (look % LOOKS == 0)
            result = is_hopeless(channel, &deadline);
        sched_yield();
    }
    return result;
}

static bool is_pinned(const struct staged *staged, const char *host)
{
    const char *from = staged->pinned;
    return host >= from && host < from + (size_t)staged->channels * SLICES * staged->slice_bytes;
}

/* By way of memory that the GPU reaches. */
static tutti_result_t bounce(struct channel *channel, char *gpu, char *host, size_t bytes, bool to_gpu)
{
    const struct staged *staged = channel->staged;
    char *between = (char *)(staged->copies + staged->channels) + (size_t)channel->index * BOUNCE;
    uint64_t address = staged->copies_device + (uint64_t)(between - (char *)staged->copies);
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t at = 0; at < bytes && result == TUTTI_SUCCESS; at += BOUNCE) {
        size_t some = bytes - at < BOUNCE ? bytes - at : BOUNCE;
        uint64_t there = (uintptr_t)gpu + at;
        if (to_gpu)
            memcpy(between, host + at, some);
        result = order(channel, to_gpu ? there : address, to_gpu ? address : there, some);
        if (result == TUTTI_SUCCESS && !to_gpu)
            memcpy(host + at, between, some);
    }
    return result;
}

tutti_result_t courier_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu)
{
    uint64_t there = (uintptr_t)gpu, here = (uintptr_t)host;
    if (!is_pinned(channel->staged, host))
        return bounce(channel, gpu, host, bytes, to_gpu);
    return order(channel, to_gpu ? there : here, to_gpu ? here : there, bytes);
}
