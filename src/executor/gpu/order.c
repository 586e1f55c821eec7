/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of one executor run one after another: they share windows. Each has a ticket, a number that is stored in a
 * word of host memory when it is over: by its kernel if it ends with one, so that the driver has nothing to do, or else
 * by its stream. Inside a stream operations follow one another anyway; a change of stream waits for the last ticket,
 * whatever became of the stream before. What a graph captures has no ticket: graphs.c.
 */
#include "executor/gpu/internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/failure.h"

#include <sched.h>
#include <unistd.h>

#define SPIN_MS    2 /* while waiting; then the driver is asked, now and then, whether the GPU still works */
#define PAUSE_US   50
#define PAUSE_MOST 1000
#define PAUSE_PART 64 /* a pause is such a part of what the wait has taken so far, so it ends hardly later for them */
#define REFUSALS   3  /* a driver may refuse once for want of memory; of a GPU that has failed it refuses everything */

bool order_is_over(const struct gpu *gpu, uint32_t ticket)
{
    return (int32_t)(atomic_load_explicit(gpu->order.over, memory_order_acquire) - ticket) >= 0;
}

bool order_idle(const struct gpu *gpu)
{
    return atomic_load(&gpu->graphs.lost) || atomic_load(&gpu->order.untracked) ||
           order_is_over(gpu, atomic_load(&gpu->order.ticket));
}

/* 0 is none. */
static uint32_t next_ticket(struct gpu *gpu)
{
    uint32_t ticket = gpu->order.tickets += gpu->order.tickets == UINT32_MAX ? 2 : 1;
    if (gpu->kernels.times) { /* what a launch of long ago has left there */
        struct mailbox_times *times = &gpu->mailbox->rank[gpu->rank].times[ticket % KERNEL_TIMES];
        atomic_store_explicit(&times->begin, 0, memory_order_relaxed);
        atomic_store_explicit(&times->end, 0, memory_order_relaxed);
    }
    return ticket;
}

/* Peers wait for what does not come. */
static tutti_result_t order_fail(struct gpu *gpu, tutti_result_t result)
{
    result = team_fail(gpu->team, result, gpu->rank, error_last());
    if (gpu->staged)
        staged_end_calls(gpu->staged);
    return result;
}

/* Before it looks at who has departed: so either it sees one that has, or that one sees this. */
static void say_issuing(struct gpu *gpu, uint32_t it_is)
{
    if (gpu->mailbox)
        atomic_store(&gpu->mailbox->rank[gpu->rank].issuing, it_is);
    atomic_thread_fence(memory_order_seq_cst);
}

tutti_result_t order_begin(struct gpu *gpu, CUstream stream, bool collective)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&gpu->offers.any_old, memory_order_relaxed))
        import_close_old(gpu); /* in a pause that is too short for another thread to find it */
    scratch_sweep(gpu);
    idle_disturb();
    say_issuing(gpu, 1);
    tutti_result_t result = gpu_refuses(gpu, collective);
    if (result != TUTTI_SUCCESS) {
        say_issuing(gpu, 0);
        idle_settle();
        return result;
    }
    result = cuda_check(gpu->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    gpu->order.capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    gpu->order.told = 0;
    bool same = gpu->order.last == stream && stream != CU_STREAM_PER_THREAD; /* which is another one in each thread */
    if (result == TUTTI_SUCCESS && !same && !gpu->order.capturing && !order_idle(gpu))
        result = cuda_check(gpu->cu->StreamWaitValue32(stream, gpu->order.over_device, atomic_load(&gpu->order.ticket),
                                                       CU_STREAM_WAIT_VALUE_GEQ),
                            "ordering two streams");
    if (result == TUTTI_SUCCESS)
        result = graphs_begin(gpu, stream);
    if (result != TUTTI_SUCCESS) {
        order_fail(gpu, result);
        say_issuing(gpu, 0);
        idle_settle();
    }
    return result;
}

bool gpu_any_thread(struct gpu *gpu, gpu_stream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (gpu->staged || stream == CU_STREAM_PER_THREAD)
        return false;
    return !stream ||
           (gpu->cu->StreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE);
}

tutti_result_t gpu_follow(struct gpu *gpu, gpu_stream_t stream, gpu_stream_t before)
{
    cuda_enter(gpu->device);
    tutti_result_t result = side_mark(gpu, before);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->messages.mark, 0), "ordering the streams of a group");
    cuda_leave();
    return result == TUTTI_SUCCESS ? result : order_fail(gpu, result);
}

tutti_result_t order_launch(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                            struct kernel_team *what, CUstream stream)
{
    *what = gpu->kernels;
    what->ticket = gpu->order.capturing ? 0 : next_ticket(gpu);
    tutti_result_t result = cuda_launch(gpu->device, how, type, what, stream);
    gpu->order.told = result == TUTTI_SUCCESS ? what->ticket : 0;
    return result;
}

uint32_t order_staged(struct gpu *gpu)
{
    gpu->order.told = staged_tells(gpu->staged) ? next_ticket(gpu) : 0;
    return gpu->order.told;
}

void order_more(struct gpu *gpu)
{
    gpu->order.told = 0;
}

/* The ticket of the operation: its last kernel's if nothing came behind that. */
static CUresult end_by_ticket(struct gpu *gpu, CUstream stream, bool whole)
{
    CUresult got = CUDA_SUCCESS;
    uint32_t ticket = whole ? gpu->order.told : 0;
    if (!ticket) {
        ticket = next_ticket(gpu);
        got = gpu->cu->StreamWriteValue32(stream, gpu->order.over_device, ticket, 0);
    }
    gpu->order.last = stream;
    atomic_store(&gpu->order.ticket, ticket);
    if (got != CUDA_SUCCESS)
        atomic_store(&gpu->order.untracked, true);
    return got;
}

tutti_result_t order_end(struct gpu *gpu, CUstream stream, tutti_result_t issued)
{
    tutti_result_t result = issued;
    CUresult ended = CUDA_SUCCESS;
    if (gpu->order.capturing) {
        if (!atomic_exchange(&gpu->order.captured, true) && gpu->mailbox) {
            atomic_store(&gpu->mailbox->captured, 1);
            mailbox_ring(gpu->mailbox, gpu->rank); /* from now on the helper looks now and then */
        }
    } else {
        bool whole = issued == TUTTI_SUCCESS, kernel = gpu->order.told != 0;
        ended = end_by_ticket(gpu, stream, whole);
        step_issued(gpu, atomic_load_explicit(&gpu->order.ticket, memory_order_relaxed), whole && kernel, whole);
    }
    if (result == TUTTI_SUCCESS)
        result = cuda_check(ended, "marking the end of an operation");
    if (result == TUTTI_SUCCESS)
        result = graphs_end(gpu, stream);
    bool refused = issued != TUTTI_SUCCESS &&
                   atomic_load(&gpu->departs.refused_call); /* which has its own end, behind what came before */
    if (result != TUTTI_SUCCESS && !refused) /* half of it may be there, and peers wait for the other half */
        order_fail(gpu, result);
    say_issuing(gpu, 0);
    idle_settle();
    helper_look_again(gpu);
    return result;
}

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
    while (result == TUTTI_SUCCESS && !order_idle(gpu)) {
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
