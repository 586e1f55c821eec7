/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in graphs among others of the same communicator. They share windows, so all follow one another in the
 * order in which the host issues calls and launches graphs, on whatever streams: ranks that keep one order there keep
 * it on their GPUs. An event of the executor stands for the last of them. What a graph holds begins by waiting for it
 * and ends by recording it, which the driver does at each launch, and from the first capture on calls do the same.
 * Inside a graph operations follow one another by its edges.
 */
#include "executor/gpu/graphs.h"

#include "base/error.h"
#include "base/param.h"
#include "device/cuda/device.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/ticket.h"

static bool graphs_is_wanted(const struct gpu *gpu)
{
    return gpu->cu->GraphAddEventRecordNode && param_int(PARAM_GRAPH_MIXING);
}

/* What was issued before the first capture, on a stream that may be gone. */
static tutti_result_t record_the_past(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!gpu->graphs.serial)
        result = cuda_check(gpu->cu->EventCreate(&gpu->graphs.serial, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS && !gpu->graphs.tail)
        result = cuda_check(gpu->cu->EventCreate(&gpu->graphs.tail, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS || ticket_idle(gpu))
        return result;
    result = cuda_check(gpu->cu->StreamWaitValue32(gpu->graphs.sounded, gpu->order.over_device,
                                                   atomic_load(&gpu->order.ticket), CU_STREAM_WAIT_VALUE_GEQ),
                        "ordering a graph");
    return result == TUTTI_SUCCESS
               ? cuda_check(gpu->cu->EventRecord(gpu->graphs.serial, gpu->graphs.sounded), "ordering a graph")
               : result;
}

static tutti_result_t begin_in_graph(struct gpu *gpu, CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    tutti_result_t result = gpu->graphs.serial ? TUTTI_SUCCESS : record_the_past(gpu);
    if (result == TUTTI_SUCCESS)
        result =
            cuda_check(gpu->cu->StreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL), "asking about a capture");
    if (result != TUTTI_SUCCESS)
        return result;
    if (id != gpu->graphs.capture)
        result = cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->graphs.serial, CU_EVENT_WAIT_EXTERNAL),
                            "ordering a graph");
    else if (stream != gpu->graphs.last_captured)
        result = cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->graphs.tail, CU_EVENT_WAIT_DEFAULT),
                            "ordering branches of a graph");
    gpu->graphs.capture = id;
    gpu->graphs.last_captured = stream;
    return result;
}

tutti_result_t graphs_begin(struct gpu *gpu, CUstream stream)
{
    if (!graphs_is_wanted(gpu))
        return TUTTI_SUCCESS;
    if (gpu->order.capturing)
        return begin_in_graph(gpu, stream);
    return gpu->graphs.serial ? cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->graphs.serial, CU_EVENT_WAIT_DEFAULT),
                                           "ordering a call behind graphs")
                              : TUTTI_SUCCESS;
}

/* Nothing in the graph comes behind the recording: it holds up nothing. */
static tutti_result_t end_in_graph(struct gpu *gpu, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *nodes = NULL;
    CUgraph graph = NULL;
    CUgraphNode node;
    size_t count = 0;
    tutti_result_t result = cuda_check(gpu->cu->StreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &count),
                                       "asking about a capture");
    if (result == TUTTI_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        result = cuda_check(gpu->cu->GraphAddEventRecordNode(&node, graph, nodes, count, gpu->graphs.serial),
                            "ordering what comes behind a graph");
    return result == TUTTI_SUCCESS
               ? cuda_check(gpu->cu->EventRecord(gpu->graphs.tail, stream), "ordering branches of a graph")
               : result;
}

tutti_result_t graphs_end(struct gpu *gpu, CUstream stream)
{
    if (!graphs_is_wanted(gpu) || !gpu->graphs.serial)
        return TUTTI_SUCCESS;
    return gpu->order.capturing
               ? end_in_graph(gpu, stream)
               : cuda_check(gpu->cu->EventRecord(gpu->graphs.serial, stream), "ordering graphs behind a call");
}

void graphs_close(struct gpu *gpu)
{
    if (gpu->graphs.serial)
        gpu->cu->EventDestroy(gpu->graphs.serial);
    if (gpu->graphs.tail)
        gpu->cu->EventDestroy(gpu->graphs.tail);
}
