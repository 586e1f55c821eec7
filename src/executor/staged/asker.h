/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU's streams ask of the windows of other hosts: a thread carries it out when the stream has come to it, and
 * streams wait for the thread by words of pinned memory. */
#ifndef TUTTI_EXECUTOR_STAGED_ASKER_H
#define TUTTI_EXECUTOR_STAGED_ASKER_H

#include "base/thread.h"
#include "device/cuda/driver.h"
#include "engine/puts.h"

#include <pthread.h>
#include <stdatomic.h>

/* Words in pinned memory: numbers, which only grow. */
struct asker_words {
    _Atomic uint32_t ready;             /* a stream has come to what has this number */
    _Alignas(64) _Atomic uint32_t done; /* the thread is through with it */
    _Alignas(64) _Atomic uint32_t free; /* uses of slots that are over */
};

struct asker {
    const struct cuda_driver *cu;
    struct team *team;
    struct asker_words *words;
    CUdeviceptr words_device;
    char *slots; /* STORE_SLOTS times `piece` bytes, used in turn */
    size_t piece;
    uint32_t numbered; /* by calls, which follow one another: the last number; uses of slots so far */
    uint64_t used;
    pthread_mutex_t lock;
    pthread_cond_t news, quiet;
    struct list entries; /* what is numbered, and the thread is not through with */
    bool busy, ends;
    struct thread thread;
};

/* words, slots: zeroed pinned memory. Then asker_close(), whatever comes back. */
tutti_result_t asker_open(struct asker *asker, struct team *team, struct asker_words *words, char *slots, size_t piece);
/* Streams have come to all that was asked. */
void asker_close(struct asker *asker);
/* Puts it on the stream, between order_begin() and order_end(). What is asked of peers comes first, then the waits. */
tutti_result_t asker_issue(struct asker *asker, const struct window_item *items, int count, CUstream stream);
/* Is the thread through with all that streams have come to? Waits for nothing. */
bool asker_is_through(void *asker);
/* Returns when the thread is through with all that streams have come to so far. */
void asker_settle(struct asker *asker);
/* The same of all that was issued: streams have come to it, or the team has failed. */
void asker_drain(struct asker *asker);

#endif
