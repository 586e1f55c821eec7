/* SPDX-License-Identifier: Apache-2.0 */
/* Operations over links: any schedule, a few slices at a time, each going through its rounds at its own pace. The kind
 * is op_rounds. */
#ifndef TUTTI_ENGINE_ROUNDS_H
#define TUTTI_ENGINE_ROUNDS_H

#include "engine/team.h"

/* Gives back the state that a team keeps for its next operation. */
void rounds_free(struct rounds *rounds);

#endif
