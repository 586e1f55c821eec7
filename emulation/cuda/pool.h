/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for blocks of kernels and branches of graphs. Tasks wait for one another, so each gets a thread at once: an
 * idle one or a new one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pool_task {
    void (*run)(struct pool_task *task); /* may free the task */
    struct pool_task *next;
};

/* Starts all of an array of `count` objects of `stride` bytes that begin with a task, or none: false, when threads are
 * lacking. */
bool pool_start(void *tasks, size_t count, size_t stride);
size_t pool_threads(void);
