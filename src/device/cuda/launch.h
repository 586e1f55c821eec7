/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel carries an operation, and over how many blocks. All ranks get the same answer for the same operation. */
#ifndef TUTTI_DEVICE_CUDA_LAUNCH_H
#define TUTTI_DEVICE_CUDA_LAUNCH_H

#include "device/cuda/kernels/kernels.h"

#include <stddef.h>

enum kernel_id { KERNEL_EXCHANGE, KERNEL_CHAIN, KERNEL_REDUCE_ONE, KERNEL_REDUCE_TWO, KERNEL_REDUCE_BULK, KERNEL_REDUCE_DIRECT, KERNEL_COUNT };
#define KERNEL_FAMILIES (KERNEL_COUNT - KERNEL_REDUCE_ONE)

struct kernel_launch {
    enum kernel_id kernel;
    unsigned grid[2], threads;
    size_t chunk; /* of bulk kernels; 0: by the vector's length */
};

/*
 * bytes: of the vector (allreduce, reduce) or of one rank's block (reduce-scatter). most_blocks: the most that any launch may
 * have; 0: as many as are fastest. in_host: windows are in host memory.
 */
void kernel_choose_reduce(enum kernel_mode mode, int nranks, size_t bytes, unsigned most_blocks, bool in_host, struct kernel_launch *out);

/* One row of blocks for each rank, as wide as the longest message of this rank needs: here ranks may differ. */
void kernel_choose_exchange(const struct kernel_exchange *what, struct kernel_launch *out);

/* most_blocks: as above. */
void kernel_choose_chain(uint64_t bytes, unsigned most_blocks, struct kernel_launch *out);

/* The launch of a given reduction kernel. */
void kernel_shape_reduce(enum kernel_id kernel, size_t bytes, unsigned most_blocks, struct kernel_launch *out);

#endif
