/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What executors on CUDA streams have in common: their operations follow one another, whatever streams these are on,
 * each has a ticket, and graphs keep that order. An executor has a struct stream_base first in its own, and says by
 * struct stream_ops what is different. docs/executor.md.
 */
#ifndef TUTTI_EXECUTOR_STREAM_BASE_H
#define TUTTI_EXECUTOR_STREAM_BASE_H

#include "base/list.h"
#include "engine/executor.h"
#include "executor/stream/graphs.h"
#include "executor/stream/ticket.h"
#include "wire/blackbox.h"

struct cuda_device;
struct team;

/* Between order_begin() and order_end(), of which each calls some; NULL: there is nothing to do. */
struct stream_ops {
    void (*tidy)(struct stream_base *base); /* before anything else, in a pause between operations perhaps */
    /* A call is being issued, before anything is asked; it is not any more. `issued`: it may have been. */
    void (*begins)(struct stream_base *base);
    void (*ends)(struct stream_base *base, bool issued);
    tutti_result_t (*refuses)(struct stream_base *base, bool collective);
    /* The call that was issued has its ticket. `kernel`: one comes last. `whole`: the call went well. */
    void (*issued)(struct stream_base *base, bool kernel, bool whole);
    void (*captured)(struct stream_base *base); /* the first one in a graph */
    /* A call was refused: does it fail behind what came before, and not at once? */
    bool (*fails_later)(struct stream_base *base);
    void (*failed)(struct stream_base *base); /* the team has, as half of an operation may be issued */
};

struct stream_base {
    struct executor executor;
    const struct stream_ops *ops;
    struct team *team;
    const struct cuda_driver *cu;
    struct cuda_device *device;
    struct tickets tickets;
    struct graphs graphs;
    CUevent mark;                     /* where a stream stood */
    struct list idle;                 /* in the process's list of what may be under way */
    size_t memory[WIRE_MEMORY_COUNT]; /* what it holds */
    size_t team_memory;               /* and its team, as the black box was told */
};

/* The GPU and its context. Then, where that went well: kernels, events, and a stream of its own. base_close() comes
 * after either, also if it failed. The executor joins the others of this process when it is complete. */
tutti_result_t base_open(struct stream_base *base, struct team *team, int ordinal, const struct stream_ops *ops);
tutti_result_t base_load(struct stream_base *base);
void base_close(struct stream_base *base);

static inline struct stream_base *stream_base_of(struct executor *executor)
{
    return (struct stream_base *)((char *)executor - offsetof(struct stream_base, executor));
}

static inline CUdeviceptr device_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
