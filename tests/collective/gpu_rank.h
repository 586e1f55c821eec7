/* SPDX-License-Identifier: Apache-2.0 */
/* What test programs of one process a GPU have in common: what they require, and what their log has said. */
#ifndef TUTTI_TESTS_COLLECTIVE_GPU_RANK_H
#define TUTTI_TESTS_COLLECTIVE_GPU_RANK_H

#include "gpu.h"

#include <stddef.h>

/* Ends the program, with the latest error, where something does not hold. */
void require(bool right, const char *what);
#define OK(call)   require((call) == TUTTI_SUCCESS, #call)
#define DONE(call) require((call) == CUDA_SUCCESS, #call)

/* Joins the job, on the device that is current. */
void gpu_join(tutti_comm_t *comm, int *rank, int *nranks);

/* The log goes to a file from here on, as far as `level` (of TUTTI_DEBUG) lets it. */
void log_open(const char *level);
/* Lines of it so far that say so. last: where the last one goes, NULL: nowhere. */
int logged(const char *what, char *last, size_t size);
/* Waits until `count` buffers of peers have been mapped here; by a log that says "info". */
void await_mapped(int count);

#endif
