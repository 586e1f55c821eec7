/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that come to nothing. */
#ifndef TUTTI_EXECUTOR_GPU_UNDONE_H
#define TUTTI_EXECUTOR_GPU_UNDONE_H

#include <stdbool.h>

struct gpu;

/*
 * Lets go all streams that wait for words; to be called again and again. Those that wait for a copy go when it is over,
 * as their user may then free its memory: unless the copier is lost, or `at_once`.
 */
void undone_let_go(struct gpu *gpu, bool at_once);
/* Is there a message with `peer` that one of the two has let go before it was done? */
bool undone_with(const struct gpu *gpu, int peer);

#endif
