/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the ranks of a fabric share: words that streams wait for, posts of receive buffers, news of peers. */
#ifndef TUTTI_FABRIC_BOARD_H
#define TUTTI_FABRIC_BOARD_H

#include "device/cuda/memory.h"

#include "base/cpu.h"
#include "device/cuda/kernels/kernels.h"

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_SPARE 4096 /* bytes behind a window that only its owner touches: where barriers send from and to */
#define BOARD_POSTS 64 /* receives of one pair that its sender has not taken yet */

/* Memory of one process, as another can find it. */
struct board_buffer {
    struct cuda_handle handle;
    uint64_t address; /* in its owner's process */
    uint64_t base;    /* of its allocation there */
};

/* A receive buffer, for the sender to write to. */
struct board_post {
    _Atomic uint32_t sequence; /* stored last */
    struct board_buffer buffer;
    uint64_t bytes;
};

/* From one rank to another. Streams write and wait for the first two. */
struct board_pair {
    _Alignas(CACHE_LINE) _Atomic uint32_t ready; /* by the receiver's stream: it has come to this receive */
    _Alignas(CACHE_LINE) _Atomic uint32_t done;  /* by the sender's stream: the data of this send is there */
    _Alignas(CACHE_LINE) _Atomic uint32_t taken; /* by the sender's host: this post may be overwritten */
    struct board_post post[BOARD_POSTS];
};

struct board_rank {
    _Alignas(CACHE_LINE) _Atomic uint32_t abort; /* kernels of this rank leave */
    _Alignas(CACHE_LINE) _Atomic uint32_t bell;  /* grows with news for this rank's helper, which sleeps on it */
    _Atomic uint32_t closed;                     /* it writes to no peer's memory any more */
    _Atomic uint32_t gone;                       /* its process was lost, as some rank noticed */
    _Atomic uint32_t has_bulk;
    struct board_buffer bulk;
};

struct board {
    struct board_rank rank[KERNEL_RANKS];
    struct board_pair pair[KERNEL_RANKS][KERNEL_RANKS]; /* [from][to] */
    /* windows follow, where GPUs cannot write to one another's memory */
};

/* Windows in host memory: where rank's begins, and its bulk. */
size_t board_size(int nranks);
size_t board_window(int nranks, int rank);
size_t board_bulk(int nranks, int rank);

tutti_result_t board_map(int fd, int nranks, struct board **out);
void board_unmap(struct board *board, int nranks);
void board_ring(struct board *board, int rank);

#endif
