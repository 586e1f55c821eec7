/* SPDX-License-Identifier: Apache-2.0 */
/* Acting on news of peers, by one thread for all executors of the process. */
#ifndef TUTTI_EXECUTOR_GPU_HELPER_H
#define TUTTI_EXECUTOR_GPU_HELPER_H

#include "base/attend.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/mixing.h"
#include "executor/gpu/patience.h"

struct gpu;

/* What the helper knows of one executor. */
struct gpu_helper {
    struct attended attended;
    struct depart_watch departs;
    struct mixing_watch mixing;
    struct patience_watch patience;
    uint64_t pause;    /* between attempts to send descriptors; us */
    uint64_t deadline; /* of copies that are under way when the team has failed; 0: it has not */
};

tutti_result_t helper_start(struct gpu *gpu);
void helper_stop(struct gpu *gpu);

#endif
