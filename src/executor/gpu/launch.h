/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of operations: each at once, or several small ones as a list in one launch. */
#ifndef TUTTI_EXECUTOR_GPU_LAUNCH_H
#define TUTTI_EXECUTOR_GPU_LAUNCH_H

#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "tutti/tutti.h"

struct gpu;

/* What is held back for a list. kernel: of one in it; KERNEL_NONE: there is nothing. */
struct launch_held {
    bool holds;
    enum kernel_id kernel;
    struct kernel_launch how; /* of reductions */
    tutti_type_t type;
    CUstream stream;
    uint32_t ticket;
    union {
        struct kernel_list vectors;
        struct kernel_messages messages;
    };
};

/* Between order_begin() and order_end(): with parameters that begin with `what`, which this fills in. What is held back
 * goes first. */
tutti_result_t launch_kernel(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_team *what, CUstream stream);

/* From now on what can go in a list is held back; no more, and it goes. The calls between the two are of one stream. */
void launch_hold(struct gpu *gpu);
tutti_result_t launch_release(struct gpu *gpu, tutti_result_t issued);
/* What is held back goes: something that is no kernel comes behind it. */
tutti_result_t launch_flush(struct gpu *gpu);

/* A reduction of `what` alone, without items; an exchange. Either may be held back. */
tutti_result_t launch_vector(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_list *what, CUstream stream);
tutti_result_t launch_messages(struct gpu *gpu, struct kernel_exchange *what, CUstream stream);

#endif
