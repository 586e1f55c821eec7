/* SPDX-License-Identifier: Apache-2.0 */
/* What the black box shows of this rank: an observer. */
#ifndef TUTTI_EXECUTOR_GPU_RECORD_H
#define TUTTI_EXECUTOR_GPU_RECORD_H

#include <stddef.h>

struct gpu;

/* The executor is made. Whatever fails here leaves the executor without records. */
void record_open(struct gpu *gpu);
void record_close(struct gpu *gpu);
/* Bytes that the records hold. */
size_t record_bytes(const struct gpu *gpu);

#endif
