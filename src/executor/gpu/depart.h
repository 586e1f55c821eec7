/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that leave. What the others issued ends as if nothing had happened, if it needs nothing more of ranks that are
 * gone. */
#ifndef TUTTI_EXECUTOR_GPU_DEPART_H
#define TUTTI_EXECUTOR_GPU_DEPART_H

#include "executor/gpu/gone.h"

struct gpu;

/* What a thread knows that looks again and again at what this rank waits for. */
struct depart_watch {
    uint64_t from;             /* of step_first() */
    uint32_t ticket;           /* of the step that is being watched */
    unsigned looks;            /* in vain */
    uint64_t due;              /* the next one that counts */
    uint64_t deadline, latest; /* of a rank that leaves; 0: not set */
};

/* For the helper, again and again; the microseconds until it shall look again, 0: when there is news. */
uint64_t depart_look(struct gpu *gpu, struct depart_watch *watch);
/* A rank that departed may have let streams go: what they waited for is not done, and the team fails. */
void depart_notice(struct gpu *gpu);
/* A call cannot be carried out without that rank. Returns the error. */
tutti_result_t depart_refuse(struct gpu *gpu, struct departure who);
/* Nothing is left of what came before a refused call: the team fails. */
void depart_settle(struct gpu *gpu);
/* A peer's team has failed because a rank takes part no more: this executor says what fails here. */
bool depart_excuses(void *gpu, const struct wire_abort *news);
/* This rank's team has failed on the host because a rank takes part no more. Then this rank departs, too, as peers may
 * be excused. False: the team has failed of something else. */
bool depart_follow(struct gpu *gpu);
/* Is what this rank has issued over, or is it time to give up the rest? Peers that have come to the same operations
 * need this rank's kernels and copies. */
bool depart_is_through(const struct gpu *gpu, struct depart_watch *watch);

/*
 * The user aborts: no call begins any more. Operations that peers have come to, too, have a bounded time to end. Then
 * the team fails, and peers' operations that need nothing more of this rank end well. False: this rank cannot abort so,
 * or the team has failed.
 */
bool gpu_leave(struct gpu *gpu);
void gpu_wait_left(struct gpu *gpu);

#endif
