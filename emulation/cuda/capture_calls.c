/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of captures: how they begin and end, what is asked of them, and how one adds to them by hand. */
#include "cuda/call.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

static CUstreamCaptureStatus status_of(CUstream stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The legacy stream is never captured itself, but cannot be told apart while another stands in its way. */
static CUresult find(CUstream handle, CUstream *stream)
{
    CUresult result = stream_find(handle, stream);
    if (!result && (*stream)->legacy && capture_blocks_legacy((*stream)->context, false))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return result;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;
    CALL(CALL_INIT);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = find(handle, &stream);
    if (!result)
        *status = status_of(stream);
    state_unlock();
    return result;
}

static CUresult info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **after, size_t *count)
{
    CUstream stream;
    CUresult result = find(handle, &stream);
    if (result)
        return result;
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = stream->capture->graph;
    if (after)
        *after = stream->front.nodes;
    if (count)
        *count = stream->front.count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                          CUgraph *graph, const CUgraphNode **after, size_t *count)
{
    CALL(CALL_INIT);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = info(handle, status, id, graph, after, count);
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                          CUgraph *graph, const CUgraphNode **after, const CUgraphEdgeData **data,
                                          size_t *count)
{
    CALL(CALL_INIT);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = info(handle, status, id, graph, after, count);
    if (data)
        *data = NULL;
    state_unlock();
    return result;
}

static CUresult update(CUstream handle, CUgraphNode *after, size_t count, unsigned flags)
{
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (!result && (!stream->capture || stream->capture->invalid))
        result = stream->capture ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_ILLEGAL_STATE;
    if (result)
        return result;
    for (size_t i = 0; i < count; i++)
        if (!after[i] || after[i]->graph != stream->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        stream->front.count = 0;
    struct node_set more = {after, count};
    return node_set_merge(&stream->front, &more) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *after, const CUgraphEdgeData *data,
                                                     size_t count, unsigned flags)
{
    CALL(CALL_INIT);
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !after) || data)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = update(stream, after, count, flags);
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream;
    CALL(CALL_CONTEXT);
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result)
        result = capture_begin(stream, NULL, mode);
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *after,
                                            const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
    CUstream stream;
    CALL(CALL_CONTEXT);
    if (!graph || mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count && !after) || data)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = graph->capture ? CUDA_ERROR_ILLEGAL_STATE : stream_find(handle, &stream);
    if (!result)
        result = capture_begin(stream, graph, mode);
    for (size_t i = 0; !result && i < count; i++)
        if (!node_set_add(&stream->front, after[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    state_unlock();
    return result;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    CUstream stream;
    CALL(CALL_INIT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = stream_find(handle, &stream);
    if (!result)
        result = capture_finish(stream, out);
    state_unlock();
    return result;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CALL(CALL_INIT);
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = capture_exchange(*mode);
    return CUDA_SUCCESS;
}
