/* SPDX-License-Identifier: Apache-2.0 */
/* How a call will go: found once, before it is issued. */
#ifndef TUTTI_EXECUTOR_GPU_PREPARE_H
#define TUTTI_EXECUTOR_GPU_PREPARE_H

#include "engine/executor.h"
#include "plan/plan.h"

struct call;
struct gpu;

/* What is known of a call before it is issued: what lies in its note. */
struct __attribute__((may_alias)) prepared {
    struct plan plan[2];        /* of a call, and if it is captured: that shows when it is issued */
    bool symmetric;             /* what it reads and writes is symmetric memory */
    bool in_beside, out_beside; /* of a reduction where memory lies: scratch stands in, as peers do not reach it */
};
_Static_assert(sizeof(struct prepared) <= sizeof(struct executor_note), "a caller keeps it");

static inline const struct prepared *prepared_of(const struct executor_note *note)
{
    return (const struct prepared *)note;
}

/* A call of no elements does nothing, unless others have some, or it is to meet them. */
bool prepare_is_empty(const struct call *call);

/* What may need peers' hosts is begun: calls that one thread issues for several ranks are all prepared before any is
 * issued. */
tutti_result_t prepare_call(struct gpu *gpu, const struct call *call, struct prepared *out);

#endif
