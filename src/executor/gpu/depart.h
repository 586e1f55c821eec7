/* SPDX-License-Identifier: Apache-2.0 */
/* What others issued, and what needs nothing any more of ranks that are gone, ends as if nothing had happened. */
#ifndef TUTTI_EXECUTOR_GPU_DEPART_H
#define TUTTI_EXECUTOR_GPU_DEPART_H

#include "executor/gpu/gone.h"

struct gpu;

/* What somebody knows who looks again and again at what this rank waits for. */
struct depart_watch {
    uint64_t from;             /* of step_first() */
    uint32_t ticket;           /* of the step that is being watched */
    unsigned looks;            /* in vain */
    uint64_t due;              /* the next one that counts */
    uint64_t deadline, latest; /* of one that leaves; 0: not set */
};

/* For the helper, again and again; the microseconds until it shall look again, 0: when there is news. */
uint64_t depart_look(struct gpu *gpu, struct depart_watch *watch);
/* Streams may have been let go by a rank that departed: what they waited for is undone, and the team fails. */
void depart_notice(struct gpu *gpu);
/* A call cannot be carried out without that rank. Returns the error. */
tutti_result_t depart_refuse(struct gpu *gpu, struct departure who);
/* Nothing is left of what came before a refused call: the team fails. */
void depart_settle(struct gpu *gpu);
/* A peer's team has failed because a rank takes part no more: it is for this executor to say what fails here. */
bool depart_excuses(void *gpu, const struct wire_abort *news);
/* This rank's team has, on the host: then this rank departs, too, as peers may be excused. False: of something else. */
bool depart_follow(struct gpu *gpu);
/* Is what this rank has issued over, or is it time to give up the rest? Peers that have come to it need this rank's
 * kernels and copies. */
bool depart_is_through(const struct gpu *gpu, struct depart_watch *watch);

/*
 * The user aborts: no call begins any more. Operations that peers have come to, too, have a bounded time to end. Then
 * the team fails, and peers' operations that need nothing more of this rank end well. False: this rank cannot abort so,
 * or the team has failed.
 */
bool gpu_leave(struct gpu *gpu);
void gpu_wait_left(struct gpu *gpu);

#endif
