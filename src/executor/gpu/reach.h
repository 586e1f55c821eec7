/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each rank that all ranks address. */
#ifndef TUTTI_EXECUTOR_GPU_REACH_H
#define TUTTI_EXECUTOR_GPU_REACH_H

#include "device/cuda/driver.h"
#include "device/cuda/kernels/kernels.h"
#include "tutti/tutti.h"

#include <stddef.h>
#include <stdint.h>

struct gpu;

struct reach {
    uint64_t begin, size;
    uint64_t sizes[KERNEL_RANKS];
    uint64_t at[KERNEL_RANKS]; /* where it begins on each rank, as this one addresses it */
    CUcontext
        context[KERNEL_RANKS]; /* by which the driver copies, as this GPU does not address it; NULL: this one does */
    int offered[KERNEL_RANKS]; /* which offer it is to each rank; -1: none */
};

/* Collective, and waits for peers. Sizes may differ, and be 0. *without: -1, or a rank that does not reach all of it,
 * or has none that others could: nothing is kept then. */
tutti_result_t reach_open(struct gpu *gpu, void *buffer, size_t size, struct reach *out, int *without);
void reach_close(struct gpu *gpu, const struct reach *reach);

#endif
