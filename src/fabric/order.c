/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of one fabric run one after another: they share windows. Each has a ticket, a number that is stored in a word of host
 * memory when it is over: by its kernel if it ends with one, so that the driver has nothing to do, or else by its stream. Inside a
 * stream operations follow one another anyway; a change of stream waits for the last ticket, whatever became of the stream before.
 * What a graph captures has no ticket: graphs.c.
 */
#include "fabric/internal.h"

#include "base/clock.h"
#include "base/error.h"

#include <sched.h>
#include <unistd.h>

#define SPIN_MS  2  /* while waiting; then the driver is asked, now and then, whether the GPU still works */
#define PAUSE_US 50
#define REFUSALS 3 /* a driver may refuse once for want of memory; of a GPU that has failed it refuses everything */

bool order_is_over(const struct fabric *fabric, uint32_t ticket)
{
    return (int32_t)(atomic_load_explicit(fabric->over, memory_order_acquire) - ticket) >= 0;
}

bool order_idle(const struct fabric *fabric)
{
    return atomic_load(&fabric->lost) || atomic_load(&fabric->untracked) || order_is_over(fabric, atomic_load(&fabric->ticket));
}

/* 0 is none. */
static uint32_t next_ticket(struct fabric *fabric)
{
    fabric->tickets += fabric->tickets == UINT32_MAX ? 2 : 1;
    return fabric->tickets;
}

tutti_result_t order_begin(struct fabric *fabric, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&fabric->any_old, memory_order_relaxed))
        import_close_old(fabric); /* in a pause that is too short for another thread to find it */
    scratch_sweep(fabric);
    quiet_disturb();
    tutti_result_t result = fabric_failure(fabric);
    if (result != TUTTI_SUCCESS) {
        quiet_settle();
        return result;
    }
    result = cuda_check(fabric->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    fabric->capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    fabric->told = 0;
    bool same = fabric->last == stream && stream != CU_STREAM_PER_THREAD; /* which is another one in each thread */
    if (result == TUTTI_SUCCESS && !same && !fabric->capturing && !order_idle(fabric))
        result = cuda_check(fabric->cu->StreamWaitValue32(stream, fabric->over_device, atomic_load(&fabric->ticket), CU_STREAM_WAIT_VALUE_GEQ),
                            "ordering two streams");
    if (result == TUTTI_SUCCESS)
        result = graphs_begin(fabric, stream);
    if (result != TUTTI_SUCCESS) {
        team_fail(fabric->team, result, fabric->rank, error_last()); /* peers wait for what does not come */
        quiet_settle();
    }
    return result;
}

bool fabric_any_thread(struct fabric *fabric, fabric_stream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (fabric->staged || stream == CU_STREAM_PER_THREAD)
        return false;
    return !stream || (fabric->cu->StreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE);
}

tutti_result_t fabric_follow(struct fabric *fabric, fabric_stream_t stream, fabric_stream_t before)
{
    cuda_enter(fabric->device);
    tutti_result_t result = side_mark(fabric, before);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(fabric->cu->StreamWaitEvent(stream, fabric->mark, 0), "ordering the streams of a group");
    cuda_leave();
    return result == TUTTI_SUCCESS ? result : team_fail(fabric->team, result, fabric->rank, error_last()); /* peers wait for what does not come */
}

tutti_result_t order_launch(struct fabric *fabric, const struct kernel_launch *how, tutti_type_t type, struct kernel_team *what, CUstream stream)
{
    *what = fabric->kernels;
    what->ticket = fabric->capturing ? 0 : next_ticket(fabric);
    tutti_result_t result = cuda_launch(fabric->device, how, type, what, stream);
    fabric->told = result == TUTTI_SUCCESS ? what->ticket : 0;
    return result;
}

uint32_t order_staged(struct fabric *fabric)
{
    fabric->told = staged_tells(fabric->staged) ? next_ticket(fabric) : 0;
    return fabric->told;
}

void order_more(struct fabric *fabric)
{
    fabric->told = 0;
}

