/* SPDX-License-Identifier: Apache-2.0 */
/* Which mapped buffers kernels know, for messages that kernels of their owner invite to. */
#ifndef TUTTI_EXECUTOR_GPU_TELL_H
#define TUTTI_EXECUTOR_GPU_TELL_H

#include <stdbool.h>
#include <stdint.h>

struct gpu;
struct import;

/* By the importer: tells kernels of the mapping in that place if they want it. */
void tell_mapping(struct gpu *gpu, int peer, int offer);
/* From here on no kernel that begins stores to that offer; a kernel that has begun may. Number 0: whichever offer is
 * there. */
void tell_no_more(struct gpu *gpu, int peer, int offer, uint32_t number);
/* Is no kernel under way that may store to it? In a pause: idle_try(). */
bool tell_is_over(const struct gpu *gpu, const struct import *import);
/* Writes to the log how messages went; nothing is told any more. */
void tell_close(struct gpu *gpu);

#endif
