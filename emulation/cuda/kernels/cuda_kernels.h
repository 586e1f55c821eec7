/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels for CUDA, compiled for the CPU from the same sources. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_CUDA_KERNELS_H
#define TUTTI_EMULATION_CUDA_KERNELS_CUDA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_index {
    unsigned x, y, z;
};

struct cuda_kernel {
    const char *name; /* as in the module */
    size_t size;      /* bytes of its one parameter */
    void (*run)(const void *params);
};

/* NULL: there is none. */
const struct cuda_kernel *cuda_kernel_find(const char *name);

/*
 * Runs one block to its end, in the calling thread; the block waits (yielding the processor) for blocks of other ranks.
 * The blocks of one launch may run one after the other in ascending order (x first, then y). They may also run in any
 * number of threads at once if they start in that order. Launches of different ranks must run at the same time, in
 * threads of their own.
 */
void cuda_kernel_run_block(const struct cuda_kernel *kernel, const void *params, struct cuda_index grid,
                           struct cuda_index block);

/* What the calling thread's block is; for the kernels. */
extern __thread struct cuda_index cuda_grid, cuda_block_index;

/* Each kernel waits for what is in front of it in its stream, beside whose end it may be launched: one that does not
 * ends the program. */
extern __thread bool cuda_kernel_has_waited;

#ifdef __cplusplus
}
#endif

#endif
