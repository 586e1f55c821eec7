/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing streams. What is submitted to a captured stream becomes a node behind the stream's front; events carry
 * fronts to other streams, which so join the capture. */
#include "cuda/graph.h"
#include "cuda/stream.h"

#include <stdlib.h>

static struct capture *captures; /* that have not ended */
static unsigned long long last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void capture_invalidate(struct capture *capture)
{
    capture->invalid = true;
}

static bool forbids(const struct capture *capture)
{
    bool own = pthread_equal(capture->thread, pthread_self());
    if (own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool capture_forbids(void)
{
    bool forbidden = false;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    for (struct capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            capture_invalidate(c);
            forbidden = true;
        }
    return forbidden;
}

bool capture_blocks_legacy(CUcontext context, bool invalidate)
{
    bool blocks = false;
    for (CUstream s = context->streams; s; s = s->next)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            s->capture->invalid |= invalidate;
            blocks = true;
        }
    return blocks;
}

bool capture_blocks_context(CUcontext context)
{
    bool blocks = false;
    for (CUstream s = context->streams; s; s = s->next)
        if (s->capture) {
            capture_invalidate(s->capture);
            blocks = true;
        }
    return blocks;
}

static void set_front(CUstream stream, CUgraphNode node)
{
    stream->front.count = 0;
    if (!node_set_add(&stream->front, node))
        capture_invalidate(stream->capture);
}

CUresult capture_add(CUstream stream, struct work *work)
{
    CUgraphNode node;
    CUresult result = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!result && work->kind == WORK_FREE)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result) {
        work_clear(work);
        return result;
    }
    result = graph_add(stream->capture->graph, work, stream->front.nodes, stream->front.count, &node);
    if (!result)
        set_front(stream, node);
    return result;
}

CUresult capture_record(CUstream stream, CUevent event)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event_set(event, NULL);
    if (!node_set_merge(&event->front, &stream->front))
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->capture = stream->capture;
    stream->capture->refs++;
    return CUDA_SUCCESS;
}

static bool has_ended(const struct capture *capture)
{
    struct capture *c = captures;
    while (c && c != capture)
        c = c->next;
    return !c;
}

static CUresult refuse(CUstream stream, CUevent event)
{
    if (stream->capture)
        capture_invalidate(stream->capture);
    if (event->capture && event->capture != stream->capture)
        capture_invalidate(event->capture);
    if (!event->capture || !stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

CUresult capture_await(CUstream stream, CUevent event)
{
    if (!event->capture && !event->op)
        return CUDA_SUCCESS;
    if (stream->legacy && event->capture) {
        capture_invalidate(event->capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!event->capture || has_ended(event->capture) || (stream->capture && stream->capture != event->capture))
        return refuse(stream, event);
    if (event->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!stream->capture) {
        stream->capture = event->capture;
        stream->capture->refs++;
    }
    return node_set_merge(&stream->front, &event->front) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void release_stream(CUstream stream)
{
    capture_unref(stream->capture);
    stream->capture = NULL;
    node_set_clear(&stream->front);
}

void capture_leave(CUstream stream)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return;
    capture_invalidate(capture);
    capture->refs++;
    if (capture->origin == stream)
        capture_end(capture);
    else
        release_stream(stream);
    capture_unref(capture);
}

static bool begin_allowed(CUstream stream)
{
    return !stream->legacy && !stream->capture;
}

CUresult capture_begin(CUstream stream, CUgraph graph, CUstreamCaptureMode mode)
{
    if (!begin_allowed(stream))
        return stream->legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_ILLEGAL_STATE;
    struct capture *capture = calloc(1, sizeof(*capture));
    CUgraph own = graph ? graph : calloc(1, sizeof(*own));
    if (!capture || !own) {
        free(capture);
        if (!graph)
            free(own);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct capture){.refs = 2,
                                .id = ++last_id,
                                .graph = own,
                                .own_graph = !graph,
                                .mode = mode,
                                .thread = pthread_self(),
                                .origin = stream,
                                .next = captures};
    captures = capture;
    own->capture = capture;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

/* Marks what the nodes depend on, by index; ends at marked ones. */
static void mark_before(const struct node_set *set, bool *marked)
{
    for (size_t i = 0; i < set->count; i++)
        if (!marked[set->nodes[i]->index]) {
            marked[set->nodes[i]->index] = true;
            mark_before(&set->nodes[i]->after, marked);
        }
}

/* Every stream that joined must have been joined back: its front lies behind the origin's. */
static CUresult check_joined(struct capture *capture)
{
    bool *marked = calloc(capture->graph->nodes.count + 1, sizeof(*marked));
    CUresult result = marked ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        mark_before(&capture->origin->front, marked);
    for (CUcontext c = context_next(NULL); c && !result; c = context_next(c))
        for (CUstream s = c->streams; s; s = s->next)
            for (size_t i = 0; s->capture == capture && i < s->front.count; i++)
                if (!marked[s->front.nodes[i]->index])
                    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    free(marked);
    return result;
}

/* All its streams are as before; what became of the graph is the caller's business, unless nobody wants it. */
void capture_end(struct capture *capture)
{
    struct capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (CUcontext c = context_next(NULL); c; c = context_next(c))
        for (CUstream s = c->streams; s; s = s->next)
            if (s->capture == capture)
                release_stream(s);
    capture->graph->capture = NULL;
    if (capture->invalid && capture->own_graph)
        graph_free(capture->graph);
    capture->graph = NULL;
    capture_unref(capture);
}

CUresult capture_finish(CUstream stream, CUgraph *out)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined(capture);
    capture->invalid = result != CUDA_SUCCESS;
    *out = result ? NULL : capture->graph;
    capture_end(capture);
    return result;
}

CUstreamCaptureMode capture_exchange(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode before = thread_mode;
    thread_mode = mode;
    return before;
}
