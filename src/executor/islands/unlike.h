/* SPDX-License-Identifier: Apache-2.0 */
/* Steps where islands are not alike. */
#ifndef TUTTI_EXECUTOR_ISLANDS_UNLIKE_H
#define TUTTI_EXECUTOR_ISLANDS_UNLIKE_H

#include "executor/islands/walk.h"

/* Is there room for what lies between two steps? Of blocks ranks follow one another. */
bool unlike_composes(const struct islands *islands, const struct call *call);
tutti_result_t unlike_steps(const struct walk *walk);

#endif
