/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in graphs among others of the same communicator. They share windows, so all follow one another in the
 * order in which the host issues calls and launches graphs, on whatever streams: ranks that keep one order there keep
 * it on their GPUs. An event of the executor stands for the last of them. What a graph holds begins by waiting for that
 * event and ends by recording it: the driver does both at each launch. From the first capture on, calls do the same.
 * Inside a graph operations follow one another by its edges.
 */
#include "executor/stream/graphs.h"

#include "base/error.h"
#include "base/param.h"
#include "executor/stream/base.h"
#include "executor/stream/ticket.h"

#include <unistd.h>

#define PAUSE_US 50 /* between two looks at what graphs replay */

static bool graphs_is_wanted(const struct stream_base *base)
{
    return base->cu->GraphAddEventRecordNode && param_int(PARAM_GRAPH_MIXING);
}

/* What was issued before the first capture, on a stream that may be gone. */
static tutti_result_t record_the_past(struct stream_base *base)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!base->graphs.serial)
        result = cuda_check(base->cu->EventCreate(&base->graphs.serial, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS && !base->graphs.tail)
        result = cuda_check(base->cu->EventCreate(&base->graphs.tail, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS || ticket_idle(base))
        return result;
    result = cuda_check(base->cu->StreamWaitValue32(base->graphs.sounded, base->tickets.over_device,
                                                    atomic_load(&base->tickets.ticket), CU_STREAM_WAIT_VALUE_GEQ),
                        "ordering a graph");
    return result == TUTTI_SUCCESS
               ? cuda_check(base->cu->EventRecord(base->graphs.serial, base->graphs.sounded), "ordering a graph")
               : result;
}

/* Behind what came before, in the capture or in front of it. */
static tutti_result_t wait_in_graph(struct stream_base *base, CUstream stream, cuuint64_t *id)
{
    CUstreamCaptureStatus status;
    tutti_result_t result = base->graphs.serial ? TUTTI_SUCCESS : record_the_past(base);
    if (result == TUTTI_SUCCESS)
        result =
            cuda_check(base->cu->StreamGetCaptureInfo(stream, &status, id, NULL, NULL, NULL), "asking about a capture");
    if (result != TUTTI_SUCCESS)
        return result;
    if (*id != base->graphs.capture)
        return cuda_check(base->cu->StreamWaitEvent(stream, base->graphs.serial, CU_EVENT_WAIT_EXTERNAL),
                          "ordering a graph");
    return stream != base->graphs.last_captured
               ? cuda_check(base->cu->StreamWaitEvent(stream, base->graphs.tail, CU_EVENT_WAIT_DEFAULT),
                            "ordering branches of a graph")
               : TUTTI_SUCCESS;
}

static tutti_result_t begin_in_graph(struct stream_base *base, CUstream stream)
{
    cuuint64_t id = 0;
    tutti_result_t result = wait_in_graph(base, stream, &id);
    if (result == TUTTI_SUCCESS) {
        base->graphs.capture = id;
        base->graphs.last_captured = stream;
    }
    return result;
}

tutti_result_t graphs_begin(struct stream_base *base, CUstream stream)
{
    if (!graphs_is_wanted(base))
        return TUTTI_SUCCESS;
    if (base->tickets.capturing)
        return begin_in_graph(base, stream);
    return base->graphs.serial
               ? cuda_check(base->cu->StreamWaitEvent(stream, base->graphs.serial, CU_EVENT_WAIT_DEFAULT),
                            "ordering a call behind graphs")
               : TUTTI_SUCCESS;
}

tutti_result_t graphs_behind(struct stream_base *base, CUstream stream)
{
    cuuint64_t id = 0;
    return graphs_is_wanted(base) ? wait_in_graph(base, stream, &id) : TUTTI_SUCCESS;
}

/* Nothing in the graph comes behind the recording: it holds up nothing. */
static tutti_result_t end_in_graph(struct stream_base *base, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    CUgraph graph = NULL;
    CUgraphNode node;
    size_t count = 0;
    tutti_result_t result = cuda_check(base->cu->StreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &count),
                                       "asking about a capture");
    if (result == TUTTI_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        result = cuda_check(base->cu->GraphAddEventRecordNode(&node, graph, nodes, count, base->graphs.serial),
                            "ordering what comes behind a graph");
    return result == TUTTI_SUCCESS
               ? cuda_check(base->cu->EventRecord(base->graphs.tail, stream), "ordering branches of a graph")
               : result;
}

tutti_result_t graphs_end(struct stream_base *base, CUstream stream)
{
    if (!graphs_is_wanted(base) || !base->graphs.serial)
        return TUTTI_SUCCESS;
    return base->tickets.capturing
               ? end_in_graph(base, stream)
               : cuda_check(base->cu->EventRecord(base->graphs.serial, stream), "ordering graphs behind a call");
}

tutti_result_t graphs_wait(struct stream_base *base)
{
    CUresult got = base->graphs.serial ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    while (got == CUDA_ERROR_NOT_READY) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* somebody may be capturing another graph */
        base->cu->ThreadExchangeStreamCaptureMode(&mode);
        got = base->cu->EventQuery(base->graphs.serial);
        base->cu->ThreadExchangeStreamCaptureMode(&mode);
        if (got == CUDA_ERROR_NOT_READY)
            usleep(PAUSE_US);
    }
    return cuda_check(got, "waiting for graphs");
}

void graphs_close(struct stream_base *base)
{
    if (base->graphs.serial)
        base->cu->EventDestroy(base->graphs.serial);
    if (base->graphs.tail)
        base->cu->EventDestroy(base->graphs.tail);
}
