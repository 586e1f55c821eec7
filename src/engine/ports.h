/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of adapters are nearest to a GPU. */
#ifndef TUTTI_ENGINE_PORTS_H
#define TUTTI_ENGINE_PORTS_H

#include "base/place.h"
#include "transport/transport.h"

#include <stdbool.h>

/* A link's owner's near(). The context is an engine. */
uint32_t ports_near(void *context, struct place place, const struct transport_ops *ops);

struct engine;

/* The ports nearest to a GPU of this process, as bits; 0: not known, or all are as near. */
uint32_t ports_of(struct engine *engine, int gpu);
/* Is one of these up, and does no other process of this host want it for what it sends, or for what comes? */
bool ports_are_idle(struct engine *engine, uint32_t ports, bool comes);

#endif
