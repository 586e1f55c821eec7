/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks take part no more: closed, aborted, lost. */
#ifndef TUTTI_EXECUTOR_GPU_GONE_H
#define TUTTI_EXECUTOR_GPU_GONE_H

#include "executor/gpu/mailbox.h"

struct gpu;

/* What is known of a rank that takes part no more. */
struct departure {
    int culprit;
    enum mailbox_cause cause;
};

/* Is the rank's process lost? */
bool gone_is_lost(const struct gpu *gpu, int rank);
/* Does the rank take part no more, for whatever cause? */
bool gone_is(const struct gpu *gpu, int rank, struct departure *out);
bool gone_any(const struct gpu *gpu);
/* That rank's process is lost: peers hear of it. */
void gone_note(struct gpu *gpu, int rank);

#endif
