/* SPDX-License-Identifier: Apache-2.0 */
/* A call of all ranks as steps. */
#ifndef TUTTI_EXECUTOR_ISLANDS_STEPS_H
#define TUTTI_EXECUTOR_ISLANDS_STEPS_H

#include "executor/islands/islands.h"

enum islands_part { ISLANDS_ISLAND, ISLANDS_RAIL, ISLANDS_COPY };

/* Receives the steps in their order, numbered but for copies. A copy is of call->bytes, from in to out. longest: of a
 * rail, as staged_on_rail() has it. */
typedef tutti_result_t islands_step_fn(void *context, enum islands_part part, const struct call *call, size_t longest);

/* The number, on its island, of the rank that is on this rail. */
int islands_head(const struct islands *islands, int island, int rail);
/* Does the call go in steps? The same on all ranks. */
bool islands_composes(const struct islands *islands, const struct call *call);
/* Ends with the first step that fails. */
tutti_result_t islands_steps(const struct islands *islands, const struct call *call, islands_step_fn *each,
                             void *context);

#endif
