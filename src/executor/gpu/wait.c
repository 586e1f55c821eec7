/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what was issued, and for a GPU that stores no ticket any more. */
#include "executor/gpu/wait.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/failure.h"
#include "executor/gpu/copy.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/order.h"
#include "executor/gpu/record.h"
#include "executor/gpu/ticket.h"
#include "executor/staged/staged.h"

#include <sched.h>
#include <unistd.h>

#define SPIN_MS    2 /* while waiting; then the driver is asked, now and then, whether the GPU still works */
#define PAUSE_US   50
#define PAUSE_MOST 1000
#define PAUSE_PART 64 /* a pause is such a part of what the wait has taken so far, so it ends hardly later for them */
#define REFUSALS   3  /* a driver may refuse once for want of memory; of a GPU that has failed it refuses everything */

/*
 * A GPU that has failed stores no ticket, but does no work for anybody any more. So it is given some, one event at a
 * time. Somebody may be capturing a graph, which this must not spoil.
 */
static tutti_result_t ask_driver(struct gpu *gpu)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu->cu->ThreadExchangeStreamCaptureMode(&mode);
    CUresult got = gpu->cu->EventQuery(gpu->graphs.sound);
    if (got == CUDA_SUCCESS)
        got = gpu->cu->EventRecord(gpu->graphs.sound, gpu->graphs.sounded);
    gpu->cu->ThreadExchangeStreamCaptureMode(&mode);
    bool takes = got == CUDA_SUCCESS || got == CUDA_ERROR_NOT_READY;
    atomic_store(&gpu->graphs.refused, takes ? 0 : atomic_load(&gpu->graphs.refused) + 1);
    if (atomic_load(&gpu->graphs.refused) < REFUSALS)
        return TUTTI_SUCCESS;
    atomic_store(&gpu->graphs.lost, true);
    return cuda_check(got, "waiting for the last operation");
}

static void order_pause_after(uint64_t waited_ns)
{
    uint64_t us = waited_ns / 1000 / PAUSE_PART;
    usleep(us < PAUSE_US ? PAUSE_US : us < PAUSE_MOST ? (useconds_t)us : PAUSE_MOST);
}

static tutti_result_t wait_for_last(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t begin = clock_ns(), spin = begin + SPIN_MS * NS_PER_MS;
    if (atomic_load(&gpu->graphs.lost))
        return ask_driver(gpu);
    if (atomic_load(&gpu->order.untracked))
        return cuda_check(gpu->cu->StreamSynchronize(gpu->order.last), "waiting for the last operation");
    while (result == TUTTI_SUCCESS && !ticket_idle(gpu)) {
        bool soon = !clock_passed(spin);
        if (!soon)
            result = ask_driver(gpu);
        if (soon && !gpu->team->crowded)
            sched_yield();
        else
            order_pause_after(clock_ns() - begin);
    }
    return result;
}

/* Staged work may have ended well though the communicator has failed; else peers hear that this rank calls no more. */
static tutti_result_t outcome(struct gpu *gpu)
{
    if (!gpu->staged)
        return gpu_hear_failure(gpu);
    return staged_ended_well(gpu->staged) ? TUTTI_SUCCESS : gpu_failure(gpu);
}

tutti_result_t gpu_synchronize(struct gpu *gpu)
{
    cuda_enter(gpu->device);
    tutti_result_t result = wait_for_last(gpu);
    if (result == TUTTI_SUCCESS && atomic_load(&gpu->team->failed))
        result = copy_drain(gpu); /* what was let go may still be about to read the user's memory */
    record_look(gpu);
    cuda_leave();
    if (result == TUTTI_SUCCESS)
        depart_settle(gpu);
    else /* peers wait for what this GPU will not do any more */
        order_fail(gpu, result);
    tutti_result_t failure = outcome(gpu);
    return failure == TUTTI_SUCCESS ? result : failure;
}
