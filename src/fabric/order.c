/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of one fabric run one after another: they share windows. Inside a stream that is so anyway; a change of stream
 * waits for the event behind the last operation. What a graph captures is ordered by whoever launches the graph.
 */
#include "fabric/internal.h"

#include "base/error.h"

tutti_result_t order_begin(struct fabric *fabric, CUstream stream, bool *capturing)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&fabric->unanswered, memory_order_relaxed))
        import_look(fabric);
    quiet_disturb();
    tutti_result_t result = fabric_failure(fabric);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(fabric->cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (result == TUTTI_SUCCESS && atomic_load(&fabric->any) && fabric->last != stream && !*capturing)
        result = cuda_check(fabric->cu->StreamWaitEvent(stream, atomic_load(&fabric->latest), 0), "ordering two streams");
    if (result != TUTTI_SUCCESS)
        quiet_settle();
    return result;
}

tutti_result_t order_end(struct fabric *fabric, CUstream stream, bool capturing, tutti_result_t issued)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (capturing) {
        atomic_store_explicit(&fabric->captured, true, memory_order_relaxed);
    } else {
        CUevent event = record_event(fabric);
        result = cuda_check(fabric->cu->EventRecord(event, stream), "marking the end of an operation");
        fabric->untracked |= result != TUTTI_SUCCESS;
        atomic_store(&fabric->latest, event);
        fabric->last = stream;
        atomic_store(&fabric->any, true);
    }
    if (issued != TUTTI_SUCCESS)
        result = issued;
    if (result != TUTTI_SUCCESS) /* half of it may be there, and peers wait for the other half */
        team_fail(fabric->team, result, fabric->rank, error_last());
    quiet_settle();
    helper_look_again(fabric);
    return result;
}

tutti_result_t fabric_synchronize(struct fabric *fabric)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (fabric->any) {
        cuda_enter(fabric->device);
        result = cuda_check(fabric->untracked ? fabric->cu->StreamSynchronize(fabric->last) : fabric->cu->EventSynchronize(fabric->latest),
                            "waiting for the last operation");
        record_look(fabric);
        cuda_leave();
    }
    if (result != TUTTI_SUCCESS) /* peers wait for what this GPU will not do any more */
        team_fail(fabric->team, result, fabric->rank, error_last());
    tutti_result_t failure = fabric_hear_failure(fabric);
    return failure == TUTTI_SUCCESS ? result : failure;
}
