/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives within an island and between islands. */
#ifndef TUTTI_EXECUTOR_ISLANDS_MESSAGES_H
#define TUTTI_EXECUTOR_ISLANDS_MESSAGES_H

#include "engine/p2p.h"
#include "executor/islands/islands.h"

/* With the device's context current. */
tutti_result_t islands_messages(struct islands *islands, const struct p2p_item *items, int count, CUstream stream);

/* Is the collective one message from each to each, or from or to the root? The same on all ranks. */
bool islands_is_messages(const struct call *call);
/* Runs a collective of messages. With the device's context current. */
tutti_result_t islands_exchange(struct islands *islands, const struct call *call, CUstream stream);

#endif
