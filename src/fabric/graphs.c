/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in graphs among others of the same communicator. They share windows, so all follow one another in the order in which the host
 * issues calls and launches graphs, on whatever streams: ranks that keep one order there keep it on their GPUs. An event of the fabric
 * stands for the last of them. What a graph holds begins by waiting for it and ends by recording it, which the driver does at each
 * launch, and from the first capture on calls do the same. Inside a graph operations follow one another by its edges.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/param.h"

static bool is_wanted(const struct fabric *fabric)
{
    return fabric->cu->GraphAddEventRecordNode && param_int(PARAM_GRAPH_MIXING);
}

/* What was issued before the first capture, on a stream that may be gone. */
static tutti_result_t record_the_past(struct fabric *fabric)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!fabric->serial)
        result = cuda_check(fabric->cu->EventCreate(&fabric->serial, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS && !fabric->tail)
        result = cuda_check(fabric->cu->EventCreate(&fabric->tail, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS || order_idle(fabric))
        return result;
    result = cuda_check(fabric->cu->StreamWaitValue32(fabric->sounded, fabric->over_device, atomic_load(&fabric->ticket), CU_STREAM_WAIT_VALUE_GEQ),
                        "ordering a graph");
    return result == TUTTI_SUCCESS ? cuda_check(fabric->cu->EventRecord(fabric->serial, fabric->sounded), "ordering a graph") : result;
}

static tutti_result_t begin_in_graph(struct fabric *fabric, CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    tutti_result_t result = fabric->serial ? TUTTI_SUCCESS : record_the_past(fabric);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(fabric->cu->StreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL), "asking about a capture");
    if (result != TUTTI_SUCCESS)
        return result;
    if (id != fabric->capture)
        result = cuda_check(fabric->cu->StreamWaitEvent(stream, fabric->serial, CU_EVENT_WAIT_EXTERNAL), "ordering a graph");
    else if (stream != fabric->last_captured)
        result = cuda_check(fabric->cu->StreamWaitEvent(stream, fabric->tail, CU_EVENT_WAIT_DEFAULT), "ordering branches of a graph");
    fabric->capture = id;
    fabric->last_captured = stream;
    return result;
}

tutti_result_t graphs_begin(struct fabric *fabric, CUstream stream)
{
    if (!is_wanted(fabric))
        return TUTTI_SUCCESS;
    if (fabric->capturing)
        return begin_in_graph(fabric, stream);
    return fabric->serial ? cuda_check(fabric->cu->StreamWaitEvent(stream, fabric->serial, CU_EVENT_WAIT_DEFAULT), "ordering a call behind graphs")
                          : TUTTI_SUCCESS;
}

/* Nothing in the graph comes behind the recording: it holds up nothing. */
static tutti_result_t end_in_graph(struct fabric *fabric, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    CUgraph graph = NULL;
    CUgraphNode node;
    size_t count = 0;
    tutti_result_t result = cuda_check(fabric->cu->StreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &count), "asking about a capture");
    if (result == TUTTI_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        result = cuda_check(fabric->cu->GraphAddEventRecordNode(&node, graph, nodes, count, fabric->serial), "ordering what comes behind a graph");
    return result == TUTTI_SUCCESS ? cuda_check(fabric->cu->EventRecord(fabric->tail, stream), "ordering branches of a graph") : result;
}

tutti_result_t graphs_end(struct fabric *fabric, CUstream stream)
{
    if (!is_wanted(fabric) || !fabric->serial)
        return TUTTI_SUCCESS;
    return fabric->capturing ? end_in_graph(fabric, stream)
                             : cuda_check(fabric->cu->EventRecord(fabric->serial, stream), "ordering graphs behind a call");
}

void graphs_close(struct fabric *fabric)
{
    if (fabric->serial)
        fabric->cu->EventDestroy(fabric->serial);
    if (fabric->tail)
        fabric->cu->EventDestroy(fabric->tail);
}
