/* SPDX-License-Identifier: Apache-2.0 */
/* How fast memory is through an adapter, as far as SOFTVERBS_RATES says: a GPU behind another bridge is slower than one
 * beside the adapter. All calls under the engine's lock. Times are of the monotonic clock, in ns. */
#ifndef VERBS_PACE_H
#define VERBS_PACE_H

#include "verbs/object.h"

/* Takes a list such as "gpu1@mlx5_0=2gbit,host@*=10gbit" for memory that is registered from now on. False: it cannot be
 * used, and nothing has changed. */
bool pace_set(const char *text);

/* That of memory through this device, NULL: it has no rate. `memory` is a descriptor's (dmabuf_memory()), 0: the
 * process's own, at `address`. */
struct pace *pace_of(const struct rdma_device *device, uint64_t memory, const void *address);

/* Whether any pair has one: the way of packets asks no more, if none has. */
bool pace_used(void);

/* Both at once do not disturb each other: a bus has two directions. */
enum pace_way { PACE_OUT_OF_MEMORY, PACE_INTO_MEMORY };

/* `size` bytes go through now. NULL is allowed. */
void pace_charge(struct pace *pace, enum pace_way way, size_t size, uint64_t now);

/* Whether who has this turn may move something now; else turn->at says when. Those who wait for the same memory take
 * turns. */
bool pace_may(const struct pace *pace, enum pace_way way, struct pace_turn *turn, uint64_t now);

/* The holder of the turn has moved `size` bytes. */
void pace_took(struct pace_turn *turn, size_t size);

/* When all that was charged is through, a little before: 0 without a rate. */
uint64_t pace_through(const struct pace *pace, enum pace_way way);

/* Calls with each pair that memory was registered for. */
void pace_each(void (*each)(const char *rule, const char *device, uint64_t rate, const uint64_t moved[2], void *arg),
               void *arg);

#endif
