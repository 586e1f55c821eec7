/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in graphs among others of the same communicator. They share windows, so all follow one another in the order in which the host
 * issues calls and launches graphs, on whatever streams: ranks that keep one order there keep it on their GPUs. An event of the executor
 * stands for the last of them. What a graph holds begins by waiting for it and ends by recording it, which the driver does at each
 * launch, and from the first capture on calls do the same. Inside a graph operations follow one another by its edges.
 */
#include "executor/gpu/internal.h"

#include "base/error.h"
#include "base/param.h"

static bool is_wanted(const struct gpu *gpu)
{
    return gpu->cu->GraphAddEventRecordNode && param_int(PARAM_GRAPH_MIXING);
}

/* What was issued before the first capture, on a stream that may be gone. */
static tutti_result_t record_the_past(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!gpu->serial)
        result = cuda_check(gpu->cu->EventCreate(&gpu->serial, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result == TUTTI_SUCCESS && !gpu->tail)
        result = cuda_check(gpu->cu->EventCreate(&gpu->tail, CU_EVENT_DISABLE_TIMING), "making an event");
    if (result != TUTTI_SUCCESS || order_idle(gpu))
        return result;
    result = cuda_check(gpu->cu->StreamWaitValue32(gpu->sounded, gpu->over_device, atomic_load(&gpu->ticket), CU_STREAM_WAIT_VALUE_GEQ),
                        "ordering a graph");
    return result == TUTTI_SUCCESS ? cuda_check(gpu->cu->EventRecord(gpu->serial, gpu->sounded), "ordering a graph") : result;
}

static tutti_result_t begin_in_graph(struct gpu *gpu, CUstream stream)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    tutti_result_t result = gpu->serial ? TUTTI_SUCCESS : record_the_past(gpu);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(gpu->cu->StreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL), "asking about a capture");
    if (result != TUTTI_SUCCESS)
        return result;
    if (id != gpu->capture)
        result = cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->serial, CU_EVENT_WAIT_EXTERNAL), "ordering a graph");
    else if (stream != gpu->last_captured)
        result = cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->tail, CU_EVENT_WAIT_DEFAULT), "ordering branches of a graph");
    gpu->capture = id;
    gpu->last_captured = stream;
    return result;
}

tutti_result_t graphs_begin(struct gpu *gpu, CUstream stream)
{
    if (!is_wanted(gpu))
        return TUTTI_SUCCESS;
    if (gpu->capturing)
        return begin_in_graph(gpu, stream);
    return gpu->serial ? cuda_check(gpu->cu->StreamWaitEvent(stream, gpu->serial, CU_EVENT_WAIT_DEFAULT), "ordering a call behind graphs")
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
    tutti_result_t result = cuda_check(gpu->cu->StreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &count), "asking about a capture");
    if (result == TUTTI_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        result = cuda_check(gpu->cu->GraphAddEventRecordNode(&node, graph, nodes, count, gpu->serial), "ordering what comes behind a graph");
    return result == TUTTI_SUCCESS ? cuda_check(gpu->cu->EventRecord(gpu->tail, stream), "ordering branches of a graph") : result;
}

tutti_result_t graphs_end(struct gpu *gpu, CUstream stream)
{
    if (!is_wanted(gpu) || !gpu->serial)
        return TUTTI_SUCCESS;
    return gpu->capturing ? end_in_graph(gpu, stream)
                             : cuda_check(gpu->cu->EventRecord(gpu->serial, stream), "ordering graphs behind a call");
}

void graphs_close(struct gpu *gpu)
{
    if (gpu->serial)
        gpu->cu->EventDestroy(gpu->serial);
    if (gpu->tail)
        gpu->cu->EventDestroy(gpu->tail);
}
