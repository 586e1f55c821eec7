/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives, in pieces. */
#ifndef TUTTI_EXECUTOR_STAGED_PIECES_H
#define TUTTI_EXECUTOR_STAGED_PIECES_H

#include "executor/staged/staged.h"

uint32_t pieces_channels(const struct staged *staged, const struct p2p_item *items, int count);
/* Channels of a job on rails. longest: bytes of the longest message of all rails, so all ranks get the same channels.
 */
uint32_t pieces_rail_channels(const struct staged *staged, size_t longest);
tutti_result_t pieces_run(struct channel *channel, const struct job *job);

#endif
