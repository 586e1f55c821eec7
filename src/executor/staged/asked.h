/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on windows that a graph holds. */
#ifndef TUTTI_EXECUTOR_STAGED_ASKED_H
#define TUTTI_EXECUTOR_STAGED_ASKED_H

#include "executor/staged/staged.h"

/* The graph's kernel has come to them. What is asked of peers comes first, then the waits. */
tutti_result_t asked_run(struct channel *channel, const struct job *job);

#endif
