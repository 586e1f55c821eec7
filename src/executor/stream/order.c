/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of one executor run one after another: they share windows. Each has a ticket, a number that is stored in a
 * word of host memory when it is over: by its kernel if it ends with one, so that the driver has nothing to do, or else
 * by its stream. Inside a stream operations follow one another anyway; a change of stream waits for the last ticket,
 * whatever became of the stream before. What a graph captures has no ticket: graphs.c.
 */
#include "executor/stream/order.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "engine/failure.h"
#include "engine/team.h"
#include "executor/stream/base.h"
#include "executor/stream/beside.h"
#include "executor/stream/graphs.h"
#include "executor/stream/idle.h"
#include "executor/stream/later.h"
#include "executor/stream/ticket.h"

tutti_result_t order_fail(struct stream_base *base, tutti_result_t result)
{
    result = team_fail(base->team, result, base->team->rank, error_last());
    if (base->ops->failed)
        base->ops->failed(base);
    return result;
}

static void order_starts(struct stream_base *base)
{
    if (base->ops->tidy)
        base->ops->tidy(base);
    later_sweep(base);
    idle_disturb();
    if (base->ops->begins)
        base->ops->begins(base);
}

static void order_stops(struct stream_base *base, bool issued)
{
    if (base->ops->ends)
        base->ops->ends(base, issued);
    idle_settle();
}

/* Is there something on another stream to come behind? The per-thread stream is another one in each thread. */
static bool changes_stream(const struct stream_base *base, CUstream stream)
{
    bool same = base->tickets.last == stream && stream != CU_STREAM_PER_THREAD;
    return !same && !base->tickets.capturing && !ticket_idle(base);
}

static tutti_result_t come_behind(struct stream_base *base, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(base->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    base->tickets.capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    base->tickets.told = 0;
    if (result == TUTTI_SUCCESS && changes_stream(base, stream))
        result = cuda_check(base->cu->StreamWaitValue32(stream, base->tickets.over_device,
                                                        atomic_load(&base->tickets.ticket), CU_STREAM_WAIT_VALUE_GEQ),
                            "ordering two streams");
    return result == TUTTI_SUCCESS ? graphs_begin(base, stream) : result;
}

tutti_result_t order_begin(struct stream_base *base, CUstream stream, bool collective)
{
    order_starts(base);
    tutti_result_t result = base->ops->refuses(base, collective);
    if (result == TUTTI_SUCCESS) {
        result = come_behind(base, stream);
        if (result != TUTTI_SUCCESS)
            order_fail(base, result);
    }
    if (result != TUTTI_SUCCESS)
        order_stops(base, false);
    return result;
}

tutti_result_t order_behind(struct stream_base *base, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    tutti_result_t result =
        cuda_check(base->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    if (result != TUTTI_SUCCESS)
        return result;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? come_behind(base, stream) : graphs_behind(base, stream);
}

tutti_result_t order_follow(struct stream_base *base, CUstream stream, CUstream before)
{
    cuda_enter(base->device);
    tutti_result_t result = beside_mark(base, before);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(base->cu->StreamWaitEvent(stream, base->mark, 0), "ordering the streams of a group");
    cuda_leave();
    return result == TUTTI_SUCCESS ? result : order_fail(base, result);
}

/* The ticket of the operation: its last kernel's if nothing came behind that. */
static CUresult end_by_ticket(struct stream_base *base, CUstream stream, bool whole)
{
    CUresult got = CUDA_SUCCESS;
    uint32_t ticket = whole ? base->tickets.told : 0;
    if (!ticket) {
        ticket = ticket_next(base);
        got = base->cu->StreamWriteValue32(stream, base->tickets.over_device, ticket, 0);
    }
    base->tickets.last = stream;
    atomic_store(&base->tickets.ticket, ticket);
    if (got != CUDA_SUCCESS)
        atomic_store(&base->tickets.untracked, true);
    return got;
}

static CUresult mark_end(struct stream_base *base, CUstream stream, bool whole)
{
    if (base->tickets.capturing) {
        if (!atomic_exchange(&base->tickets.captured, true) && base->ops->captured)
            base->ops->captured(base);
        return CUDA_SUCCESS;
    }
    bool kernel = whole && base->tickets.told != 0;
    CUresult ended = end_by_ticket(base, stream, whole);
    if (base->ops->issued)
        base->ops->issued(base, kernel, whole);
    return ended;
}

tutti_result_t order_end(struct stream_base *base, CUstream stream, tutti_result_t issued)
{
    tutti_result_t result = issued;
    CUresult ended = mark_end(base, stream, issued == TUTTI_SUCCESS);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(ended, "marking the end of an operation");
    if (result == TUTTI_SUCCESS)
        result = graphs_end(base, stream);
    bool later = issued != TUTTI_SUCCESS && base->ops->fails_later && base->ops->fails_later(base);
    if (result != TUTTI_SUCCESS && !later) /* half of it may be there, and peers wait for the other half */
        order_fail(base, result);
    order_stops(base, true);
    return result;
}
