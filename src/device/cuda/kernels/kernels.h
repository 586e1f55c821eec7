/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library and the kernels for CUDA agree on: parameters, sizes, names. Read by C and by CUDA. Every kernel takes one
 * of these structs by value. What lies inside a window is the kernels' own business (window.cuh).
 */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_KERNELS_H
#define TUTTI_DEVICE_CUDA_KERNELS_KERNELS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define KERNEL_SHARED static __host__ __device__ inline
#else
#define KERNEL_SHARED static inline
#endif

#define KERNEL_RANKS            8  /* most ranks of a team */
#define KERNEL_STRIPES          64 /* most blocks that a pair of ranks, or a reduction, is spread over */
#define KERNEL_LL_BYTES         2048
#define KERNEL_LL_THREADS       256
#define KERNEL_BULK_THREADS     512
#define KERNEL_BULK_DEPTH       4                    /* slots of a channel, which hold successive chunks; 3 or more */
#define KERNEL_BULK_BYTES       ((uint64_t)1 << 20)  /* of one source in one slot, shared by the blocks of a launch */
#define KERNEL_BULK_LEAST       ((uint64_t)16 << 10) /* a chunk is not cut smaller than this for the sake of overlap */
#define KERNEL_BULK_BLOCKS      32                   /* by default, for long ones */
#define KERNEL_CONTROL_BYTES    ((uint64_t)32 << 10) /* the words of a window */
#define KERNEL_EXCHANGE_BYTES   ((uint64_t)4 << 10)  /* of a short message for each of its stripes */
#define KERNEL_EXCHANGE_MOST    32                   /* stripes of a message */
#define KERNEL_EXCHANGE_THREADS 512
#define KERNEL_PLAIN_FROM       ((uint64_t)128 << 10) /* messages without a flag in every word, by default */
#define KERNEL_PLAIN_EACH       ((uint64_t)8 << 10)   /* of such a message for each of its stripes */
#define KERNEL_PLAIN_BYTES      ((uint64_t)16 << 10)  /* of its chunks */

enum kernel_mode { KERNEL_ALLREDUCE, KERNEL_REDUCE_SCATTER, KERNEL_REDUCE };

/*
 * Who takes part. window[p], bulk[p]: rank p's memory as this rank addresses it, aligned to 256 bytes and zeroed before the
 * first kernel of any rank; bulk is needed by the bulk kernels alone. *abort: not 0 once the kernels must give up (NULL: never).
 */
struct kernel_team {
    int32_t rank, nranks;
    const uint32_t *abort;
    unsigned char *window[KERNEL_RANKS];
    unsigned char *bulk[KERNEL_RANKS];
};

/*
 * in, out: as the collective defines them; a reduce-scatter's in holds nranks blocks of count elements. out may be in (the own
 * block of in, for a reduce-scatter), and is not touched on ranks that a reduce gives nothing. premul: each contribution is first
 * multiplied by one element, at *scalar_at in device memory or, where that is NULL, in the low bytes of scalar.
 */
struct kernel_reduce {
    struct kernel_team team;
    const void *in;
    void *out;
    uint64_t count;
    int32_t mode, root, op, premul;
    uint64_t scalar;
    const void *scalar_at;
};

/*
 * To and from every rank, this one included (a copy; both sizes are then the same). Sizes may be 0, and pointers then NULL.
 * Messages of plain_from bytes (0: KERNEL_PLAIN_FROM) or more go as plain data; it is the same on all ranks.
 */
struct kernel_exchange {
    struct kernel_team team;
    const void *send[KERNEL_RANKS];
    void *recv[KERNEL_RANKS];
    uint64_t send_bytes[KERNEL_RANKS], recv_bytes[KERNEL_RANKS];
    uint64_t plain_from;
};

/* X(type, name): names of kernels end in these, which are type_name()'s. */
#define KERNEL_INTEGERS(X)                                                                                                    \
    X(TUTTI_INT8, int8)                                                                                                       \
    X(TUTTI_UINT8, uint8)                                                                                                     \
    X(TUTTI_INT32, int32)                                                                                                     \
    X(TUTTI_UINT32, uint32)                                                                                                   \
    X(TUTTI_INT64, int64)                                                                                                     \
    X(TUTTI_UINT64, uint64)
#define KERNEL_FLOATS(X)                                                                                                      \
    X(TUTTI_FLOAT16, half)                                                                                                    \
    X(TUTTI_FLOAT32, float)                                                                                                   \
    X(TUTTI_FLOAT64, double)                                                                                                  \
    X(TUTTI_BFLOAT16, bfloat16)                                                                                               \
    X(TUTTI_FLOAT8_E4M3, f8e4m3)                                                                                              \
    X(TUTTI_FLOAT8_E5M2, f8e5m2)

/* Bytes of the scratch of the bulk kernels in each rank's device memory: two families, every source but the own. */
KERNEL_SHARED uint64_t kernel_bulk_bytes(int nranks)
{
    return 2 * (uint64_t)(nranks > 1 ? nranks - 1 : 0) * KERNEL_BULK_DEPTH * KERNEL_BULK_BYTES;
}

/* Chunks of plain data that a sender may be ahead of the receiver: with many peers each link needs less in flight. */
KERNEL_SHARED uint32_t kernel_plain_depth(int nranks)
{
    return nranks <= 4 ? 4 : 2;
}

/* Bytes of a window: its words, and for every source room for short messages and for plain data. */
KERNEL_SHARED uint64_t kernel_window_bytes(int nranks)
{
    const uint64_t words = 2 * 2 * (uint64_t)KERNEL_STRIPES * KERNEL_LL_BYTES;
    const uint64_t plain = (uint64_t)KERNEL_EXCHANGE_MOST * kernel_plain_depth(nranks) * KERNEL_PLAIN_BYTES;
    return KERNEL_CONTROL_BYTES + (uint64_t)(nranks > 1 ? nranks - 1 : 0) * (words + plain);
}

/* Both ends of a message compute these from its size: is it plain data, and over how many stripes is it spread? */
KERNEL_SHARED bool kernel_exchange_plain(uint64_t bytes, uint64_t plain_from)
{
    return bytes >= (plain_from ? plain_from : KERNEL_PLAIN_FROM);
}

KERNEL_SHARED uint32_t kernel_exchange_stripes(uint64_t bytes, uint64_t plain_from)
{
    const uint64_t each = kernel_exchange_plain(bytes, plain_from) ? KERNEL_PLAIN_EACH : KERNEL_EXCHANGE_BYTES;
    const uint64_t stripes = bytes / each + (bytes % each != 0);
    return stripes < KERNEL_EXCHANGE_MOST ? (uint32_t)stripes : KERNEL_EXCHANGE_MOST;
}

#endif
