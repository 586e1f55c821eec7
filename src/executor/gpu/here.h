/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU executors of this process: asked, and visited, by one another. */
#ifndef TUTTI_EXECUTOR_GPU_HERE_H
#define TUTTI_EXECUTOR_GPU_HERE_H

#include <stdbool.h>

struct gpu;

void here_join(struct gpu *gpu);
void here_leave(struct gpu *gpu);
/* Asks all executors, under the lock of their list. */
bool here_any(bool (*says)(struct gpu *gpu, const void *argument), const void *argument);
/* An executor for which the answer is yes, asked under the lock of their list; it stays until here_go(). NULL: there is
 * none. */
struct gpu *here_visit(bool (*says)(const struct gpu *gpu, const void *argument), const void *argument);
/* Are all ranks of the communicator of this process? */
bool here_are_all(const struct gpu *gpu);
/* The executor of another rank of the communicator. */
struct gpu *here_visit_rank(const struct gpu *gpu, int rank);
void here_go(struct gpu *visited);

#endif
