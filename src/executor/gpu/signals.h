/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of windows: words that a sender's stream counts up, and for which signals each step waits. */
#ifndef TUTTI_EXECUTOR_GPU_SIGNALS_H
#define TUTTI_EXECUTOR_GPU_SIGNALS_H

#include "base/list.h"
#include "device/cuda/kernels/kernels.h"
#include "executor/gpu/opened.h"
#include "tutti/tutti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpu;
struct mailbox_step;

/* What an executor has of windows, and of the signals that this rank waits for. */
struct gpu_windows {
    pthread_mutex_t lock; /* guards the list, as memory may be registered beside calls */
    struct list all;
    _Atomic bool any;                                    /* there is one, or was */
    struct opened example;                               /* memory of one, for a sentence */
    _Atomic uint32_t taken[KERNEL_RANKS][TUTTI_SIGNALS]; /* signals that calls have waited for */
    _Atomic bool waits;                                  /* some call has waited for a signal */
    _Atomic bool by_kernel;                              /* a graph has calls on windows: kernels count, not the host */
};

/* This rank is about to issue a step that waits for signals: none so far. */
void signals_begin(struct gpu *gpu);
/* The step takes `count` of a peer's signals, which may have come. The value for which its stream waits. */
uint32_t signals_take(struct gpu *gpu, int peer, uint32_t signal, uint32_t count);
/* A signal of `rank` for which a step of `waiter` waits, and that is not raised; -1: there is none. How many signals a
 * rank's stream has raised for another one. */
int signals_missing(const struct gpu *gpu, int waiter, const struct mailbox_step *step, int rank);
uint32_t signals_raised(const struct gpu *gpu, int rank, int waiter);
/* Has the peer called for all that would be taken with `count` more, or raised it? */
bool signals_would_come(const struct gpu *gpu, int peer, uint32_t signal, uint32_t count);
/* Have the signals of a rank that this rank's step waits for been raised, called for? */
bool signals_are_raised(const struct gpu *gpu, const struct mailbox_step *step, int peer);
bool signals_are_called(const struct gpu *gpu, const struct mailbox_step *step, int peer);
/* Lets streams go that wait for the peer's. To be called again and again. */
void signals_let_go(struct gpu *gpu, int peer);
/* A peer whose puts or gets lie in a stream, and that may still carry them out; -1: there is none. */
int signals_find_putting(const struct gpu *gpu);

#endif
