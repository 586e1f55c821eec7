/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the ranks of a fabric share: words that streams wait for, posts of buffers, news of peers. */
#ifndef TUTTI_FABRIC_BOARD_H
#define TUTTI_FABRIC_BOARD_H

#include "device/cuda/memory.h"

#include "base/cpu.h"
#include "device/cuda/kernels/kernels.h"
#include "wire/link.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define BOARD_SPARE 4096 /* bytes behind a window that only its owner touches: where barriers send from and to */
#define BOARD_POSTS 64 /* messages of one pair for which only one end's call has come */
#define BOARD_OFFERS 512 /* buffers of a rank that a peer may have mapped at a time */
#define BOARD_DEPTH 2  /* pieces of a staged message that are under way */
#define BOARD_STEPS 256 /* operations of a rank of which the board tells what they need */

/* Memory of one process, as another can find it. */
struct board_buffer {
    struct cuda_handle handle;
    uint64_t address; /* in its owner's process */
    uint64_t base;    /* of its allocation there */
};

/* How a message goes; the end whose call comes first decides. */
enum board_way {
    BOARD_HERE,   /* both ends live in one process: `address` is good for both */
    BOARD_MAPPED, /* `address` counts from where the peer has mapped the offer */
    BOARD_STAGED  /* through the receiver's scratch, which everybody has mapped from the start */
};

/* A message of the same sender that is to be copied first. */
struct board_turn {
    uint32_t number; /* 0: none */
    uint16_t to;
    uint16_t pulled; /* its receiver copies it */
};

/* One end of a message: where its data are, or are to go. */
struct board_post {
    uint64_t address, bytes;
    uint64_t context; /* BOARD_HERE: of its GPU */
    uint32_t way, offer;
    uint32_t reached; /* BOARD_HERE: by all GPUs of the process */
    struct board_turn after; /* told by the sender */
};

/* From one rank to another. Streams write and wait for the words; each has one writer, and only grows. */
struct board_pair {
    /* numbers of messages */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_send; /* the sender's stream has come to it */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_recv; /* the receiver's stream */
    _Alignas(CACHE_LINE) _Atomic uint32_t pushed;  /* the sender has copied it */
    _Alignas(CACHE_LINE) _Atomic uint32_t pulled;  /* the receiver has */
    /* numbers of pieces of staged messages */
    _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
    _Alignas(CACHE_LINE) _Atomic uint32_t freed;
    /* hosts: messages dealt with by the [0] sender's, [1] receiver's calls */
    _Alignas(CACHE_LINE) _Atomic uint32_t called[2];
    /* of those, and of pieces, the last whose copy lies in a stream, which will tell of it by `pushed`, `pulled`, `arrived` */
    _Atomic uint32_t pushing, pulling, arriving;
    /* pushed, pulled, arrived: whether a rank that departed let go who waits for more than was done, and what was done: 1 << 32 | number */
    _Atomic uint64_t let_go[3];
    _Atomic uint64_t first[BOARD_POSTS]; /* number << 1 | the end that came first */
    struct board_post post[2][BOARD_POSTS];
};

/* A buffer that its owner lets a peer map. Written by the owner only when the last one was answered. */
struct board_offer {
    _Atomic uint32_t number; /* stored last; 0: none */
    _Atomic uint32_t answer; /* number << 1 | 1: mapped; | 0: not */
    uint64_t key;            /* of its descriptor; 0: it needs none */
    struct board_buffer buffer; /* handle.how 0: the peer is to close what it had */
};

/* An operation of a rank, outside of graphs: what it needs of others, and what they may need of it. */
struct board_step {
    uint32_t ticket;
    uint32_t collectives, sent[KERNEL_RANKS], received[KERNEL_RANKS]; /* this rank's calls up to this one; messages to and from each rank */
    uint32_t involves, expects; /* bits of ranks: it tells them something, or they it; it cannot end before they have sent */
    uint32_t collective;        /* 0: messages */
    uint32_t kernel;            /* a kernel comes last, which can be asked whether it waits */
    uint32_t whole;             /* 0: its call failed half way */
};

/* Why a rank takes part no more. */
enum board_cause { BOARD_CLOSED, BOARD_ABORTED, BOARD_LOST };

struct board_rank {
    _Alignas(CACHE_LINE) _Atomic uint32_t abort; /* KERNEL_GIVE_UP, KERNEL_ASKED: what is wanted of this rank's kernels */
    _Atomic uint32_t waits;                      /* behind it: the answer of a kernel that was asked */
    _Atomic uint32_t over;                       /* behind that: the ticket of the last operation that is over */
    _Alignas(CACHE_LINE) _Atomic uint32_t bell;  /* grows with news for this rank's helper, which sleeps on it */
    _Atomic uint32_t closed;                     /* it writes to no peer's memory any more; BOARD_BURIED: as another rank says of a lost one */
    _Atomic uint32_t gone;                       /* its process was lost, as some rank noticed */
    _Atomic uint32_t has_bulk;                   /* it has made its bulk */
    struct board_buffer bulk;
    _Atomic uint64_t issued;                     /* steps */
    struct board_step step[BOARD_STEPS];
    _Atomic uint32_t left;                       /* it has parted from the others: what it has not finished it will not */
    uint32_t limit;                              /* the ticket of the last operation that it has finished then */
    int32_t culprit;                             /* who made it part: itself, or another one that had gone */
    uint32_t cause;                              /* and why that one had: enum board_cause */
};

#define BOARD_BURIED 2

/* Where kernels look for them (kernel_team.abort). */
_Static_assert(offsetof(struct board_rank, waits) == offsetof(struct board_rank, abort) + 4, "a kernel's answer");
_Static_assert(offsetof(struct board_rank, over) == offsetof(struct board_rank, abort) + 8, "a kernel's ticket");

/* What some rank's team failed of: who hears of it by nothing else, as its links may be idle or gone, hears of it here. */
struct board_failure {
    _Atomic uint32_t state; /* 0: none; 1: being written; 2: told */
    struct wire_abort news;
};

struct board {
    struct board_failure failure;
    struct board_rank rank[KERNEL_RANKS];
    struct board_pair pair[KERNEL_RANKS][KERNEL_RANKS]; /* [from][to] */
    _Atomic uint32_t offers[KERNEL_RANKS][KERNEL_RANKS]; /* of these, the places that were ever used. Hosts alone look at them: they are not pinned */
    struct board_offer offer[KERNEL_RANKS][KERNEL_RANKS][BOARD_OFFERS]; /* [owner][who may map it] */
    /* windows follow, where GPUs cannot write to one another's memory */
};

/* What streams and kernels look at, in whole pages. */
#define BOARD_PINNED ((offsetof(struct board, offers) + 65535) / 65536 * 65536)

/* Windows in host memory: where rank's begins, and its bulk. */
size_t board_size(int nranks);
size_t board_window(int nranks, int rank);
size_t board_bulk(int nranks, int rank);

tutti_result_t board_map(int fd, int nranks, struct board **out);
void board_unmap(struct board *board, int nranks);
void board_ring(struct board *board, int rank);

#endif
