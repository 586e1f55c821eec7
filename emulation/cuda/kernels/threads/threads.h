/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of one block, and what they meet at. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_THREADS_H
#define TUTTI_EMULATION_CUDA_KERNELS_THREADS_H

#include "cuda/kernels/cuda_kernels.h"
#include "device/cuda/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THREADS_MOST 64

/* As the hardware's barriers: `threads` of a block come to it, some of which wait for all. A thread that comes twice to one that
 * is not complete ends the program. */
void threads_meet(uint32_t id, uint32_t threads, bool waits);
bool threads_any(uint32_t id, uint32_t threads, bool yes);

/* Runs one block of so many threads to its end. */
void threads_run(void (*kernel)(struct kernel_reduce), const struct kernel_reduce *params, unsigned threads, unsigned grid, unsigned block);

extern __thread struct cuda_index cuda_thread_index;
extern struct cuda_index cuda_block_size;

void threads_reduce_bulk_int32(struct kernel_reduce what);
void threads_reduce_bulk_bfloat16(struct kernel_reduce what);
#define THREADS_LL 8 /* threads of the next two, and no other number */
void threads_reduce_one_int32(struct kernel_reduce what);
void threads_reduce_two_int32(struct kernel_reduce what);

#ifdef __cplusplus
}
#endif

#endif
