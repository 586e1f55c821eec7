/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as a whole: made, looked at, instantiated, launched, destroyed; user objects. */
#include "cuda/call.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

#include <stdlib.h>

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    CALL(CALL_INIT);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = calloc(1, sizeof(**out));
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    CALL(CALL_INIT);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = graph->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
    if (!result)
        graph_free(graph);
    state_unlock();
    return result;
}

static void give_nodes(const struct node_set *set, CUgraphNode *nodes, size_t *count)
{
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < set->count ? set->nodes[i] : NULL;
    if (!nodes || *count > set->count)
        *count = set->count;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    CALL(CALL_INIT);
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    give_nodes(&graph->nodes, nodes, count);
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *after, CUgraphEdgeData *data,
                                              size_t *count)
{
    CALL(CALL_INIT);
    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    give_nodes(&node->after, after, count);
    for (size_t i = 0; data && i < *count; i++)
        data[i] = (CUgraphEdgeData){0};
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    static const CUgraphNodeType types[] = {
        [WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,         [WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET,          [WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,           [WORK_MEMOPS] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [WORK_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD, [WORK_AWAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        [WORK_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,         [WORK_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
    };
    CALL(CALL_INIT);
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = types[node->work.kind];
    return CUDA_SUCCESS;
}

/* What its pointers point at is the node's. */
EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out)
{
    CALL(CALL_INIT);
    if (!node || !out || node->work.kind != WORK_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct work_kernel *kernel = &node->work.kernel;
    const unsigned *grid = kernel->grid.grid, *block = kernel->grid.block;
    *out = (CUDA_KERNEL_NODE_PARAMS){
        (CUfunction)kernel->function, grid[0],        grid[1], grid[2], block[0], block[1], block[2],
        kernel->grid.shared,          kernel->params, NULL,    NULL,    NULL};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *data, size_t count)
{
    CALL(CALL_INIT);
    if (!graph || (count && (!from || !to)) || data)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    state_lock();
    for (size_t i = 0; i < count && !result; i++) {
        if (!from[i] || !to[i] || from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
            result = CUDA_ERROR_INVALID_VALUE;
        else if (!node_set_add(&to[i]->after, from[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    state_unlock();
    return result;
}

/* Edges may have been added in any order, so there can be a circle: a graph that would never finish. */
static bool has_circle(CUgraph graph)
{
    size_t count = graph->nodes.count, done = 0;
    bool *finished = calloc(count + 1, sizeof(*finished)), moved = true;
    while (finished && moved) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            const struct node_set *after = &graph->nodes.nodes[i]->after;
            bool ready = !finished[i];
            for (size_t k = 0; k < after->count && ready; k++)
                ready = finished[after->nodes[k]->index];
            finished[i] |= ready;
            moved |= ready;
            done += ready;
        }
    }
    free(finished);
    return done != count;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph)
{
    if (!out || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = graph->capture      ? CUDA_ERROR_ILLEGAL_STATE
                      : has_circle(graph) ? CUDA_ERROR_INVALID_VALUE
                                          : CUDA_SUCCESS;
    if (!result)
        result = graph_instantiate(graph, out);
    state_unlock();
    return result;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CALL(CALL_CONTEXT);
    return instantiate(out, graph);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CALL(CALL_CONTEXT);
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    CUresult result = instantiate(out, graph);
    params->result_out = result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return result;
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    CALL(CALL_INIT);
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A launch follows what the events of its waiting nodes stand for now, and is what those of its recording nodes stand
 * for from now on. */
static CUresult await_events(CUgraphExec exec, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < exec->count && !result; i++) {
        const struct work *work = &exec->nodes[i].work;
        if (work->kind == WORK_AWAIT && work->event->op && !work->event->op->done)
            result = stream_after(stream, work->event->op);
        else if (work->kind == WORK_GRAPH)
            result = await_events(work->graph, stream);
    }
    return result;
}

static void record_events(CUgraphExec exec, struct stream_op *op)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct work *work = &exec->nodes[i].work;
        if (work->kind == WORK_RECORD) {
            op_ref(op);
            event_set(work->event, op);
        } else if (work->kind == WORK_GRAPH) {
            record_events(work->graph, op);
        }
    }
}

static CUresult launch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    struct stream_op *op = NULL;
    CUresult result = stream_find(handle, &stream);
    if (result)
        return result;
    struct work work = {.kind = WORK_GRAPH, .ops = &graph_work, .context = stream->context, .graph = exec};
    if (!stream->capture)
        result = await_events(exec, stream);
    if (result)
        return result;
    graph_exec_ref(exec);
    result = stream_submit(stream, &work, &op);
    if (!op)
        return result;
    record_events(exec, op);
    op_unref(exec->last);
    exec->last = op;
    return result;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CALL(CALL_INIT);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = launch(exec, stream);
    state_unlock();
    return result;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CALL(CALL_INIT);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    graph_exec_unref(exec);
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned refs, unsigned flags)
{
    CALL(CALL_INIT);
    if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject object = malloc(sizeof(*object));
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object = (struct CUuserObject_st){.refs = refs, .data = data, .destroy = destroy};
    *out = object;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned count)
{
    CALL(CALL_INIT);
    if (!object || !count)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    object->refs += count;
    state_unlock();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count)
{
    CALL(CALL_INIT);
    if (!object || !count)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = count > object->refs ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!result)
        object_drop(object, count);
    state_unlock();
    return result;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    CALL(CALL_INIT);
    if (!graph || !object || !count || flags > CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    state_lock();
    CUresult result = object_hold(&graph->objects, &graph->object_count, object, count);
    if (!result && flags != CU_GRAPH_USER_OBJECT_MOVE)
        object->refs += count;
    state_unlock();
    return result;
}
