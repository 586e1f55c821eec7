/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that a stream or a node of a graph does. */
#pragma once

#include "cuda/context.h"
#include "cuda/kernel.h"

enum work_kind {
    WORK_EMPTY,
    WORK_COPY,
    WORK_SET,
    WORK_KERNEL,
    WORK_HOST,
    WORK_MEMOPS,
    WORK_RECORD,
    WORK_AWAIT,
    WORK_GRAPH,
    WORK_FREE
};

struct work_copy {
    char *dst;
    const char *src;
    size_t width, height, depth, dst_pitch, src_pitch, dst_slice, src_slice;
    void *staged; /* owned: what pageable host memory held */
    bool by_both; /* devices, each of which reaches its end */
};
struct work_set {
    char *dst;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;
};
struct work_kernel {
    CUfunction function;
    const struct kernel_entry *entry;
    struct kernel_grid grid;
    void *params; /* one block: pointers, then the copies; owned */
};
struct work_memops {
    unsigned count;
    CUstreamBatchMemOpParams *list; /* owned */
};

struct work;

/* What a kind of work does, by the file that makes it: each may be NULL. */
struct work_ops {
    bool (*clone)(struct work *to, const struct work *from); /* *to is a plain copy; lock held */
    void (*clear)(struct work *work);                        /* lock held */
    void (*run)(const struct work *work);                    /* without the lock */
};

struct work {
    enum work_kind kind;
    const struct work_ops *ops; /* NULL: there is nothing to do */
    CUcontext context;
    union {
        struct work_copy copy;
        struct work_set set;
        struct work_kernel kernel;
        CUDA_HOST_NODE_PARAMS host;
        struct work_memops memops;
        CUevent event;     /* counted */
        CUgraphExec graph; /* counted */
        CUdeviceptr address;
    };
};

bool work_clone(struct work *to, const struct work *from); /* lock held */
void work_clear(struct work *work);                        /* frees what it owns; lock held */
void work_run(const struct work *work);                    /* without the lock */

CUresult memops_make(unsigned count, const CUstreamBatchMemOpParams *list, struct work *work);
CUresult launch_make(const CUDA_KERNEL_NODE_PARAMS *params, struct work *work);
CUresult copy_make_3d(const CUDA_MEMCPY3D *params, struct work *work);
CUresult set_make(const CUDA_MEMSET_NODE_PARAMS *params, struct work *work);

extern const struct work_ops host_work, set_work;
