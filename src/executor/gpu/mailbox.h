/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the ranks of a GPU executor share: words that streams wait for, posts of buffers, news of peers. */
#ifndef TUTTI_EXECUTOR_GPU_MAILBOX_H
#define TUTTI_EXECUTOR_GPU_MAILBOX_H

#include "device/cuda/memory.h"

#include "base/cpu.h"
#include "device/cuda/kernels/kernels.h"
#include "executor/stream/ticket.h"
#include "tutti/tutti.h"
#include "wire/link.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MAILBOX_SPARE  4096 /* bytes behind a window that only its owner touches: where barriers send from and to */
#define MAILBOX_POSTS  64   /* messages of one pair for which only one end's call has come */
#define MAILBOX_OFFERS KERNEL_OFFERS
#define MAILBOX_DEPTH  2   /* pieces of a staged message that are under way */
#define MAILBOX_STEPS  256 /* operations of a rank of which the mailbox tells what they need */

/* Memory of one process, as another can find it. */
struct mailbox_buffer {
    struct cuda_handle handle;
    uint64_t address; /* in its owner's process */
    uint64_t base;    /* of its allocation there */
};

/* How a message goes; the end whose call comes first decides. */
enum mailbox_way {
    MAILBOX_HERE,   /* both ends live in one process: `address` is good for both */
    MAILBOX_MAPPED, /* `address` counts from where the peer has mapped the offer */
    MAILBOX_STAGED  /* through the receiver's scratch, which everybody has mapped from the start */
};

/* A message of the same sender that is to be copied first. */
struct mailbox_turn {
    uint32_t number; /* 0: none */
    uint16_t to;
    uint16_t pulled; /* its receiver copies it */
};

/* One end of a message: where its data are, or are to go. */
struct mailbox_post {
    uint64_t address, bytes;
    uint64_t context; /* MAILBOX_HERE: of its GPU */
    uint32_t way, offer;
    uint32_t reached;          /* MAILBOX_HERE: by all GPUs of the process */
    struct mailbox_turn after; /* told by the sender */
};

/* From one rank to another. Streams write and wait for the words; each has one writer, and only grows. */
struct mailbox_pair {
    /* numbers of messages */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_send; /* the sender's stream has come to it */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_recv; /* the receiver's stream */
    _Alignas(CACHE_LINE) _Atomic uint32_t pushed;  /* the sender has copied the message */
    _Alignas(CACHE_LINE) _Atomic uint32_t pulled;  /* the receiver has copied it */
    /* numbers of pieces of staged messages */
    _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
    _Alignas(CACHE_LINE) _Atomic uint32_t freed;
    /* for the end that copies: the [0] sender's, [1] receiver's stream has come to the message. This and the next count
     * since some rank has captured an operation */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_copy[2];
    /* to the last piece of a staged message the [0] sender's, [1] receiver's stream has come */
    _Alignas(CACHE_LINE) _Atomic uint32_t at_pieces[2];
    /* of windows: signals that the sender's stream has raised, by number; the last of its calls whose puts and gets are
     * over */
    _Alignas(CACHE_LINE) _Atomic uint32_t raised[TUTTI_SIGNALS];
    _Alignas(CACHE_LINE) _Atomic uint32_t put;
    /* where graphs have calls on windows: signals that the receiver's kernels have waited for */
    _Alignas(CACHE_LINE) _Atomic uint32_t taken[TUTTI_SIGNALS];
    /* hosts: the last call whose puts and gets lie in a stream, which will tell of them by `put`; signals called for.
     * Where graphs have calls on windows: a kernel that puts or gets has begun */
    _Alignas(CACHE_LINE) _Atomic uint32_t putting;
    _Atomic uint32_t signalled[TUTTI_SIGNALS];
    /* hosts: messages dealt with by the [0] sender's, [1] receiver's calls */
    _Alignas(CACHE_LINE) _Atomic uint32_t called[2];
    /* of those, and of pieces, the last whose copy lies in a stream, which will tell of it by `pushed`, `pulled`,
     * `arrived` */
    _Atomic uint32_t pushing, pulling, arriving;
    /* pushed, pulled, arrived: a rank that departed has let streams go that wait for more than was done; what was done:
     * 1 << 32 | number */
    _Atomic uint64_t let_go[3];
    _Atomic uint64_t first[MAILBOX_POSTS]; /* number << 1 | the end that came first */
    struct mailbox_post post[2][MAILBOX_POSTS];
};

/* A buffer that its owner lets a peer map. Written by the owner only when the last one was answered. */
struct mailbox_offer {
    _Atomic uint32_t number;      /* stored last; 0: none */
    _Atomic uint32_t answer;      /* number << 1 | 1: mapped; | 0: not */
    _Atomic uint32_t invited;     /* the number with which kernels of the owner invite the peer's to it */
    uint64_t key;                 /* of its descriptor; 0: it needs none */
    struct mailbox_buffer buffer; /* handle.how 0: the peer is to close what it had */
};

/* An operation of a rank, outside of graphs: what it needs of others, and what they may need of it. */
struct mailbox_step {
    uint32_t ticket;
    uint32_t collectives, sent[KERNEL_RANKS],
        received[KERNEL_RANKS]; /* this rank's calls up to this one; messages to and from each rank */
    uint32_t involves,
        expects;         /* bits of ranks: it tells them something, or they it; it cannot end before they have sent */
    uint32_t collective; /* 0: messages */
    uint32_t kernel;     /* the last is a kernel, which can be asked whether it waits */
    uint32_t reads;      /* ticket of its launch that no graph's goes with: it reads contributions, or they go round and
                            copy engines carry the results; 0: it has none */
    uint32_t waits;      /* for signals: mailbox->awaited has which. `expects` are their ranks */
    uint32_t whole;      /* 0: its call failed half way */
    uint32_t signalled[KERNEL_RANKS]; /* this rank's calls up to this one: signals to each rank */
};

