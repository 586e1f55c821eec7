/* SPDX-License-Identifier: Apache-2.0 */
/* Posted writes: what an adapter has written to a device's memory, and told of, may not be there yet. All calls with
 * the engine's lock held. */
#ifndef VERBS_POSTED_H
#define VERBS_POSTED_H

#include "verbs/object.h"

/* Keeps a write back, if the fault `posted` is set. False: the caller writes, and nothing is kept back before it. */
bool posted_hold(const struct mr *mr, uint8_t *to, const void *from, size_t size);

/* The region's memory is read by its adapter: what that one wrote there before goes first. */
void posted_push(const struct mr *mr);

/* After a fork: what waits is the parent's. */
void posted_forget(void);

/* The same by all adapters to the memory of this number, 0: to any. */
void posted_flush(uint64_t memory);

#endif
