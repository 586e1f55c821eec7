/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that replay what others call, where that cannot go well. */
#ifndef TUTTI_EXECUTOR_GPU_MIXING_H
#define TUTTI_EXECUTOR_GPU_MIXING_H

#include "executor/gpu/mailbox.h"

struct gpu;

#define MIXING_MESSAGES (2 * MAILBOX_POSTS)

/* A look for ranks that call what this one replays. */
struct mixing_watch {
    uint32_t suspects; /* bits of ranks, by the last look, at which kernels were asked */
    uint32_t over[KERNEL_RANKS];
    unsigned looks[KERNEL_RANKS]; /* in a row, that found the same */
    uint64_t due;                 /* the next look */
};

/* For the helper: the team fails if a rank calls what this one replays. Returns the microseconds until the helper shall
 * look again, 0: when there is news. */
uint64_t mixing_look(struct gpu *gpu, struct mixing_watch *watch);
/* The same, while a call waits for the other end's message of MAILBOX_POSTS before: was that carried without a call? */
void mixing_wait(struct gpu *gpu, int peer, int end, uint32_t number);

#endif
