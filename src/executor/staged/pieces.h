/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives, in pieces. */
#ifndef TUTTI_EXECUTOR_STAGED_PIECES_H
#define TUTTI_EXECUTOR_STAGED_PIECES_H

#include "executor/staged/staged.h"

uint32_t pieces_channels(const struct staged *staged, const struct p2p_item *items, int count);
tutti_result_t pieces_run(struct channel *channel, const struct job *job);

#endif
