/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory of this rank's user peers are let store to, call by call. */
#ifndef TUTTI_EXECUTOR_GPU_OPENED_H
#define TUTTI_EXECUTOR_GPU_OPENED_H

#include <stdint.h>

struct gpu;

/* Memory of this rank's user that peers may store to in a step: bytes, and where the first of it begins. `given`: these
 * ranks know where, for good; `invited`: what they know is taken back when this rank gives up. */
struct opened {
    uint64_t begin, bytes;
    uint32_t given, invited;
};

/* Of the call that is being issued: it begins; where peers are let store. */
void opened_call(struct gpu *gpu);
void opened_given(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes);
void opened_invited(struct gpu *gpu, uint32_t ranks, const void *memory, uint64_t bytes);
/* The call has become that step. */
void opened_issued(struct gpu *gpu, uint64_t step);

#endif
