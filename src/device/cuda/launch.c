/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel choice. The limits were measured on four H200 of one host; see docs/device-cuda.md. */
#include "device/cuda/launch.h"

#define ONE_SHOT_BYTES ((size_t)256 << 10) /* that all ranks together send to one: above, the copies cost more than a second hop */
#define TWO_SHOT_BYTES ((size_t)512 << 10) /* of the vector: above, flags in every word cost more than fences */
#define ONE_SHOT_EACH  KERNEL_LL_BYTES     /* of a block */
#define TWO_SHOT_EACH  ((size_t)4 << 10)
#define BULK_EACH      ((size_t)32 << 10)
#define BULK_SHORT     ((size_t)16 << 20) /* up to which all stripes are used */
#define BULK_BLOCKS    32                 /* for longer ones: as fast, and more of the GPU is left */
#define HOST_ONE_SHOT  ((size_t)2 << 10)   /* the same, through host memory: every look at a flag there takes a microsecond or two */
#define HOST_EACH      ((size_t)128 << 10)
#define HOST_LEAST     4
#define HOST_BLOCKS    16
#define HOST_SHORT     ((size_t)1 << 20) /* up to which chunks are as short as: */
#define HOST_CHUNK     ((size_t)16 << 10)
#define DIRECT_EACH    ((size_t)16 << 10)
#define DIRECT_SHORT   ((size_t)32 << 20) /* up to which all stripes are used: it is soon over */
#define DIRECT_BLOCKS  32                 /* for longer ones */

static unsigned blocks(size_t bytes, size_t each, unsigned most)
{
    size_t wanted = bytes / each + (bytes % each != 0);
    if (wanted > most)
        wanted = most;
    return wanted ? (unsigned)wanted : 1;
}

/* 0: the user left it to the library. */
static unsigned stripes(unsigned most_blocks)
{
    return most_blocks && most_blocks < KERNEL_STRIPES ? most_blocks : KERNEL_STRIPES;
}

void kernel_shape_reduce(enum kernel_id kernel, size_t bytes, unsigned most_blocks, struct kernel_launch *out)
{
    const unsigned most = stripes(most_blocks);
    *out = (struct kernel_launch){.kernel = kernel, .grid = {1, 1}, .threads = KERNEL_LL_THREADS};
    if (kernel == KERNEL_REDUCE_ONE) {
        out->grid[0] = blocks(bytes, ONE_SHOT_EACH, most);
    } else if (kernel == KERNEL_REDUCE_TWO) {
        out->grid[0] = blocks(bytes, TWO_SHOT_EACH, most);
    } else if (kernel == KERNEL_REDUCE_DIRECT) {
        out->grid[0] = blocks(bytes, DIRECT_EACH, most_blocks || bytes <= DIRECT_SHORT ? most : DIRECT_BLOCKS);
        out->threads = KERNEL_DIRECT_THREADS;
    } else {
        out->grid[0] = blocks(bytes, BULK_EACH, most_blocks || bytes <= BULK_SHORT ? most : BULK_BLOCKS);
        out->threads = KERNEL_BULK_THREADS;
    }
}

static unsigned larger(unsigned x, unsigned y)
{
    return x > y ? x : y;
}

static void choose_in_host(size_t bytes, unsigned most_blocks, struct kernel_launch *out)
{
    if (bytes <= HOST_ONE_SHOT) {
        kernel_shape_reduce(KERNEL_REDUCE_ONE, bytes, most_blocks, out);
        return;
    }
    kernel_shape_reduce(KERNEL_REDUCE_BULK, bytes, most_blocks, out);
    if (!most_blocks)
        out->grid[0] = larger(blocks(bytes, HOST_EACH, HOST_BLOCKS), HOST_LEAST);
    out->chunk = bytes <= HOST_SHORT ? HOST_CHUNK : 2 * HOST_CHUNK;
}

void kernel_choose_reduce(enum kernel_mode mode, int nranks, size_t bytes, unsigned most_blocks, bool in_host, struct kernel_launch *out)
{
    enum kernel_id kernel = KERNEL_REDUCE_BULK;
    if (in_host) {
        choose_in_host(bytes, most_blocks, out);
        return;
    }
    if (mode != KERNEL_REDUCE_OWN && bytes <= ONE_SHOT_BYTES / (size_t)nranks)
        kernel = KERNEL_REDUCE_ONE;
    else if ((mode == KERNEL_ALLREDUCE || mode == KERNEL_REDUCE) && bytes <= TWO_SHOT_BYTES)
        kernel = KERNEL_REDUCE_TWO;
    kernel_shape_reduce(kernel, bytes, most_blocks, out);
}

void kernel_choose_exchange(const struct kernel_exchange *what, struct kernel_launch *out)
{
    uint32_t stripes = 1;
    for (int p = 0; p < what->team.nranks; p++) {
        const uint32_t sent = kernel_exchange_stripes(what, what->send_bytes[p]);
        const uint32_t received = kernel_exchange_stripes(what, what->recv_bytes[p]);
        stripes = sent > stripes ? sent : stripes;
        stripes = received > stripes ? received : stripes;
    }
    *out = (struct kernel_launch){
        .kernel = KERNEL_EXCHANGE, .grid = {stripes, (unsigned)what->team.nranks}, .threads = KERNEL_EXCHANGE_THREADS};
}

void kernel_choose_chain(uint64_t bytes, unsigned most_blocks, struct kernel_launch *out)
{
    *out = (struct kernel_launch){
        .kernel = KERNEL_CHAIN, .grid = {blocks(bytes, KERNEL_CHAIN_EACH, stripes(most_blocks)), 1}, .threads = KERNEL_CHAIN_THREADS};
}
