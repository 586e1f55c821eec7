/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives within an island and between islands. */
#ifndef TUTTI_EXECUTOR_ISLANDS_MESSAGES_H
#define TUTTI_EXECUTOR_ISLANDS_MESSAGES_H

#include "engine/p2p.h"
#include "executor/islands/islands.h"

/* With the device's context current. */
tutti_result_t islands_messages(struct islands *islands, const struct p2p_item *items, int count, CUstream stream);

#endif
