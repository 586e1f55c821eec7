/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that a program adds to a graph by hand. */
#include "cuda/call.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

/* Adds what `made` says was put together in `work`. */
static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count, struct work *work)
{
    if (!work->context)
        work->context = context_current();
    for (size_t i = 0; i < count; i++)
        if (!after || !after[i]) {
            work_clear(work);
            return CUDA_ERROR_INVALID_VALUE;
        }
    return graph_add(graph, work, after, count, out);
}

static CUresult add_locked(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count, CUresult made,
                           struct work *work)
{
    if (made)
        return made;
    state_lock();
    CUresult result = out && graph ? add(out, graph, after, count, work) : CUDA_ERROR_INVALID_VALUE;
    if (!out || !graph)
        work_clear(work);
    state_unlock();
    return result;
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count)
{
    CALL(CALL_CONTEXT);
    struct work work = {.kind = WORK_EMPTY};
    return add_locked(out, graph, after, count, CUDA_SUCCESS, &work);
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *params)
{
    CALL(CALL_CONTEXT);
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work = {.kind = WORK_HOST, .ops = &host_work, .host = *params};
    return add_locked(out, graph, after, count, CUDA_SUCCESS, &work);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct work work;
    CALL(CALL_CONTEXT);
    return add_locked(out, graph, after, count, params ? launch_make(params, &work) : CUDA_ERROR_INVALID_VALUE, &work);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct work work;
    CALL(CALL_CONTEXT);
    return add_locked(out, graph, after, count, copy_make_3d(params, &work), &work);
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct work work;
    CALL(CALL_CONTEXT);
    return add_locked(out, graph, after, count, set_make(params, &work), &work);
}

EXPORT CUresult cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct work work;
    CALL(CALL_CONTEXT);
    if (!params || params->flags)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult made = memops_make(params->count, params->paramArray, &work);
    state_unlock();
    return add_locked(out, graph, after, count, made, &work);
}

static CUresult add_event(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count, CUevent event,
                          enum work_kind kind)
{
    struct work work = {.kind = kind, .ops = &event_work, .event = event};
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    event_ref(event);
    state_unlock();
    return add_locked(out, graph, after, count, CUDA_SUCCESS, &work);
}

EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                          CUevent event)
{
    CALL(CALL_CONTEXT);
    return add_event(out, graph, after, count, event, WORK_RECORD);
}

EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                        CUevent event)
{
    CALL(CALL_CONTEXT);
    return add_event(out, graph, after, count, event, WORK_AWAIT);
}

/* The child is copied now; changing it later changes nothing here. */
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                                         CUgraph child)
{
    CUgraphExec exec;
    CALL(CALL_CONTEXT);
    CUresult result = cuGraphInstantiateWithFlags(&exec, child, 0);
    struct work work = {.kind = WORK_GRAPH, .ops = &graph_work, .graph = result ? NULL : exec};
    return add_locked(out, graph, after, count, result, &work);
}