/* Signals that a rank's step waits for. */
struct mailbox_awaited {
    uint8_t numbers[KERNEL_RANKS]; /* bits of signals, by rank */
    uint32_t value[KERNEL_RANKS][TUTTI_SIGNALS];
};

/* Why a rank takes part no more. */
enum mailbox_cause { MAILBOX_CLOSED, MAILBOX_ABORTED, MAILBOX_LOST };

struct mailbox_rank {
    _Alignas(
        CACHE_LINE) _Atomic uint32_t abort; /* KERNEL_GIVE_UP, KERNEL_ASKED: what is wanted of this rank's kernels */
    _Atomic uint32_t over;                  /* the ticket of the last operation that is over */
    _Atomic uint32_t waits[KERNEL_RANKS];   /* the answer of a kernel that was asked: for whom it waits */
    /* what kernels have found wrong in a rank's lengths (struct kernel_wrong): the kind, which is stored last; at,
     * value */
    _Atomic uint32_t wrong[KERNEL_RANKS][4];
    _Alignas(CACHE_LINE) struct ticket_times times[KERNEL_TIMES]; /* of the launch with this ticket */
    _Alignas(CACHE_LINE) _Atomic uint32_t bell; /* grows with news for this rank's helper, which sleeps on it */
    _Atomic uint32_t closed;   /* it writes to no peer's memory any more; MAILBOX_REAPED: as another rank says of a lost
                                  one */
    _Atomic uint32_t unmapped; /* it has unmapped all peers' memory, or was lost */
    _Atomic uint32_t gone;     /* its process was lost, as some rank noticed */
    _Atomic uint32_t shut;     /* nothing is to be put into its windows any more */
    _Atomic uint32_t has_bulk; /* it has made its bulk */
    struct mailbox_buffer bulk;
    _Atomic uint32_t issuing; /* a call is: its step comes when it returns */
    _Atomic uint64_t issued;  /* steps */
    struct mailbox_step step[MAILBOX_STEPS];
    _Atomic uint32_t left;            /* it has parted from the others: what it has not finished it will not */
    uint32_t limit;                   /* the ticket of the last operation that it has finished then */
    int32_t culprit;                  /* the rank for which it parted: itself, or another one that had gone */
    _Atomic uint32_t asked, answered; /* how often others have asked whether its process lives; what it has answered */
    uint32_t cause;                   /* and why that one had: enum mailbox_cause */
};

#define MAILBOX_REAPED 2

/* Where kernels look for them (kernel_team.abort). */
_Static_assert(offsetof(struct mailbox_rank, over) == offsetof(struct mailbox_rank, abort) + 4 * KERNEL_OVER,
               "a kernel's ticket");
_Static_assert(offsetof(struct mailbox_rank, waits) == offsetof(struct mailbox_rank, abort) + 4 * KERNEL_WAITS,
               "a kernel's answer");
_Static_assert(offsetof(struct mailbox_rank, wrong) == offsetof(struct mailbox_rank, abort) + 4 * KERNEL_WRONG,
               "a kernel's complaint");
_Static_assert(sizeof(struct kernel_wrong) == 4 * 4, "as it is read");

/* What some rank's team failed of: a rank whose links are idle or gone hears of it here. */
struct mailbox_failure {
    _Atomic uint32_t state; /* 0: none; 1: being written; 2: told */
    struct wire_abort news;
};

struct mailbox {
    struct mailbox_failure failure;
    _Atomic uint32_t captured; /* some rank has captured an operation */
    struct mailbox_rank rank[KERNEL_RANKS];
    struct mailbox_pair pair[KERNEL_RANKS][KERNEL_RANKS]; /* [from][to] */
    _Atomic uint32_t offers[KERNEL_RANKS][KERNEL_RANKS];  /* of these, the places that were ever used. Hosts alone look
                                                             at them: they are not pinned */
    struct mailbox_offer offer[KERNEL_RANKS][KERNEL_RANKS][MAILBOX_OFFERS]; /* [owner][who may map it] */
    struct mailbox_awaited awaited[KERNEL_RANKS][MAILBOX_STEPS];            /* by rank and step */
    /* windows follow, where GPUs cannot write to one another's memory */
};

/* What streams and kernels look at, in whole pages. */
#define MAILBOX_PINNED ((offsetof(struct mailbox, offers) + 65535) / 65536 * 65536)

/* Windows in host memory: where rank's begins, and its bulk. */
size_t mailbox_size(int nranks);
size_t mailbox_window(int nranks, int rank);
size_t mailbox_bulk(int nranks, int rank);

tutti_result_t mailbox_create(int nranks, int *fd);
tutti_result_t mailbox_map(int fd, int nranks, struct mailbox **out);
void mailbox_unmap(struct mailbox *mailbox, int nranks);
void mailbox_ring(struct mailbox_rank *rank);
void mailbox_ring_others(struct mailbox_rank *ranks, int nranks, int rank);
/* Asks this rank's kernels for whom they wait, anew. The answer so far: bits of ranks. */
void mailbox_ask(struct mailbox_rank *mine);
uint32_t mailbox_answer(const struct mailbox_rank *mine);
void mailbox_ask_no_more(struct mailbox_rank *mine);
/* Of a rank's GPU: has the launch with that ticket begun? The ticket of the last operation that is over. */
bool mailbox_has_begun(const struct mailbox_rank *rank, uint32_t ticket);
uint32_t mailbox_over(const struct mailbox_rank *rank);

#endif
