/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, their executable copies, and the capture of streams. */
#pragma once

#include "cuda/pool.h"
#include "cuda/work.h"

struct node_set {
    CUgraphNode *nodes;
    size_t count;
};

struct CUgraphNode_st {
    struct work work;
    CUgraph graph;
    struct node_set after; /* what it depends on */
    size_t index;          /* in graph->nodes */
};

struct CUuserObject_st {
    struct pool_task task;
    unsigned refs;
    void *data;
    CUhostFn destroy;
};

struct held_object {
    CUuserObject object;
    unsigned count;
};

struct CUgraph_st {
    struct node_set nodes;
    struct held_object *objects;
    size_t object_count;
    struct capture *capture; /* that still writes it */
};

struct exec_node {
    struct work work;
    size_t after_count, *before; /* before: indices of nodes that depend on it */
    size_t before_count;
};

struct CUgraphExec_st {
    unsigned refs;
    struct exec_node *nodes;
    size_t count;
    struct held_object *objects;
    size_t object_count;
    struct stream_op *last; /* counted: its launches follow one another */
};

struct capture {
    unsigned refs;
    unsigned long long id;
    CUgraph graph;
    bool own_graph; /* begun without one */
    CUstreamCaptureMode mode;
    pthread_t thread;
    CUstream origin;
    bool invalid;
    struct capture *next;
};

bool node_set_add(struct node_set *set, CUgraphNode node); /* once */
bool node_set_merge(struct node_set *to, const struct node_set *from);
void node_set_clear(struct node_set *set);

/* All with the lock held. */
CUresult graph_add(CUgraph graph, struct work *work, const CUgraphNode *after, size_t count, CUgraphNode *out);
void graph_free(CUgraph graph);
CUresult graph_instantiate(CUgraph graph, CUgraphExec *out);
void graph_exec_ref(CUgraphExec exec);
void graph_exec_unref(CUgraphExec exec);
void graph_exec_run(CUgraphExec exec); /* without the lock */
CUresult object_hold(struct held_object **list, size_t *count, CUuserObject object, unsigned times);
CUresult object_copy(struct held_object **list, size_t *count, const struct held_object *from, size_t from_count);
void object_drop(CUuserObject object, unsigned times);
void object_drop_all(struct held_object **list, size_t *count);

bool capture_forbids(void); /* an unsafe call now; invalidates the captures that forbid it */
/* graph NULL: one of its own. */
CUresult capture_begin(CUstream stream, CUgraph graph, CUstreamCaptureMode mode);
CUresult capture_finish(CUstream stream, CUgraph *out);
CUstreamCaptureMode capture_exchange(CUstreamCaptureMode mode); /* of the thread: what it was before */
CUresult capture_add(CUstream stream, struct work *work);
CUresult capture_record(CUstream stream, CUevent event);
CUresult capture_await(CUstream stream, CUevent event);
void capture_unref(struct capture *capture);
void capture_invalidate(struct capture *capture);
void capture_end(struct capture *capture);
bool capture_blocks_legacy(CUcontext context,
                           bool invalidate);    /* a stream that synchronises with the legacy one is being captured */
bool capture_blocks_context(CUcontext context); /* any is; invalidates it */
void capture_leave(CUstream stream);            /* a captured stream goes away */

extern const struct work_ops graph_work;
