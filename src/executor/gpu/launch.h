/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of operations: each at once, or several small ones as a list in one launch. */
#ifndef TUTTI_EXECUTOR_GPU_LAUNCH_H
#define TUTTI_EXECUTOR_GPU_LAUNCH_H

#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "tutti/tutti.h"

struct gpu;

/*
 * Calls of a group share out the stripes of their kernels, so that small ones run at the same time: each begins behind
 * the one before it. All ranks count alike, whatever launches the calls end up in. A call outside of groups begins at
 * 0.
 */
struct launch_turn {
    uint32_t width; /* stripes of a team for vectors; 0: every call begins at 0 */
    uint32_t next;
};
struct launch_turns {
    struct launch_turn words, lines; /* vectors of kernel listed, and of the others */
    uint32_t messages;
};

/* What is held back for a list. kernel: the kernel of its calls; KERNEL_NONE: nothing is held back. */
struct launch_held {
    bool holds;
    enum kernel_id kernel;
    struct kernel_launch how; /* of reductions */
    tutti_type_t type;
    CUstream stream;
    uint32_t ticket;
    uint32_t stripes; /* of the vectors: of all, or the most of any where every one begins at 0 */
    union {
        struct kernel_list vectors;
        struct kernel_messages messages;
    };
};

/* Between order_begin() and order_end(): with parameters that begin with `what`, which this fills in. What is held back
 * goes first. */
tutti_result_t launch_kernel(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_team *what, CUstream stream);

/* The next call is not in the group that the last one was in. */
void launch_begins_group(struct gpu *gpu);

/* May a vector in words of `stripes` stripes share a launch with others? A vector that has more is launched by itself,
 * and counts for no turn. */
bool launch_may_join(const struct gpu *gpu, uint32_t stripes);

/* The turn of a collective's messages, of `stripes` stripes each. */
uint32_t launch_turn(struct gpu *gpu, uint32_t stripes);

/* launch_hold(): from now on what can go in a list is held back. launch_release(): nothing more is, and the list is
 * launched. The calls between the two are of one stream. */
void launch_hold(struct gpu *gpu);
tutti_result_t launch_release(struct gpu *gpu, tutti_result_t issued);
/* What is held back is launched: something that is no kernel comes behind it. */
tutti_result_t launch_flush(struct gpu *gpu);

/* A list without items: `reduce` is for the caller to fill in. The items, which are many, are left as they are. */
static inline struct kernel_reduce *launch_alone(struct kernel_list *list)
{
    list->items = list->first = list->width = 0;
    return &list->reduce;
}

/* A vector of `what` alone, without items; an exchange. Either may be held back. A vector of kernel listed is
 * an item in any case: peers may have the vector in a list. */
tutti_result_t launch_vector(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_list *what, CUstream stream);
tutti_result_t launch_messages(struct gpu *gpu, struct kernel_exchange *what, CUstream stream);

#endif
