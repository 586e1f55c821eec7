/* SPDX-License-Identifier: Apache-2.0 */
/* Over how many blocks a kernel works on an operation. All ranks get the same answer for the same operation. */
#ifndef TUTTI_DEVICE_CUDA_LAUNCH_H
#define TUTTI_DEVICE_CUDA_LAUNCH_H

#include "device/cuda/kernels/kernels.h"

#include <stddef.h>

#define KERNEL_CLUSTER 4  /* blocks of a cluster */
#define KERNEL_FEW     32 /* blocks of a launch whose clusters may be so large; those of more have two each */

enum kernel_id {
    KERNEL_EXCHANGE,
    KERNEL_CHAIN,
    KERNEL_COURIER,
    KERNEL_MESSAGES,
    KERNEL_DYNAMIC,
    KERNEL_PUTS,
    KERNEL_GATHER,
    KERNEL_REDUCE_ONE,
    KERNEL_REDUCE_TWO,
    KERNEL_REDUCE_BULK,
    KERNEL_REDUCE_PEER,
    KERNEL_REDUCE_LINES,
    KERNEL_REDUCE_RING,
    KERNEL_REDUCE_LISTED,
    KERNEL_REDUCE_FOLDED, /* a courier, which reduces, too */
    KERNEL_COUNT,
    KERNEL_NONE = KERNEL_COUNT
};
#define KERNEL_FAMILIES (KERNEL_COUNT - KERNEL_REDUCE_ONE)

struct kernel_launch {
    enum kernel_id kernel;
    unsigned blocks, threads;
    size_t chunk;     /* of bulk kernels; 0: by the vector's length */
    uint32_t stripes; /* of kernels for small vectors */
};

/*
 * Blocks that a launch may have. A block may need a processor of the GPU for itself, and waits there for its peers: so
 * a launch must leave room for another one (kernel_room()). least: a launch with work for this number has no fewer
 * blocks for the sake of other kernels.
 */
struct kernel_room {
    unsigned least, most;
};

/*
 * Blocks of a cluster are on neighbouring processors of a GPU that can do that: they reach links up to a seventh faster
 * there than wherever there is room. few, more: blocks of a cluster of launches of up to KERNEL_FEW blocks, and of
 * more; 1: there are none. processors: how many can have blocks at once.
 */
struct kernel_clusters {
    unsigned processors, few, more;
};

/* For a GPU with `processors` processors. pairs, larger: how many clusters of two blocks, and of KERNEL_CLUSTER blocks,
 * the GPU can run at a time; 0: none. */
struct kernel_clusters kernel_clusters(unsigned processors, unsigned pairs, unsigned larger);

/* Blocks of a cluster of that launch. */
unsigned kernel_cluster_of(struct kernel_clusters clusters, unsigned blocks);

/* processors: how many processors of the GPUs can have blocks at once. least, most: what the user wants; 0: the
 * library's own numbers. */
struct kernel_room kernel_room(unsigned processors, unsigned least, unsigned most);

/* Deals the blocks out, too. At least one for each message, whatever the room is. Here ranks may differ. */
void kernel_choose_exchange(struct kernel_exchange *what, struct kernel_room room, bool in_host,
                            struct kernel_launch *out);

/* The most that a kernel takes: those of reductions in lines have slots for no more. */
unsigned kernel_most_blocks(enum kernel_id kernel, struct kernel_room room);

/* The same for all of a list, by all messages to and from each rank that have stripes of their own. */
void kernel_choose_messages(struct kernel_messages *what, struct kernel_room room, bool in_host,
                            struct kernel_launch *out);

/* By numbers that are the same on all ranks: nobody knows the lengths. */
void kernel_choose_dynamic(struct kernel_dynamic *what, struct kernel_room room, bool in_host,
                           struct kernel_launch *out);

/* bytes: of all copies. Ranks may differ. */
void kernel_choose_puts(uint64_t bytes, struct kernel_room room, struct kernel_launch *out);

void kernel_choose_chain(uint64_t bytes, struct kernel_room room, struct kernel_launch *out);

/* Most stripes of a team that the vectors of a list share out. Those of kernel listed are warps, of the others half
 * blocks.
 */
uint32_t kernel_list_width(enum kernel_id kernel, struct kernel_room room);

/* A launch for a list of `stripes` stripes. The launch has that number, or the list's width if that is less. */
void kernel_shape_list(enum kernel_id kernel, uint32_t stripes, struct kernel_room room, struct kernel_launch *out);

/* A vector of a list of kernel listed. part: bytes of an owner's part; vectors: of the group, taken to be
 * alike. */
void kernel_shape_lines(uint64_t part, uint32_t vectors, struct kernel_room room, struct kernel_launch *out);

/* bytes: of the vector that is worked on, of all blocks together. in_host: windows are in host memory. */
void kernel_shape_reduce(enum kernel_id kernel, size_t bytes, struct kernel_room room, bool in_host,
                         struct kernel_launch *out);

#endif
