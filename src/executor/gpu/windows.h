/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of device memory that all ranks map. */
#ifndef TUTTI_EXECUTOR_GPU_WINDOWS_H
#define TUTTI_EXECUTOR_GPU_WINDOWS_H

#include "base/list.h"
#include "executor/gpu/reach.h"
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>

struct gpu;

struct gpu_window {
    struct list node; /* in gpu->windows.all */
    struct reach reach;
    bool symmetric; /* it ends with that registration */
};

static inline struct gpu_window *gpu_window_of(tutti_window_t window)
{
    return (struct gpu_window *)(void *)window;
}

/* One whose memory all ranks map already. */
void gpu_window_enter(struct gpu *gpu, struct gpu_window *window);
void gpu_window_leave(struct gpu *gpu, struct gpu_window *window);

/* As in engine/executor.h. */
tutti_result_t gpu_window_open(struct gpu *gpu, void *buffer, size_t size, tutti_window_t *out);
tutti_result_t gpu_window_close(struct gpu *gpu, tutti_window_t window);
tutti_result_t gpu_window_address(struct gpu *gpu, tutti_window_t window, int rank, void **address, size_t *size);
bool gpu_window_is_open(struct gpu *gpu, tutti_window_t window);
/* Windows that were not closed end with the executor. */
void windows_close_all(struct gpu *gpu);

#endif
