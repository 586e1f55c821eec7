/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that all ranks register together, and map. */
#ifndef TUTTI_EXECUTOR_GPU_SYMMETRIC_H
#define TUTTI_EXECUTOR_GPU_SYMMETRIC_H

#include "base/list.h"
#include "tutti/tutti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct gpu;
struct symmetric;

/* What an executor has of it. */
struct gpu_symmetric {
    pthread_mutex_t lock; /* guards the list */
    struct list memories;
    _Atomic int count;
    bool wanted; /* the same on all ranks. Within one process all memory of cudaMalloc is symmetric anyway */
};

/* Collective, and waits for peers. NULL, also at a success: some rank could not map all, or none needs to. */
tutti_result_t symmetric_open(struct gpu *gpu, void *buffer, size_t size, struct symmetric **out);
void symmetric_close(struct gpu *gpu, struct symmetric *symmetric);
/* Of the registration: it ends with that. */
tutti_window_t symmetric_window(struct symmetric *symmetric);
void symmetric_close_all(struct gpu *gpu);
/* Does the reduction's memory lie in symmetric memory? The answer is the same on all ranks. */
bool symmetric_holds(struct gpu *gpu, const struct call *call);
/* Where the memory that holds it begins on each rank, as this one addresses it; all 0: it lies in none. */
void symmetric_bases(struct gpu *gpu, const void *memory, size_t bytes, uint64_t *base);

#endif