/* The ticket of the operation: its last kernel's if nothing came behind that. */
static CUresult end_by_ticket(struct fabric *fabric, CUstream stream, bool whole)
{
    CUresult got = CUDA_SUCCESS;
    uint32_t ticket = whole ? fabric->told : 0;
    if (!ticket) {
        ticket = next_ticket(fabric);
        got = fabric->cu->StreamWriteValue32(stream, fabric->over_device, ticket, 0);
    }
    fabric->last = stream;
    atomic_store(&fabric->ticket, ticket);
    if (got != CUDA_SUCCESS)
        atomic_store(&fabric->untracked, true);
    return got;
}

tutti_result_t order_end(struct fabric *fabric, CUstream stream, tutti_result_t issued)
{
    tutti_result_t result = issued;
    CUresult ended = CUDA_SUCCESS;
    if (fabric->capturing) {
        atomic_store_explicit(&fabric->captured, true, memory_order_relaxed);
    } else {
        bool whole = issued == TUTTI_SUCCESS, kernel = fabric->told != 0;
        ended = end_by_ticket(fabric, stream, whole);
        step_issued(fabric, atomic_load_explicit(&fabric->ticket, memory_order_relaxed), whole && kernel, whole);
    }
    if (result == TUTTI_SUCCESS)
        result = cuda_check(ended, "marking the end of an operation");
    if (result == TUTTI_SUCCESS)
        result = graphs_end(fabric, stream);
    bool refused = issued != TUTTI_SUCCESS && atomic_load(&fabric->refused_call); /* which has its own end, behind what came before */
    if (result != TUTTI_SUCCESS && !refused) /* half of it may be there, and peers wait for the other half */
        team_fail(fabric->team, result, fabric->rank, error_last());
    quiet_settle();
    helper_look_again(fabric);
    return result;
}

/*
 * A GPU that has failed stores no ticket, but does no work for anybody any more. So it is given some, one event at a time. Somebody may be
 * capturing a graph, which this must not spoil.
 */
static tutti_result_t ask_driver(struct fabric *fabric)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    fabric->cu->ThreadExchangeStreamCaptureMode(&mode);
    CUresult got = fabric->cu->EventQuery(fabric->sound);
    if (got == CUDA_SUCCESS)
        got = fabric->cu->EventRecord(fabric->sound, fabric->sounded);
    fabric->cu->ThreadExchangeStreamCaptureMode(&mode);
    bool takes = got == CUDA_SUCCESS || got == CUDA_ERROR_NOT_READY;
    atomic_store(&fabric->refused, takes ? 0 : atomic_load(&fabric->refused) + 1);
    if (atomic_load(&fabric->refused) < REFUSALS)
        return TUTTI_SUCCESS;
    atomic_store(&fabric->lost, true);
    return cuda_check(got, "waiting for the last operation");
}

static tutti_result_t wait_for_last(struct fabric *fabric)
{
    tutti_result_t result = TUTTI_SUCCESS;
    uint64_t spin = clock_deadline_ms(SPIN_MS);
    if (atomic_load(&fabric->lost))
        return ask_driver(fabric);
    if (atomic_load(&fabric->untracked))
        return cuda_check(fabric->cu->StreamSynchronize(fabric->last), "waiting for the last operation");
    while (result == TUTTI_SUCCESS && !order_idle(fabric)) {
        if (!clock_passed(spin)) {
            sched_yield();
            continue;
        }
        result = ask_driver(fabric);
        usleep(PAUSE_US);
    }
    return result;
}

tutti_result_t fabric_synchronize(struct fabric *fabric)
{
    cuda_enter(fabric->device);
    tutti_result_t result = wait_for_last(fabric);
    if (result == TUTTI_SUCCESS && atomic_load(&fabric->team->failed))
        result = copy_drain(fabric); /* what was let go may still be about to read the user's memory */
    record_look(fabric);
    cuda_leave();
    if (result == TUTTI_SUCCESS)
        depart_settle(fabric);
    else /* peers wait for what this GPU will not do any more */
        team_fail(fabric->team, result, fabric->rank, error_last());
    tutti_result_t failure = fabric_hear_failure(fabric);
    return failure == TUTTI_SUCCESS ? result : failure;
}
