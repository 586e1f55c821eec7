/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose streams wait for one another's signals. */
#ifndef TUTTI_EXECUTOR_GPU_CROSSED_H
#define TUTTI_EXECUTOR_GPU_CROSSED_H

#include <stdint.h>

struct gpu;

/* From the first wait for a signal on, the helper looks. */
void crossed_expect(struct gpu *gpu);
/* Fails the team if this rank waits for a signal that never comes. The microseconds until the next look; 0: none is
 * needed. */
uint64_t crossed_look(struct gpu *gpu);

#endif
