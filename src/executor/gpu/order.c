/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of one executor run one after another: they share windows. Each has a ticket, a number that is stored in a
 * word of host memory when it is over: by its kernel if it ends with one, so that the driver has nothing to do, or else
 * by its stream. Inside a stream operations follow one another anyway; a change of stream waits for the last ticket,
 * whatever became of the stream before. What a graph captures has no ticket: graphs.c.
 */
#include "executor/gpu/order.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/launch.h"
#include "engine/failure.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/graphs.h"
#include "executor/gpu/idle.h"
#include "executor/gpu/import.h"
#include "executor/gpu/leave.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/side.h"
#include "executor/gpu/step.h"
#include "executor/gpu/ticket.h"
#include "executor/staged/staged.h"

/* Peers wait for what does not come. */
tutti_result_t order_fail(struct gpu *gpu, tutti_result_t result)
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
    leave_sweep(gpu);
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
    if (result == TUTTI_SUCCESS && !same && !gpu->order.capturing && !ticket_idle(gpu))
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

bool gpu_any_thread(struct gpu *gpu, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (gpu->staged || stream == CU_STREAM_PER_THREAD)
        return false;
    return !stream ||
           (gpu->cu->StreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE);
}

tutti_result_t gpu_follow(struct gpu *gpu, CUstream stream, CUstream before)
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
    what->ticket = gpu->order.capturing ? 0 : ticket_next(gpu);
    tutti_result_t result = cuda_launch(gpu->device, how, type, what, stream);
    gpu->order.told = result == TUTTI_SUCCESS ? what->ticket : 0;
    return result;
}

uint32_t order_staged(struct gpu *gpu)
{
    gpu->order.told = staged_tells(gpu->staged) ? ticket_next(gpu) : 0;
    return gpu->order.told;
}

/* The ticket of the operation: its last kernel's if nothing came behind that. */
static CUresult end_by_ticket(struct gpu *gpu, CUstream stream, bool whole)
{
    CUresult got = CUDA_SUCCESS;
    uint32_t ticket = whole ? gpu->order.told : 0;
    if (!ticket) {
        ticket = ticket_next(gpu);
        got = gpu->cu->StreamWriteValue32(stream, gpu->order.over_device, ticket, 0);
    }
    gpu->order.last = stream;
    atomic_store(&gpu->order.ticket, ticket);
    if (got != CUDA_SUCCESS)
        atomic_store(&gpu->order.untracked, true);
    return got;
}

/* Something was issued while a peer was being lost or the team failed: the helper may have looked before that. */
static void order_wake_helper(struct gpu *gpu)
{
    if (gpu->mailbox && (atomic_load(&gpu->team->failed) || gone_any(gpu)))
        mailbox_ring(gpu->mailbox, gpu->rank);
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
    order_wake_helper(gpu);
    return result;
}
