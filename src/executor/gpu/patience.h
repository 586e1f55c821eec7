/* SPDX-License-Identifier: Apache-2.0 */
/* How long this rank waits for peers that give no sign of life (TUTTI_TIMEOUT, config.timeout_ms). */
#ifndef TUTTI_EXECUTOR_GPU_PATIENCE_H
#define TUTTI_EXECUTOR_GPU_PATIENCE_H

#include "device/cuda/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* What the helper, which looks again and again, knows of peers' silence. */
struct patience_watch {
    uint64_t from;                 /* of step_first() */
    uint32_t ticket;               /* of the step that was not over at the last look; 0: all were */
    uint64_t looked, nap;          /* when that was, and how long until the next one; ns */
    uint64_t waited[KERNEL_RANKS]; /* for that rank since it was known to live, in time in which this process ran */
    uint32_t asked[KERNEL_RANKS];  /* the number of the question; 0: there is none */
    bool kernels;                  /* were asked for whom they wait */
};

/* For the helper. Answers peers that have asked whether this process lives. */
void patience_answer(struct gpu *gpu);
/* Returns the microseconds until the helper shall look again. The team fails if a peer is silent for too long. */
uint64_t patience_look(struct gpu *gpu, struct patience_watch *watch);
/* From here on a call waits for the host of that rank; from here on it does not any more. */
void patience_begin(struct gpu *gpu, int rank);
void patience_end(struct gpu *gpu, int rank);

#endif
