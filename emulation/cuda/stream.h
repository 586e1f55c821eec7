/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. A stream is a queue that a thread of its own works off, started with the first operation. */
#pragma once

#include "cuda/graph.h"
#include "cuda/work.h"

#define STREAM_ROOM 1024 /* operations in a stream: a caller with more waits, as in the driver */

/* An operation in a stream. Others that must come later hold it until it is done. */
struct stream_op {
    unsigned refs;
    bool done;
    unsigned long long place; /* in its queue, if streams share them */
    uint64_t finished_ns;
    struct work work;
    struct stream_op **after; /* counted; must be done first */
    size_t after_count;
    struct stream_op *next;
};

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    int priority;
    unsigned long long id;
    struct stream_op *head, *tail, *last; /* last: counted, of all ever submitted */
    unsigned queued;
    bool running, closing, legacy, per_thread;
    pthread_t owner; /* of a default stream per thread */
    pthread_cond_t more;
    struct capture *capture;
    struct node_set front; /* of the capture: what the next node depends on */
    CUstream next;
};

struct CUevent_st {
    unsigned refs, flags;
    CUcontext context;
    struct stream_op *op; /* counted; the last recording, NULL: none */
    struct capture *capture;
    struct node_set front;
};

void op_ref(struct stream_op *op);
void op_unref(struct stream_op *op); /* NULL is ignored; lock held, as in all calls below */
void op_wait(struct stream_op *op);

/* The stream of a handle in the current context, made when it is a default one. */
CUresult stream_find(CUstream handle, CUstream *out);
CUresult stream_new(CUcontext context, unsigned flags, int priority, CUstream *out);
void stream_close(CUstream stream); /* its thread frees it when it has done its work */
/* Queues the work, or makes it a node when the stream is being captured. Takes what `work` owns, also when it fails.
 * op: the queued operation, counted (may be NULL). */
CUresult stream_submit(CUstream stream, struct work *work, struct stream_op **op);
CUresult stream_after(CUstream stream, struct stream_op *op); /* what comes next in the stream waits for op */
void stream_wait(CUstream stream);

void event_ref(CUevent event);
void event_unref(CUevent event);
void event_set(CUevent event, struct stream_op *op);

extern const struct work_ops event_work; /* a recording or a wait of a graph */
