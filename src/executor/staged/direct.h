/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that adapters read and write by themselves: by descriptors (dma-buf), one for each allocation, which the
 * process keeps while the memory lives. Each end finds out for itself: a piece whose peer copies is copied here alone.
 */
#ifndef TUTTI_EXECUTOR_STAGED_DIRECT_H
#define TUTTI_EXECUTOR_STAGED_DIRECT_H

#include "executor/staged/staged.h"

/* Finds out whether adapters reach this GPU's memory, as far as driver and settings say. Says in the log why not. */
void direct_begin(struct staged *staged);
/* Bytes of a message from which they do; SIZE_MAX: they do not. */
size_t direct_from(const struct staged *staged);
/* Fills in where adapters find the messages' memory. Calls the driver: by a thread that issues. */
void direct_find(const struct staged *staged, struct p2p_item *items, int count);
/* Where adapters find a piece of a message. */
struct place direct_piece(struct place message, size_t from, size_t bytes);
/* Lets memory go that the user has freed. */
void direct_look(const struct cuda_driver *cu);

#endif
