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

/* As the hardware's barriers: `threads` of a block come to it, some of which wait for all. A thread that comes twice to
 * one that is not complete ends the program. */
void threads_meet(uint32_t id, uint32_t threads, bool waits);
bool threads_any(uint32_t id, uint32_t threads, bool yes);

/* Runs one block of `threads` threads to its end. */
typedef void threads_kernel(const void *params);
void threads_run(threads_kernel *kernel, const void *params, unsigned threads, struct cuda_index grid,
                 struct cuda_index block);

extern __thread struct cuda_index cuda_thread_index;
extern struct cuda_index cuda_block_size;

threads_kernel threads_exchange, threads_exchange_dynamic, threads_messages, threads_reduce_bulk_int32,
    threads_reduce_bulk_bfloat16, threads_reduce_lines_int32, threads_reduce_ring_int32;
#define THREADS_LL 8 /* threads of the next two, or twice as many */
threads_kernel threads_reduce_one_int32, threads_reduce_two_int32;

#ifdef __cplusplus
}
#endif

#endif
